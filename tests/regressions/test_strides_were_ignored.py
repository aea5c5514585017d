"""Elsewhere the strides of a destination were ignored, a broadcast view was read behind its end, or a kernel that was compiled for neighbouring elements was
used for others.

Every view that slices, steps, transposition and broadcasting make is read as NumPy reads it and written as NumPy writes it; the memory around it stays. Where a
kernel wants neighbours, other arrays are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES

import kdsl
from kdsl import D1, D2, D3, DisjointSlice, Slice, SliceMut, elements, f32, kernel, thread_index

VIEWS: dict[str, Callable[[Any], Any]] = {
    "all": lambda a: a,
    "every second row": lambda a: a[::2],
    "every third column": lambda a: a[:, 1::3],
    "rows backwards": lambda a: a[::-1],
    "both backwards": lambda a: a[::-1, ::-2],
    "transposed": lambda a: a.T,
    "part of the transposed": lambda a: a.T[2:7, ::-1],
    "one row": lambda a: a[3:4],
    "one column": lambda a: a[:, 4:5],
    "nothing": lambda a: a[2:2],
}


@kernel(grid=4, block=32)
def copied(y: SliceMut[f32, D2], x: Slice[f32, D2]) -> None:
    rows, columns = y.shape
    for i in range(thread_index(), rows * columns, 128):
        y[i // columns, i % columns] = x[i // columns, i % columns]


def numbers(shape: tuple[int, ...], start: int = 0) -> Any:
    return np.arange(start, start + int(np.prod(shape)), dtype=np.float32).reshape(shape)


@DEVICES
@pytest.mark.parametrize("name", list(VIEWS))
def test_read(device: Any, name: str) -> None:
    x, view = numbers((9, 10)), VIEWS[name]
    expected = view(x)
    y = device.full(expected.shape, -1.0, f32)
    copied(y, view(device.array(x)))
    np.testing.assert_array_equal(y.numpy(), expected)


@DEVICES
@pytest.mark.parametrize("name", list(VIEWS))
def test_written(device: Any, name: str) -> None:
    whole, view = numbers((9, 10), -1000), VIEWS[name]
    y = device.array(whole)
    x = numbers(view(whole).shape)
    copied(view(y), device.array(x))
    view(whole)[...] = x
    np.testing.assert_array_equal(y.numpy(), whole)


@DEVICES
@pytest.mark.parametrize("shape", [(9, 10), (9, 1), (1, 10)])
def test_broadcast_is_read_and_not_written(device: Any, shape: tuple[int, int]) -> None:
    x = numbers(shape)
    y = device.full((9, 10), -1.0, f32)
    copied(y, device.array(x).broadcast_to((9, 10)))
    np.testing.assert_array_equal(y.numpy(), np.broadcast_to(x, (9, 10)))
    if shape != (9, 10):
        with pytest.raises(kdsl.LaunchError, match="repeats elements"):
            copied(device.array(x).broadcast_to((9, 10)), y)


@kernel(grid=elements("y"))
def doubled(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    i = thread_index()
    if i in y:
        y[i] = 2 * x[i]


@kernel(grid=elements("y"))
def doubled_anywhere(y: DisjointSlice[f32, D1], x: Slice[f32, D1]) -> None:
    i = thread_index()
    if i in y:
        y[i] = 2 * x[i]


@DEVICES
def test_neighbours_first_and_strides_afterwards(device: Any) -> None:
    """One compiled version must not serve the other."""
    x = numbers((60,))
    for step in (1, 2, -1, 3, 1, -2):
        y, given = device.full(60, -1.0, f32), device.array(x)
        doubled_anywhere(y[::step], given[::step])
        expected = np.full(60, -1, np.float32)
        expected[::step] = 2 * x[::step]
        np.testing.assert_array_equal(y.numpy(), expected)
        if step != 1:
            with pytest.raises(kdsl.LaunchError, match="elements side by side"):
                doubled(y[::step], given[::step])
            with pytest.raises(kdsl.LaunchError, match="elements side by side"):
                doubled(device.zeros(len(x[::step]), f32), given[::step])


@kernel(grid=1, block=32)
def turned(y: SliceMut[f32, D3], x: Slice[f32, D3]) -> None:
    a, b, c = y.shape
    for i in range(thread_index(), a * b * c, 32):
        y[i // (b * c), i // c % b, i % c] = x[i // (b * c), i // c % b, i % c]


@DEVICES
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_axes_in_any_order(device: Any, axes: tuple[int, int, int]) -> None:
    x = numbers((3, 4, 5))
    expected = x.transpose(axes)
    y = device.zeros(expected.shape, f32)
    turned(y, device.array(x).transpose(axes))
    np.testing.assert_array_equal(y.numpy(), expected)
    back = device.zeros((3, 4, 5), f32)
    turned(back.transpose(axes), y)
    np.testing.assert_array_equal(back.numpy(), x)


@DEVICES
def test_memory_in_another_order_on_the_host(device: Any) -> None:
    x = np.asfortranarray(numbers((9, 10)))
    assert not x.flags.c_contiguous
    for given in (x, x[::2, ::-1], np.broadcast_to(x[:1], (9, 10))):
        y = device.zeros(given.shape, f32)
        copied(y, device.array(given))
        np.testing.assert_array_equal(y.numpy(), given)
