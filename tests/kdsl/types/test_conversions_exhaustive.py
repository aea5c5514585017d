"""Every type to every type: of 8 and 16 bits all values there are, of the wider ones ends, ties and what lies beside them.

The reference computes with Python's integers and fractions: an integer wraps, a float is cut and saturates, rounding is to nearest even, and once.
Into f16 and bf16 there is more in `test_narrow_conversions.py`: every middle between two of their values.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final, TypeVar

import numpy as np
import pytest
from numpy_grid import FLOATS, INTEGERS, NUMPY, TYPES, Array, assert_bits, every, poisoned, values
from numpy_grid import rounded as rounded_array

from kdsl import Slice, SliceMut, bf16, elements, f16, f32, f64, i8, i16, i32, i64, kernel, thread_index, u8, u16, u32, u64
from kdsl.lang.types import DTYPES, convert_constant
from kdsl.testing import devices

T = TypeVar("T")
every_device = pytest.mark.parametrize("device", devices(), ids=str)
PRECISION: Final = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
LEAST: Final = {"f16": -24, "bf16": -133, "f32": -149, "f64": -1074}
"""Exponent of the smallest subnormal number."""
BEYOND: Final = {"f16": 16, "bf16": 128, "f32": 128, "f64": 1024}
"""Exponent of the first power of two that is infinite."""


ENDS: Final = {of: (int(np.iinfo(NUMPY[of]).min), int(np.iinfo(NUMPY[of]).max)) for of in INTEGERS}


@kernel(grid=elements("x"), block=64, requires=tuple(f"len(to_{of}) == len(x)" for of in TYPES))
def to_all(
    to_bool: SliceMut[bool], to_i8: SliceMut[i8], to_i16: SliceMut[i16], to_i32: SliceMut[i32], to_i64: SliceMut[i64],
    to_u8: SliceMut[u8], to_u16: SliceMut[u16], to_u32: SliceMut[u32], to_u64: SliceMut[u64],
    to_f16: SliceMut[f16], to_bf16: SliceMut[bf16], to_f32: SliceMut[f32], to_f64: SliceMut[f64], x: Slice[T],
) -> None:  # fmt: skip
    """All conversions of a value."""
    i = thread_index()
    if i in x:
        v = x[i]
        to_bool[i] = bool(v)
        to_i8[i] = i8(v)
        to_i16[i] = i16(v)
        to_i32[i] = i32(v)
        to_i64[i] = i64(v)
        to_u8[i] = u8(v)
        to_u16[i] = u16(v)
        to_u32[i] = u32(v)
        to_u64[i] = u64(v)
        to_f16[i] = f16(v)
        to_bf16[i] = bf16(v)
        to_f32[i] = f32(v)
        to_f64[i] = f64(v)


def rounded(to: str, exact: Fraction) -> float:
    """A number that is not 0, rounded to nearest even; too large a one is infinite."""
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent + 1 - PRECISION[to], LEAST[to])
    result = round(size / unit) * unit
    return math.copysign(math.inf if result >= Fraction(2) ** BEYOND[to] else float(result), exact)


def converted(to: str, value: bool | int | float) -> bool | int | float:
    """What `to(value)` is."""
    if to == "bool":
        return value != 0
    if to in FLOATS:
        special = isinstance(value, float) and (value == 0 or not math.isfinite(value))
        return float(value) if special or value == 0 else rounded(to, Fraction(value))
    low, high = ENDS[to]
    if not isinstance(value, float):
        return (int(value) - low) % (high - low + 1) + low
    if math.isnan(value):
        return 0
    return (high if value > 0 else low) if math.isinf(value) else min(max(int(value), low), high)


def converted_array(to: str, x: Array) -> Array:
    """The same for an array. What has 16 bits is exact as a double."""
    if to in FLOATS and x.itemsize <= 2:
        return rounded_array(to, x.astype(np.float64))
    numbers = x.astype(np.float64).tolist() if x.dtype.kind not in "iub" else x.tolist()
    return np.array([converted(to, v) for v in numbers], np.float64 if to in FLOATS else NUMPY[to]).astype(NUMPY[to])


def wide(of: str) -> Array:
    """Values of a type of 32 or 64 bits: special ones, the ends of every integer type, middles between neighbours of narrower floats and what lies beside."""
    numbers: list[Any] = values(of).tolist()
    if of in FLOATS:
        for bits in (7, 8, 15, 16, 31, 32, 63, 64):
            for end in (2.0**bits, -(2.0**bits)):
                numbers += [end, end - 1, end + 1, end - 0.5, end + 0.5, math.nextafter(end, 0), math.nextafter(end, end * 2)]
        numbers += [0.5, 0.99999999, -0.5, -0.99999999, -1.0]
        exponents = [n for to in FLOATS for n in (LEAST[to], LEAST[to] + PRECISION[to] - 1, LEAST[to] + PRECISION[to], BEYOND[to] - 1)]
        exponents = [n for n in (*exponents, -3, 0, 5, 20) if LEAST[of] <= n < BEYOND[of]]
    else:
        exponents = list(range(np.iinfo(NUMPY[of]).bits))
    for to, precision in PRECISION.items():
        for exponent in exponents:
            for head in (0, 1, 2, (1 << precision) // 2, (1 << precision - 1) - 1):  # with the first bit of a number of the type
                middle = Fraction(2) ** exponent * (1 + Fraction(2 * head + 1, 1 << precision))
                for step in (0, 1, -1):
                    if of in FLOATS:
                        if middle < Fraction(2) ** BEYOND[of] and to != of:
                            near = min(float(middle), float(np.finfo(NUMPY[of]).max) / 2)
                            unit = math.ulp(near) if of == "f64" else float(np.spacing(np.float32(near)))
                            numbers += [near + step * unit, -(near + step * unit)]
                    elif middle.denominator == 1:
                        numbers += [int(middle) + step, -int(middle) + step]
    if of not in FLOATS:
        bounds = np.iinfo(NUMPY[of])
        numbers = [n for n in numbers if bounds.min <= n <= bounds.max]
    with np.errstate(all="ignore"):
        return np.unique(np.array(numbers, NUMPY[of]))


@every_device
@pytest.mark.parametrize("of", TYPES)
def test_to_every_type(device: Any, of: str) -> None:
    x = every(of) if np.dtype(NUMPY[of]).itemsize <= 2 else wide(of)
    results = {to: poisoned(device, to, x.size) for to in TYPES}
    to_all(*results.values(), device.array(x))
    with np.errstate(all="ignore"):
        for to, found in results.items():
            assert_bits(found.numpy(), converted_array(to, x), f"{to} of {of}", x)


@pytest.mark.parametrize("of", [of for of in TYPES if np.dtype(NUMPY[of]).itemsize <= 2])
def test_constants_likewise(of: str) -> None:
    """What the compiler computes of values that it knows, all there are of 8 and 16 bits."""
    x = every(of)
    with np.errstate(invalid="ignore"):
        given = (x.astype(np.float64) if of in FLOATS else x).tolist()
        for to in TYPES:
            found = np.array([convert_constant(DTYPES[to], v) for v in given], np.float64 if to in FLOATS else NUMPY[to])
            assert_bits(found.astype(NUMPY[to]), converted_array(to, x), f"{to} of {of}", x)


@every_device
def test_any_byte_but_0_is_true(device: Any) -> None:
    x = np.arange(256).astype(np.uint8)
    results = {to: poisoned(device, to, x.size) for to in TYPES}
    to_all(*results.values(), device.array(x.view(np.bool_)))
    for to, found in results.items():
        np.testing.assert_array_equal(found.numpy().astype(np.float64), x != 0, err_msg=to)


def test_the_reference_by_hand() -> None:
    assert converted("f16", 2049) == 2048.0
    assert converted("f16", 2051) == 2052.0
    assert converted("f16", 65520) == math.inf
    assert converted("f32", 16777217) == 16777216.0
    assert converted("bf16", 2.0**-134) == 0.0
    assert math.copysign(1, float(converted("bf16", -(2.0**-134)))) == -1
    assert converted("i8", 200) == -56
    assert converted("u8", -1.5) == 0
    assert converted("i32", 3e9) == 2**31 - 1
