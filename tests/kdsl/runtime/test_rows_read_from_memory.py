"""Rows whose number is read from memory: one that there is not gives 0 and is reported with the index that it leads to, on every device."""

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import DisjointSlice, Slice, elements, f32, i32, i64, kernel, thread_index, u8, u32

DEVICES = pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
BAD = (None, -1, 5, -(2**31), 2**31 - 1, 6)
"""A row that there is not, of five."""


@kernel(grid=elements("y"), requires=("len(y) == len(rows) * width", "len(table) == count * width"))
def looked_up(y: DisjointSlice[f32], rows: Slice[i32], table: Slice[f32], count: u32, width: u32) -> None:
    i = thread_index()
    if i in y:
        y[i] = table[rows[i // width] * width + i % width] + 1.0


@kernel(grid=elements("y"), requires=("len(y) == width * lists", "len(first) == lists + 1", "len(x) == len(rows) * width"))
def added(y: DisjointSlice[f32], x: Slice[f32], first: Slice[i32], rows: Slice[i32], lists: u32, width: u32, stop: i32) -> None:
    """Sums of listed rows, up to one that is `stop`; how many it took stands in front of the point."""
    i = thread_index()
    if i in y:
        total, taken = f32(0), 0
        for n in range(first[i // width], first[i // width + 1]):
            if rows[n] == stop:
                break
            total += x[rows[n] * width + i % width]
            taken += 1
        else:
            total += 0.5
        y[i] = total + 1000.0 * f32(taken)


@kernel(grid=elements("y"), requires=("len(y) == width * lists", "len(first) == lists + 1", "len(x) == len(rows) * width"))
def summed(y: DisjointSlice[f32], x: Slice[f32], first: Slice[i32], rows: Slice[i32], lists: u32, width: u32) -> None:
    """Sums that a GPU takes several rows at a time for."""
    i = thread_index()
    if i in y:
        total = f32(0)
        for n in range(first[i // width], first[i // width + 1]):
            total += x[rows[n] * width + i % width]
        y[i] = total


@kernel(grid=elements("y"), requires=("len(y) == width * lists", "len(first) == lists + 1", "len(x) == len(rows) * width"))
def added_after_writing(y: DisjointSlice[f32], x: Slice[f32], first: Slice[i32], rows: Slice[i32], lists: u32, width: u32) -> None:
    i = thread_index()
    if i in y:
        y[i] = 100.0
        total = f32(0)
        for n in range(first[i // width], first[i // width + 1]):
            total += x[rows[n] * width + i % width]
        y[i] = y[i] + total


@kernel(grid=elements("y"), requires=("len(y) == width * lists", "len(x) == len(rows) * width"))
def walked(y: DisjointSlice[f32], x: Slice[f32], rows: Slice[i32], lists: u32, width: u32) -> None:
    """Rows that the row before names: a loop whose inner loop ends by what it reads."""
    i = thread_index()
    if i in y:
        total = f32(0)
        for n in range(3):
            row = rows[n]
            steps = 0
            while x[row * width + i % width] > 0.0 and steps < 100:
                row = i32(x[row * width + i % width])
                steps += 1
            total += f32(steps)
        y[i] = total


def listed(rows: Any, first: Any, x: Any, width: int, column: int, lists: int, stop: int | None = None) -> list[float]:
    sums = []
    for number in range(lists):
        total, taken = 0.0, 0
        for row in rows[first[number] : first[number + 1]]:
            if row == stop:
                break
            total += float(x[row * width + column]) if 0 <= row < len(x) // width else 0.0
            taken += 1
        else:
            total += 0.0 if stop is None else 0.5
        sums.append(total + (0.0 if stop is None else 1000.0 * taken))
    return sums


def finish(device: kdsl.Device, array: str, bad: int | None, width: int) -> None:
    """Synchronise; a row that there is not is reported with its index."""
    if bad is None:
        device.synchronize()
        return
    with pytest.raises(kdsl.BoundsError) as caught:
        device.synchronize()
    index = int(str(caught.value).split("index ")[1].split()[0])
    assert f"read outside array {array}: index {index} " in str(caught.value)
    assert bad * width <= index < (bad + 1) * width


@DEVICES
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("width", [1, 3, 32])
def test_looked_up(device: kdsl.Device, bad: int | None, width: int) -> None:
    rows = np.array([0, 4, 2, 2, 1, 3], np.int32)
    if bad is not None:
        rows[3] = bad
    table = np.arange(1, 5 * width + 1, dtype=np.float32)
    y = device.full(len(rows) * width, np.nan, f32)
    looked_up(y, device.array(rows), device.array(table), 5, width)
    finish(device, "table", bad, width)
    expected = [float(table[row * width + column]) if 0 <= row < 5 else 0.0 for row in rows.tolist() for column in range(width)]
    assert y.numpy().tolist() == [value + 1.0 for value in expected]


@DEVICES
def test_no_rows_at_all(device: kdsl.Device) -> None:
    y, rows = device.full(8, np.nan, f32), device.array(np.array([0, 0], np.int32))
    looked_up(y, rows, device.array(np.zeros(0, np.float32)), 0, 4)
    finish(device, "table", 0, 4)
    assert y.numpy().tolist() == [1.0] * 8


@DEVICES
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("which", ["plain", "stops", "after writing"])
def test_sums_of_listed_rows(device: kdsl.Device, bad: int | None, width: int, which: str) -> None:
    rows = np.arange(37, dtype=np.int32) * 7 % 37
    first = np.array([0, 0, 20, 21, 37], np.int32)
    x = np.arange(1, 37 * width + 1, dtype=np.float32)
    if bad is not None:
        bad += 32 if bad in (5, 6) else 0
        rows[29] = bad
    y = device.full(4 * width, np.nan, f32)
    arrays = y, device.array(x), device.array(first), device.array(rows), 4, width
    stop = {"plain": -7, "stops": int(rows[33])}.get(which)
    if stop is None:
        added_after_writing(*arrays)
    else:
        added(*arrays, stop)
    finish(device, "x", bad, width)
    expected = np.array([listed(rows.tolist(), first, x, width, column, 4, stop) for column in range(width)]).T
    assert y.numpy().tolist() == (expected.ravel() + (100.0 if stop is None else 0.0)).tolist()


@DEVICES
def test_sums_of_lists_of_every_length(device: kdsl.Device) -> None:
    """In the order of the list: the terms are so different that every other order gives another sum."""
    lists, width = 20, 3
    first = np.concatenate([[0], np.cumsum(np.arange(lists))]).astype(np.int32)
    rows = np.random.default_rng(0).permutation(first[-1]).astype(np.int32)
    x = (
        np.random.default_rng(1).standard_normal(len(rows) * width) * 10.0 ** np.random.default_rng(2).integers(-6, 6, len(rows) * width)
    ).astype(np.float32)
    for bad in [None, *range(len(rows))]:
        taken = rows.copy()
        if bad is not None:
            taken[bad] = (-1, 1 << 20, len(rows))[bad % 3]
        y = device.full(lists * width, np.nan, f32)
        summed(y, device.array(x), device.array(first), device.array(taken), lists, width)
        finish(device, "x", None if bad is None else int(taken[bad]), width)
        expected = np.zeros((lists, width), np.float32)
        for number in range(lists):
            for row in taken[first[number] : first[number + 1]]:
                expected[number] += x[row * width : (row + 1) * width] if 0 <= row < len(rows) else np.float32(0)
        assert y.numpy().tobytes() == expected.tobytes()


@DEVICES
def test_lists_that_leave_the_list(device: kdsl.Device) -> None:
    rows, x = np.array([2, 1, 0], np.int32), np.array([1, 2, 4], np.float32)
    y = device.full(2, np.nan, f32)
    added(y, device.array(x), device.array(np.array([1, 5, 2], np.int32)), device.array(rows), 2, 1, -7)
    with pytest.raises(kdsl.BoundsError, match="read outside array rows: index 3 "):
        device.synchronize()
    # What is not there is row 0
    assert y.numpy().tolist() == [2 + 1 + 1 + 1 + 0.5 + 4000.0, 0.5]


@DEVICES
def test_a_walk_ends_where_a_row_is_not_there(device: kdsl.Device) -> None:
    rows, x = np.array([0, 1, 2], np.int32), np.array([1, 2, 7], np.float32)
    y = device.full(1, np.nan, f32)
    walked(y, device.array(x), device.array(rows), 1, 1)
    finish(device, "x", 7, 1)
    assert y.numpy().tolist() == [3 + 2 + 1]


@DEVICES
def test_rows_of_other_types(device: kdsl.Device) -> None:
    for of, bad in ((u8, 255), (u32, 2**32 - 1), (u32, 2**31), (i64, 3), (i64, -1)):

        @kernel(grid=elements("y"), requires=("len(y) == len(rows) * width", "len(table) == count * width"))
        def taken(y: DisjointSlice[f32], rows: Slice[of], table: Slice[f32], count: u32, width: u32) -> None:  # type: ignore[valid-type]
            i = thread_index()
            if i in y:
                y[i] = table[i64(rows[i // width]) * width + i % width]

        numbers = np.array([2, bad, 0], of.numpy)
        y = device.full(6, np.nan, f32)
        taken(y, device.array(numbers), device.array(np.arange(6, dtype=np.float32)), 3, 2)
        finish(device, "table", bad, 2)
        assert y.numpy().tolist() == [4, 5, 0, 0, 0, 1]
