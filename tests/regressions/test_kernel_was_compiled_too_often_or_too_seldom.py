"""Elsewhere a launch with other types ran the code of the first, because an identity or a stride was looked at only; or every launch compiled anew.

One version per device, types of the type variables and constants; neither values, lengths, strides, streams nor the way of calling make another.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, result_of

import kdsl
from kdsl import D2, Const, Slice, SliceMut, f32, f64, i32, kernel, thread_index
from kdsl.runtime import cache

T = TypeVar("T", f32, f64, i32)


@DEVICES
def test_a_version_per_type(device: Any) -> None:
    """f32, f64, f32, i32, f32 from a slice, f32: three."""

    @kernel(grid=kdsl.elements("y"))
    def k(y: SliceMut[T], x: Slice[T], a: T, *, n: Const[int] = 1) -> None:
        i = thread_index()
        if i in y:
            y[i] = x[i] * a + y.dtype(n)

    plans = k._launcher.plans
    for number, (of, versions) in enumerate([("f32", 1), ("f64", 2), ("f32", 2), ("i32", 3), ("f32", 3), ("f32", 3)]):
        x = device.array(np.arange(10).astype(kdsl.dtype(of).numpy))
        y = device.zeros(10 - number, of)
        k(y, x[number:], number)
        assert len(plans) == versions
        np.testing.assert_array_equal(y.numpy(), np.arange(number, 10) * number + 1)
    stream = device.stream()
    y, x = device.zeros(3, f32), device.zeros(3, f32)
    for _ in range(3):
        k(y, x, 1.5)
        k(a=2, x=x, y=y)
        k.on(stream)(y, x, np.float64(2.5), n=1)
        k(y, x, True, n=np.int64(1))
    assert len(plans) == 3
    k(y, x, 1.5, n=2)
    assert len(plans) == 4


@DEVICES
def test_strides_make_no_version(device: Any) -> None:
    """And a contiguous array first does not leave code behind that takes strides of 1 for granted."""

    @kernel(grid=kdsl.tiles(rows="y.shape[0]", columns="y.shape[1]", tile=(4, 32)))
    def copy(y: SliceMut[f32, D2], x: Slice[f32, D2]) -> None:
        t = kdsl.tile_index()
        row, column = t.row + kdsl.thread_idx.y, t.column + kdsl.thread_idx.x
        if row < y.shape[0] and column < y.shape[1]:
            y[row, column] = x[row, column]

    host = np.arange(60, dtype=np.float32).reshape(6, 10)
    for part in (
        lambda a: a,
        lambda a: a[::2, ::3],
        lambda a: a[::-1, ::-1],
        lambda a: a.T,
        lambda a: a[1:2],
        lambda a: a[:, 3:4],
        lambda a: a,
    ):
        x = part(device.array(host))
        y = device.full(x.shape, -1.0, f32)
        copy(y, x)
        np.testing.assert_array_equal(y.numpy(), part(host))
    assert len(copy._launcher.plans) == 1


@DEVICES
def test_constants_that_look_alike(device: Any) -> None:
    """1, True and 1.0; 0.0 and -0.0; two NaN: keys that Python takes for equal."""
    for kind, values in (("int", [1, 0]), ("bool", [True, False]), ("float", [1.0, 0.0, -0.0, float("nan"), float("nan"), float("inf")])):
        expression = "f32(c)" if kind != "bool" else "1.0 if c else 0.0"
        kernel = kernel_of(f"y: SliceMut[f32], c: Const[{kind}]", f"y[0] = {expression}", "grid=1, block=1")
        for value in [*values, *values]:
            found = result_of(device, kernel, 1, kdsl.dtype("f32"), value)
            np.testing.assert_array_equal(found, np.float32(value))
            assert np.isnan(value) or np.signbit(found[0]) == np.signbit(value)
        assert len(kernel._launcher.plans) == len({repr(v) for v in values})


def test_a_new_process_compiles_nothing_and_a_second_launch_looks_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a launch costs must not hide a compilation: neither the IR nor the disk is touched after the first."""
    device = kdsl.device("cpu")
    kernel = kernel_of("y: SliceMut[f32]", "y[0] += 1.0", "grid=1, block=1")
    y = device.zeros(1, f32)
    kernel(y)
    for where, name in ((kdsl.Kernel, "_version"), (kdsl.Kernel, "_specialise"), (cache.Cache, "get")):
        monkeypatch.setattr(where, name, lambda *_: pytest.fail("compiled again"))
    for _ in range(5):
        kernel(y)
    assert y.numpy()[0] == 6


@DEVICES
def test_an_array_that_is_exchanged_in_place(device: Any) -> None:
    """The same name, the same length, another type: each time the code of its own type."""

    @kernel(grid=1, block=1)
    def k(y: SliceMut[T]) -> None:
        y[0] = y[0] // 2

    for of, value, half in (("i32", 7, 3), ("f32", 7.5, 3.0), ("i32", -7, -4), ("f64", -7.5, -4.0)):
        y = device.full(1, value, of)
        k(y)
        assert y.numpy()[0] == half
        del y
