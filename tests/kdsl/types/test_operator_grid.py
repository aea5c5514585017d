"""Every binary operator with every pair of types against NumPy, operands first converted to the type in which they meet."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest
from numpy_grid import (
    COMPARISONS,
    FLOATS,
    INTEGER_OPERATORS,
    INTEGERS,
    MEETS,
    NUMBERS,
    REAL_OPERATORS,
    Array,
    assert_bits,
    meet,
    pairs,
    poisoned,
    power,
)

import kdsl
from kdsl import Slice, SliceMut, elements, fmax, fmin, function, kernel, thread_index, u8
from kdsl.testing import devices

T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")
every_device = pytest.mark.parametrize("device", devices(), ids=str)
SIZES = ("len(x) == len(y)", "len(c) == len(x)")


INTEGER_SIZES = (*SIZES, f"len(z) == {len(INTEGER_OPERATORS)} * len(x)", "len(p) == len(x)")
REAL_SIZES = (*SIZES, f"len(z) == {len(REAL_OPERATORS)} * len(x)")


@function
def integer_operators(z, p, c, x, y, i) -> None:  # type: ignore[no-untyped-def]  # of any types
    """In the order of `INTEGER_OPERATORS`; the comparisons as bits."""
    a, b, n = x[i], y[i], len(x)
    z[i] = a + b
    z[i + n] = a - b
    z[i + 2 * n] = a * b
    z[i + 3 * n] = a // b
    z[i + 4 * n] = a % b
    z[i + 5 * n] = a & b
    z[i + 6 * n] = a | b
    z[i + 7 * n] = a ^ b
    z[i + 8 * n] = a << b
    z[i + 9 * n] = a >> b
    z[i + 10 * n] = min(a, b)
    z[i + 11 * n] = max(a, b)
    p[i] = a**b
    c[i] = u8(a < b) | u8(a <= b) << 1 | u8(a > b) << 2 | u8(a >= b) << 3 | u8(a == b) << 4 | u8(a != b) << 5


@function
def real_operators(z, c, x, y, i) -> None:  # type: ignore[no-untyped-def]  # of any types
    """In the order of `REAL_OPERATORS`; the comparisons as bits. fmin() and fmax() take no integers."""
    a, b, n = x[i], y[i], len(x)
    z[i] = a + b
    z[i + n] = a - b
    z[i + 2 * n] = a * b
    z[i + 3 * n] = a / b
    z[i + 4 * n] = a // b
    z[i + 5 * n] = a % b
    z[i + 6 * n] = min(a, b)
    z[i + 7 * n] = max(a, b)
    z[i + 8 * n] = fmin(z.dtype(a), z.dtype(b))
    z[i + 9 * n] = fmax(z.dtype(a), z.dtype(b))
    c[i] = u8(a < b) | u8(a <= b) << 1 | u8(a > b) << 2 | u8(a >= b) << 3 | u8(a == b) << 4 | u8(a != b) << 5


@kernel(grid=elements("x"), block=64, requires=INTEGER_SIZES)
def integers_in_lanes(z: SliceMut[R], p: SliceMut[T], c: SliceMut[u8], x: Slice[T], y: Slice[U]) -> None:
    """A thread per pair: vectors on a CPU."""
    i = thread_index()
    if i in x:
        integer_operators(z, p, c, x, y, i)


@kernel(grid=1, block=1, requires=INTEGER_SIZES)
def integers_one_by_one(z: SliceMut[R], p: SliceMut[T], c: SliceMut[u8], x: Slice[T], y: Slice[U]) -> None:
    """One thread: scalars."""
    for i in range(len(x)):
        integer_operators(z, p, c, x, y, i)


@kernel(grid=elements("x"), block=64, requires=("len(x) == len(y)", "len(p) == len(x)"))
def powers(p: SliceMut[T], x: Slice[T], y: Slice[U]) -> None:
    """Powers alone, of pairs that have no common type."""
    i = thread_index()
    if i in x:
        p[i] = x[i] ** y[i]


@kernel(grid=elements("x"), block=64, requires=REAL_SIZES)
def reals_in_lanes(z: SliceMut[R], c: SliceMut[u8], x: Slice[T], y: Slice[U]) -> None:
    """A thread per pair."""
    i = thread_index()
    if i in x:
        real_operators(z, c, x, y, i)


@kernel(grid=1, block=1, requires=REAL_SIZES)
def reals_one_by_one(z: SliceMut[R], c: SliceMut[u8], x: Slice[T], y: Slice[U]) -> None:
    """One thread."""
    for i in range(len(x)):
        real_operators(z, c, x, y, i)


def in_lanes(first: str, second: str) -> bool:
    """Each pair of different types runs both ways, once this way round and once the other; equal types run in lanes."""
    return NUMBERS.index(first) <= NUMBERS.index(second)


def check_comparisons(c: Array, a: Array, b: Array, what: str) -> None:
    for place, (symbol, compare) in enumerate(COMPARISONS.items()):
        np.testing.assert_array_equal(c >> place & 1, compare(a, b), err_msg=f"{what}: {symbol}")


@every_device
@pytest.mark.parametrize("first", INTEGERS)
def test_integers(device: Any, first: str) -> None:
    for second in INTEGERS:
        common = MEETS[first, second]
        x, y = pairs(first, second)
        p = poisoned(device, first, x.size)
        given = device.array(x), device.array(y)
        if common is None:
            powers(p, *given)
        else:
            z, c = poisoned(device, common, len(INTEGER_OPERATORS) * x.size), poisoned(device, "u8", x.size)
            (integers_in_lanes if in_lanes(first, second) else integers_one_by_one)(z, p, c, *given)
            a, b = meet(x, y, common)
            for (symbol, reference), found in zip(INTEGER_OPERATORS.items(), z.numpy().reshape(-1, x.size), strict=True):
                with np.errstate(all="ignore"):
                    assert_bits(found, reference(common, a, b), f"{first} {symbol} {second}", x, y)
            check_comparisons(c.numpy(), a, b, f"{first}, {second}")
        with np.errstate(all="ignore"):
            assert_bits(p.numpy(), power(x, y), f"{first} ** {second}", x, y)


@every_device
@pytest.mark.parametrize("first", NUMBERS)
def test_floats(device: Any, first: str) -> None:
    for second in NUMBERS:
        common = MEETS[first, second]
        if common not in FLOATS:
            continue
        x, y = pairs(first, second)
        z, c = poisoned(device, common, len(REAL_OPERATORS) * x.size), poisoned(device, "u8", x.size)
        (reals_in_lanes if in_lanes(first, second) else reals_one_by_one)(z, c, device.array(x), device.array(y))
        a, b = meet(x, y, common)
        for (symbol, reference), found in zip(REAL_OPERATORS.items(), z.numpy().reshape(-1, x.size), strict=True):
            with np.errstate(all="ignore"):
                assert_bits(found, reference(common, a, b), f"{first} {symbol} {second}", x, y)
        with np.errstate(invalid="ignore"):
            check_comparisons(c.numpy(), a, b, f"{first}, {second}")


@kernel(grid=elements("x"), block=64, requires=("len(x) == len(y)", "len(z) == 9 * len(x)"))
def of_bools(z: SliceMut[bool], x: Slice[bool], y: Slice[bool]) -> None:
    i = thread_index()
    if i in x:
        a, b, n = x[i], y[i], len(x)
        z[i] = a & b
        z[i + n] = a | b
        z[i + 2 * n] = a ^ b
        z[i + 3 * n] = a < b
        z[i + 4 * n] = a <= b
        z[i + 5 * n] = a > b
        z[i + 6 * n] = a >= b
        z[i + 7 * n] = a == b
        z[i + 8 * n] = a != b


@every_device
def test_bools(device: Any) -> None:
    x, y = pairs("bool", "bool")
    z = device.zeros(9 * x.size, kdsl.dtype(bool))
    of_bools(z, device.array(x), device.array(y))
    wanted = [np.bitwise_and(x, y), np.bitwise_or(x, y), np.bitwise_xor(x, y), *(compare(x, y) for compare in COMPARISONS.values())]
    np.testing.assert_array_equal(z.numpy().reshape(9, -1), np.stack(wanted))
