"""Conversions from and to f16 and bf16: exhaustive from 16 bits, and to 16 bits wherever a second rounding could show."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pytest
from rounding import BOTH, EVERY, Narrow, assert_same

from kdsl import DisjointSlice, Slice, elements, kernel, thread_index
from kdsl.lang.types import DTYPES, DType, convert_constant
from kdsl.testing import devices

T = TypeVar("T")
U = TypeVar("U")
every_device = pytest.mark.parametrize("device", devices(), ids=str)
narrow = pytest.mark.parametrize("of", BOTH, ids=lambda of: of.type.name)
INTEGERS = [t for t in DTYPES.values() if t.is_integer]


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def convert(y: DisjointSlice[T], x: Slice[U]) -> None:
    """Convert all elements."""
    i = thread_index()
    if i in y:
        y[i] = y.dtype(x[i])


def on_device(device: Any, to: DType, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """All of `values` as elements of type `to`, converted on the device."""
    x = device.array(values)
    y = device.zeros(values.size, to)
    convert(y, x)
    return np.asarray(y.numpy())


def doubles(of: Narrow, found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return of.values(found.view(np.uint16))


@every_device
@narrow
@pytest.mark.parametrize("to", INTEGERS, ids=str)
def test_every_value_to_integers(device: Any, of: Narrow, to: DType) -> None:
    values = of.values(EVERY)
    with np.errstate(invalid="ignore"):
        inside = np.trunc(np.clip(np.nan_to_num(values, nan=0.0), -(2.0**62), 2.0**62))
        wanted = np.clip(inside.astype(np.int64), max(to.minimum, -(2**63)), min(to.maximum, 2**63 - 1)).astype(to.numpy)
    for place in np.flatnonzero(np.abs(values) >= 2.0**62):
        wanted[place] = min(max(int(values[place]), to.minimum), to.maximum) if np.isfinite(values[place]) else wanted[place]
    wanted[np.isposinf(values)], wanted[np.isneginf(values)] = to.maximum, to.minimum
    np.testing.assert_array_equal(on_device(device, to, EVERY.view(of.numpy)), wanted)


@every_device
@narrow
def test_every_value_to_bool_and_wider_floats(device: Any, of: Narrow) -> None:
    values = of.values(EVERY)
    np.testing.assert_array_equal(on_device(device, DTYPES["bool"], EVERY.view(of.numpy)), values != 0)  # a NaN is True
    for to in ("f32", "f64"):
        with np.errstate(invalid="ignore"):  # NaNs that signal
            assert_same(on_device(device, DTYPES[to], EVERY.view(of.numpy)).astype(np.float64), values)


@every_device
@narrow
def test_every_value_to_the_other_narrow_float(device: Any, of: Narrow) -> None:
    other = next(n for n in BOTH if n is not of)
    values = of.values(EVERY)
    assert_same(doubles(other, on_device(device, other.type, EVERY.view(of.numpy))), other.rounded(values), EVERY)


@every_device
@narrow
def test_f32_to_nearest_even(device: Any, of: Narrow) -> None:
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    low = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x2FFF, 0x3000, 0x3001, 0x7FFF, 0x8000, 0x8001, 0x9000, 0xF000, 0xFFFF]
    random = np.random.default_rng(1).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    values = np.concatenate([*(upper | np.uint32(bits) for bits in low), random]).view(np.float32)
    with np.errstate(invalid="ignore"):
        wanted = of.rounded(values.astype(np.float64))
    assert_same(doubles(of, on_device(device, of.type, values)), wanted, values)


def around_middles(of: Narrow) -> np.ndarray[Any, Any]:
    """For every two neighbours their middle, what lies next to it in f64, and what rounds to it in f32 without being it."""
    low = of.values(EVERY)
    high = of.values((EVERY + np.uint16(1)).astype(np.uint16))
    with np.errstate(invalid="ignore", over="ignore"):
        middle = low / 2 + high / 2
        beyond = np.where(np.isinf(high), low * 1.5, low)  # about where numbers become infinite
        usable = np.isfinite(low) & np.isfinite(middle)
        found = [middle[usable]]
        for nudge in (2.0**-52, 2.0**-40, 2.0**-30, 2.0**-26, 2.0**-24, 2.0**-20):
            found += [middle[usable] * (1 + nudge), middle[usable] * (1 - nudge)]
    edge = of.largest + 2.0 ** (np.frexp(of.largest)[1] - 1 - of.precision)  # the first number that becomes infinite
    ends = [
        edge,
        np.nextafter(edge, 0),
        1e300,
        2.0**1023,
        2.0**-1074,
        2.0**-149,
        2.0**-150,
        np.nextafter(2.0**-150, 1),
        np.inf,
        np.nan,
        0.0,
    ]
    return np.concatenate([*found, beyond[np.isfinite(beyond)], ends, np.negative(ends)])


@every_device
@narrow
def test_f64_rounds_once(device: Any, of: Narrow) -> None:
    random = np.random.default_rng(2).integers(0, 1 << 64, 1 << 16, dtype=np.uint64).view(np.float64)
    small = np.ldexp(np.random.default_rng(3).uniform(-2, 2, 1 << 16), np.random.default_rng(4).integers(-160, 130, 1 << 16))
    values = np.concatenate([around_middles(of), random, small, [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-40]])
    assert_same(doubles(of, on_device(device, of.type, values)), of.rounded(values), values)


def integers(of: Narrow, source: DType) -> list[int]:
    """Ties between two values of the type and their neighbours, of every magnitude; the ends; random ones."""
    if source.bits <= 16:
        return list(range(source.minimum, source.maximum + 1))
    found = {0, 1, source.minimum, source.maximum, source.minimum + 1, source.maximum - 1}
    random = np.random.default_rng(source.bits)
    for shift in range(source.bits):
        for head in (1 << of.precision, (1 << of.precision) + 1, (1 << (of.precision + 1)) - 1, (1 << of.precision) + 6):
            for offset in (-1, 0, 1, 1 << max(shift - 25, 0), -(1 << max(shift - 25, 0)), 2047, 2048, 2049, -2048, 4096):
                found |= {(head << shift) + offset, -(head << shift) + offset}
        found |= {int(n) >> shift for n in random.integers(0, 1 << 63, 20)}
        found |= {-(int(n) >> shift) for n in random.integers(0, 1 << 63, 20)}
    return sorted(n for n in found if source.minimum <= n <= source.maximum)


@every_device
@narrow
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integers_round_once(device: Any, of: Narrow, source: DType) -> None:
    numbers = integers(of, source)
    wanted = np.array([of.rounded_fraction(Fraction(n)) if n else 0.0 for n in numbers])
    found = on_device(device, of.type, np.array(numbers, dtype=source.numpy))
    assert_same(doubles(of, found), wanted, numbers)


@every_device
@narrow
def test_bools(device: Any, of: Narrow) -> None:
    found = on_device(device, of.type, np.array([False, True]))
    assert doubles(of, found).tolist() == [0.0, 1.0]


@narrow
def test_constants_convert_as_at_run_time(of: Narrow) -> None:
    values = around_middles(of)[::7]
    assert_same(np.array([convert_constant(of.type, v) for v in values.tolist()]), of.rounded(values), values)
    for source in INTEGERS:
        numbers = integers(of, source)[::5]
        wanted = np.array([of.rounded_fraction(Fraction(n)) if n else 0.0 for n in numbers])
        assert_same(np.array([convert_constant(of.type, n) for n in numbers]), wanted, numbers)
    assert convert_constant(of.type, 10**400) == np.inf
    assert convert_constant(of.type, -(10**400)) == -np.inf


@pytest.mark.parametrize("of", ["f32", "f64"])
def test_wider_constants_round_once(of: str) -> None:
    to = DTYPES[of]
    with np.errstate(over="ignore"):
        for value in [1e300, 1.7976931348623157e308, 3.4028235677973366e38, 3.4028235677973362e38, 2.0**-150, 2.0**-149 * 0.75, -0.0, 0.1]:
            assert convert_constant(to, value) == float(to.numpy.type(value))
    assert convert_constant(to, (1 << 60) + (1 << 36) + 1) == {"f32": float((1 << 60) + (1 << 37)), "f64": float((1 << 60) + (1 << 36))}[of]
