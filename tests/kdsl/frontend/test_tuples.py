"""Tuples as values mean what they mean in Python: built, taken apart, compared, searched, carried by loops, returned, chosen."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from text import define

import kdsl
from kdsl import SliceMut, f32, f64, function, i32, i64, kernel
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
VALUES = (-1.0, -0.0, 0.0, 2.0, float("nan"))


@kernel(grid=1, block=32, requires="len(y) >= 16")
def compared(y: SliceMut[i32], a: f32, b: f32, c: f32, d: f32, n: i32) -> None:
    if kdsl.thread_idx.x == 0:
        p, q = (a, n, b), (c, 1, d)
        y[0] = i32(p == q)
        y[1] = i32(p != q)
        y[2] = i32(p < q)
        y[3] = i32(p <= q)
        y[4] = i32(p > q)
        y[5] = i32(p >= q)
        y[6] = i32((a, b) < (c, d, n))
        y[7] = i32((a, b, n) <= (c, d))
        y[8] = i32((a, b) == (a, b, n))
        y[9] = i32(((a, b), n) == ((c, d), 1))
        y[10] = i32(((a, b), n) < ((c, d), 1))
        y[11] = i32(n in (1, 5, 7) or n not in (0, 1, 2, 3))
        y[12] = i32((a, b) in ((c, d), (0.0, 0.0)))
        y[13] = i32(() == () and (1, 2) < (1, 3) and not (1, 2) > (1,) and (1, 2.0) == (1, 2))
        y[14] = i32((a, n) < (c, 1) < (d, 2))
        y[15] = i32((f32, i32) == (f32, i32) and a.dtype in (f64, f32) and a.dtype not in (f64, i32))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@DEVICES
@pytest.mark.parametrize("n", [1, 4])
def test_comparison_is_pythons(device: Any, n: int) -> None:
    y = device.empty(16, i32)
    for a, b, c, d in itertools.product(VALUES, repeat=4):
        compared(y, a, b, c, d, n)
        # Python takes an object to be equal to itself, a NaN too; these are objects of their own
        a, b, c, d, e, f = (float(str(number)) for number in (a, b, c, d, a, b))
        p, q = (a, n, b), (c, 1, d)
        wanted = [
            p == q, p != q, p < q, p <= q, p > q, p >= q, (a, b) < (c, d, n), (a, b, n) <= (c, d), False, ((a, b), n) == ((c, d), 1),
            ((a, b), n) < ((c, d), 1), n in (1, 5, 7) or n not in (0, 1, 2, 3), (e, f) in ((c, d), (0.0, 0.0)), False, (a, n) < (c, 1) < (d, 2), True,
        ]  # fmt: skip
        wanted[13] = () == () and (1, 2) < (1, 3) and not (1, 2) > (1,) and (1, 2.0) == (1, 2)
        assert y.numpy().astype(bool).tolist() == wanted, (a, b, c, d)


@function
def ordered(a: tuple[f32, i64], b: tuple[f32, i64]) -> tuple[tuple[f32, i64], tuple[f32, i64]]:
    if a > b:
        return b, a
    return a, b


@function
def statistics(n: i64, nested: tuple[i64, tuple[f32, f32]]) -> tuple[i64, tuple[f32, f32]]:
    count, (low, high) = nested
    for k in range(n):
        if k == 5:
            return -1, (low, high)
        count, (low, high) = count + 1, (min(low, f32(k)), max(high, f32(k)))
    return count, (low, high)


@kernel(grid=1, block=32, requires="len(y) >= 12")
def carried(y: SliceMut[f32], n: i32) -> None:
    if kdsl.thread_idx.x == 0:
        pair = (0, 1)
        for _ in range(n):
            pair = (pair[1], pair[0] + pair[1])
        y[0], y[1] = f32(pair[0]), f32(pair[-1])
        low, high = ordered((2.0, 3), (f32(n), 1))
        y[2], y[3] = low[0], f32(high[1])
        found = statistics(i64(n), (0, (100.0, -100.0)))
        count, (least, most) = found
        y[4], y[5], y[6] = f32(count), least, most
        chosen = (1.0, (2, n)) if n > 3 else (4.0, (5, -n))
        y[7] = chosen[0] + f32(chosen[1][0]) + f32(chosen[1][1])
        a = b = (n, n + 1)
        y[8] = f32(a[0] + b[1]) + f32(len(chosen)) + f32(len(chosen[1]))
        typed: tuple[f32, tuple[i64, f64]] = (1, (2, 0.1))
        for k in range(n):
            if k % 2 == 0:
                typed = (typed[0] + 0.5, (typed[1][0] * 2, typed[1][1]))
        y[9], y[10], y[11] = typed[0], f32(typed[1][0]), f32(typed[1][1])


@DEVICES
@pytest.mark.parametrize("n", [0, 1, 4, 9])
def test_loops_calls_branches(device: Any, n: int) -> None:
    y = device.full(12, np.nan, f32)
    carried(y, n)
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    low, high = sorted([(2.0, 3), (float(n), 1)])
    count = n if n <= 5 else -1
    least, most = (0, min(n, 5) - 1) if n else (100, -100)
    chosen = 1 + 2 + n if n > 3 else 4 + 5 - n
    trips = (n + 1) // 2
    wanted = [a, b, low[0], high[1], count, least, most, chosen, 2 * n + 1 + 4, 1 + 0.5 * trips, 2 * 2**trips, np.float32(0.1)]
    assert np.array_equal(y.numpy(), np.array(wanted, np.float32))


def test_a_declared_tuple_has_its_types() -> None:
    space = define(
        "@kernel(grid=1, block=32)\ndef tested(y: SliceMut[f64]) -> None:\n    a: tuple[f64, i32] = (0.1, 3)\n    y[0] = a[0] * f64(a[1])"
    )
    types = {variable.type.name for variable in space["tested"].ir().variables}
    assert types == {"f64", "i32"}
