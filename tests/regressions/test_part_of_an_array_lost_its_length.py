"""Elsewhere a sub-slice as an argument, `len()` of what a function was given, and a value chosen by a condition from constants were wrong, or null pointers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, module, result_of

import kdsl
from kdsl import f32

I64, F32 = kdsl.dtype("i64"), kdsl.dtype("f32")
SPACE = module('''
@function
def last(a):
    return a[len(a) - 1]
@function
def size(a: Slice[f32]) -> i64:
    return len(a) if len(a) > 2 else len(a) + 100
@function
def deeper(a, b):
    return size(a) * 1000 + size(b)
@function
def extents(m):
    return m.shape[0] * 100 + m.shape[1]
@function
def fill(a: SliceMut[f32], value=2.5):
    for i in range(len(a)):
        a[i] = value
@kernel(grid=1, block=1)
def lengths(y: SliceMut[i64], x: Slice[f32], w: Slice[f32], m: Slice[f32, D2]) -> None:
    s = shared_array((3, 7), f32)
    a = local_array(5, f32)
    y[0] = len(x)
    y[1] = size(x)
    y[2] = deeper(x, w)
    y[3] = extents(m)
    y[4] = len(s) * 100 + len(a)
    y[5] = i64(last(x))
    y[6] = len(y)
@kernel(grid=1, block=1)
def filled(x: SliceMut[f32], w: SliceMut[f32]) -> None:
    fill(x)
    fill(w, 7)
@kernel(grid=elements("y"), block=32)
def chosen(y: SliceMut[f32], x: Slice[f32], n: i32, given: Const[bool] = False) -> None:
    i = thread_index()
    if i in y:
        default = 3.5 if n > 0 else -1.0
        other = (x[i] if i % 2 == 0 else default) + (0.0 if given else 10.0)
        pair = (1.0, x[i]) if i > 3 else (default, 2.0)
        nested = 1.0 if i == 0 else 2.0 if i == 1 else default if i == 2 else x[i]
        y[i] = other * 100 + pair[0] * 10 + pair[1] + nested * 1000
''')  # fmt: skip


@DEVICES
def test_parts_as_arguments(device: Any) -> None:
    host = np.arange(20, dtype=np.float32)
    whole, grid = device.array(host), device.array(np.zeros((6, 8), np.float32))
    for part in (slice(None), slice(1, None), slice(3, 7), slice(-4, None), slice(5, 6), slice(None, 19)):
        for rows in (grid, grid[1:4, ::3], grid.T[2:]):
            x, w = whole[part], whole[part][1:]
            found = result_of(device, SPACE["lengths"], 7, I64, x, w, rows)
            n, m = len(host[part]), max(len(host[part]) - 1, 0)
            size = [k if k > 2 else k + 100 for k in (n, m)]
            assert found.tolist() == [
                n,
                size[0],
                size[0] * 1000 + size[1],
                rows.shape[0] * 100 + rows.shape[1],
                305,
                int(host[part][-1]),
                7,
            ]


@DEVICES
def test_parts_are_written_and_their_neighbours_are_not(device: Any) -> None:
    whole = device.zeros(20, f32)
    SPACE["filled"](whole[3:7], whole[10:12])
    expected = np.zeros(20)
    expected[3:7], expected[10:12] = 2.5, 7
    np.testing.assert_array_equal(whole.numpy(), expected)
    with pytest.raises(kdsl.LaunchError, match="overlap"):
        SPACE["filled"](whole[3:7], whole[6:12])
    SPACE["filled"](whole[3:3], whole[0:20])
    assert (whole.numpy() == 7).all()


@DEVICES
def test_defaults_chosen_by_a_condition(device: Any) -> None:
    x = np.arange(8, dtype=np.float32)
    for n in (1, 0):
        for given in (True, False):
            default = 3.5 if n > 0 else -1.0
            found = result_of(device, SPACE["chosen"], 8, F32, x, n, given)
            expected = []
            for i, v in enumerate(x.tolist()):
                other = (v if i % 2 == 0 else default) + (0.0 if given else 10.0)
                pair = (1.0, v) if i > 3 else (default, 2.0)
                nested = 1.0 if i == 0 else 2.0 if i == 1 else default if i == 2 else v
                expected.append(other * 100 + pair[0] * 10 + pair[1] + nested * 1000)
            assert found.tolist() == expected
