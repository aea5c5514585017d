"""Operators on one operand, and augmented assignment, of every type that has them, against NumPy; types of 8 and 16 bits exhaustively."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest
from numpy_grid import (
    FLOATS,
    INTEGER_OPERATORS,
    INTEGERS,
    NUMPY,
    REAL_OPERATORS,
    TYPES,
    Array,
    assert_bits,
    every,
    meet,
    pairs,
    poisoned,
    real_power,
    rounded,
    values,
)

from kdsl import Slice, SliceMut, ceil, elements, floor, fma, kernel, rint, sqrt, thread_index, trunc
from kdsl.testing import devices

T = TypeVar("T")
U = TypeVar("U")
every_device = pytest.mark.parametrize("device", devices(), ids=str)
POWERS = (0, 1, 2, 3, 7, 10, -1, -3)


def operand(of: str) -> Array:
    return every(of) if of == "bool" or np.dtype(NUMPY[of]).itemsize <= 2 else values(of)


@kernel(grid=elements("x"), block=64, requires=("len(z) == 3 * len(x)",))
def truths(z: SliceMut[bool], x: Slice[T]) -> None:
    """`not x`, `bool(x)`, and x as a condition."""
    i = thread_index()
    if i in x:
        n = len(x)
        z[i] = not x[i]
        z[i + n] = bool(x[i])
        if x[i]:
            z[i + 2 * n] = True
        else:
            z[i + 2 * n] = False


@every_device
@pytest.mark.parametrize("of", TYPES)
def test_truth(device: Any, of: str) -> None:
    x = operand(of)
    z = poisoned(device, "bool", 3 * x.size)
    truths(z, device.array(x))
    with np.errstate(invalid="ignore"):
        true = x != NUMPY[of](0)  # a NaN counts as true
    np.testing.assert_array_equal(z.numpy().reshape(3, -1), np.stack([~true, true, true]))


@kernel(grid=elements("x"), block=64, requires=("len(z) == 6 * len(x)",))
def integer_unary(z: SliceMut[T], x: Slice[T]) -> None:
    i = thread_index()
    if i in x:
        a, n = x[i], len(x)
        z[i] = -a
        z[i + n] = +a
        z[i + 2 * n] = ~a
        z[i + 3 * n] = abs(a)
        z[i + 4 * n] = a**3
        z[i + 5 * n] = a**0


@every_device
@pytest.mark.parametrize("of", INTEGERS)
def test_integers(device: Any, of: str) -> None:
    x = operand(of)
    z = poisoned(device, of, 6 * x.size)
    integer_unary(z, device.array(x))
    with np.errstate(all="ignore"):
        wanted = (np.negative(x), x, np.invert(x), np.abs(x), x * x * x, np.ones_like(x))
    for name, found, expected in zip(("-", "+", "~", "abs", "** 3", "** 0"), z.numpy().reshape(6, -1), wanted, strict=True):
        assert_bits(found, expected, f"{name} of {of}", x)


@kernel(grid=elements("x"), block=64, requires=("len(z) == 16 * len(x)",))
def real_unary(z: SliceMut[T], x: Slice[T]) -> None:
    i = thread_index()
    if i in x:
        a, n = x[i], len(x)
        z[i] = -a
        z[i + n] = +a
        z[i + 2 * n] = abs(a)
        z[i + 3 * n] = sqrt(a)
        z[i + 4 * n] = floor(a)
        z[i + 5 * n] = ceil(a)
        z[i + 6 * n] = trunc(a)
        z[i + 7 * n] = rint(a)
        z[i + 8 * n] = a**0
        z[i + 9 * n] = a**1
        z[i + 10 * n] = a**2
        z[i + 11 * n] = a**3
        z[i + 12 * n] = a**7
        z[i + 13 * n] = a**10
        z[i + 14 * n] = a**-1
        z[i + 15 * n] = a**-3


@every_device
@pytest.mark.parametrize("of", FLOATS)
def test_floats(device: Any, of: str) -> None:
    x = operand(of)
    z = poisoned(device, of, 16 * x.size)
    real_unary(z, device.array(x))
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        root = np.sqrt(x) if of in ("f32", "f64") else rounded(of, np.sqrt(wide))
        whole = [operation(wide).astype(NUMPY[of]) for operation in (np.floor, np.ceil, np.trunc, np.rint)]
        wanted = [(-wide).astype(NUMPY[of]), x, np.abs(wide).astype(NUMPY[of]), root, *whole, *(real_power(of, x, n) for n in POWERS)]
        names = ("-", "+", "abs", "sqrt", "floor", "ceil", "trunc", "rint", *(f"** {n}" for n in POWERS))
        for name, found, expected in zip(names, z.numpy().reshape(16, -1), wanted, strict=True):
            assert_bits(found, expected, f"{name} of {of}", x)


@kernel(grid=elements("x"), block=64, requires=("len(x) == len(y)", f"len(z) == {len(INTEGER_OPERATORS) - 2} * len(x)", "len(e) == len(z)"))
def integer_augmented(z: SliceMut[T], e: SliceMut[T], x: Slice[T], y: Slice[U]) -> None:
    """Of a name in `z`, of an element in `e`; no min and max."""
    i = thread_index()
    if i in x:
        b, n = y[i], len(x)
        for k in range(10):
            e[i + k * n] = x[i]
        t = x[i]
        t += b
        z[i] = t
        e[i] += b
        t = x[i]
        t -= b
        z[i + n] = t
        e[i + n] -= b
        t = x[i]
        t *= b
        z[i + 2 * n] = t
        e[i + 2 * n] *= b
        t = x[i]
        t //= b
        z[i + 3 * n] = t
        e[i + 3 * n] //= b
        t = x[i]
        t %= b
        z[i + 4 * n] = t
        e[i + 4 * n] %= b
        t = x[i]
        t &= b
        z[i + 5 * n] = t
        e[i + 5 * n] &= b
        t = x[i]
        t |= b
        z[i + 6 * n] = t
        e[i + 6 * n] |= b
        t = x[i]
        t ^= b
        z[i + 7 * n] = t
        e[i + 7 * n] ^= b
        t = x[i]
        t <<= b
        z[i + 8 * n] = t
        e[i + 8 * n] <<= b
        t = x[i]
        t >>= b
        z[i + 9 * n] = t
        e[i + 9 * n] >>= b


@kernel(grid=elements("x"), block=64, requires=("len(x) == len(y)", "len(z) == 8 * len(x)", "len(e) == len(z)"))
def real_augmented(z: SliceMut[T], e: SliceMut[T], x: Slice[T], y: Slice[U]) -> None:
    """Of a name in `z`, of an element in `e`; last `t += a * b` and `t -= a * b`, which fuse, beside fma()."""
    i = thread_index()
    if i in x:
        b, n = y[i], len(x)
        for k in range(8):
            e[i + k * n] = x[i]
        t = x[i]
        t += b
        z[i] = t
        e[i] += b
        t = x[i]
        t -= b
        z[i + n] = t
        e[i + n] -= b
        t = x[i]
        t *= b
        z[i + 2 * n] = t
        e[i + 2 * n] *= b
        t = x[i]
        t /= b
        z[i + 3 * n] = t
        e[i + 3 * n] /= b
        t = x[i]
        t //= b
        z[i + 4 * n] = t
        e[i + 4 * n] //= b
        t = x[i]
        t %= b
        z[i + 5 * n] = t
        e[i + 5 * n] %= b
        c = x.dtype(b)
        t = x[i]
        t += c * x[i]
        z[i + 6 * n] = t
        e[i + 6 * n] = fma(c, x[i], x[i])
        e[i + 7 * n] -= c * x[i]
        z[i + 7 * n] = fma(-c, x[i], x[i])


# the right operand becomes the left one's type, or has it
INTEGER_PAIRS = [("i8", "i8"), ("u16", "u8"), ("i32", "u16"), ("u32", "u32"), ("i64", "u32"), ("u64", "u64")]
REAL_PAIRS = [("f16", "f16"), ("bf16", "i8"), ("f32", "f32"), ("f32", "bf16"), ("f64", "f64"), ("f64", "u32")]


@every_device
@pytest.mark.parametrize(("first", "second"), INTEGER_PAIRS)
def test_augmented_integers(device: Any, first: str, second: str) -> None:
    x, y = pairs(first, second)
    z, e = poisoned(device, first, 10 * x.size), poisoned(device, first, 10 * x.size)
    integer_augmented(z, e, device.array(x), device.array(y))
    a, b = meet(x, y, first)
    for found in (z, e):
        for (symbol, reference), row in zip(list(INTEGER_OPERATORS.items())[:10], found.numpy().reshape(10, -1), strict=True):
            with np.errstate(all="ignore"):
                assert_bits(row, reference(first, a, b), f"{first} {symbol}= {second}", x, y)


@every_device
@pytest.mark.parametrize(("first", "second"), REAL_PAIRS)
def test_augmented_floats(device: Any, first: str, second: str) -> None:
    x, y = pairs(first, second)
    z, e = poisoned(device, first, 8 * x.size), poisoned(device, first, 8 * x.size)
    real_augmented(z, e, device.array(x), device.array(y))
    a, b = meet(x, y, first)
    by_name, of_elements = z.numpy().reshape(8, -1), e.numpy().reshape(8, -1)
    for found in (by_name, of_elements):
        for (symbol, reference), row in zip(list(REAL_OPERATORS.items())[:6], found, strict=False):
            with np.errstate(all="ignore"):
                assert_bits(row, reference(first, a, b), f"{first} {symbol}= {second}", x, y)
    for fused in (6, 7):
        assert_bits(by_name[fused], of_elements[fused], "a fused product", x, y)
