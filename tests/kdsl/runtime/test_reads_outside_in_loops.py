"""Reads outside in loops that run again: every one gives 0, the first is reported, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import DisjointSlice, Slice, SliceMut, elements, f32, i32, i64, kernel, thread_index

DEVICES = pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)


@kernel(grid=elements("y"), block=32)
def gathered(y: DisjointSlice[f32], x: Slice[f32], places: Slice[i32], count: i32) -> None:
    """Sums up to the first place that is 99; how often it looked stands in front of the point."""
    i = thread_index()
    if i in y:
        total, looked = f32(i), 0
        for n in range(count):
            looked += 1
            if places[n] == 99:
                break
            for m in range(2):
                total += x[places[n] + m]
        else:
            total += 0.5
        y[i] = total + 1000.0 * f32(looked)


def expected(x: Any, places: Any, count: int, size: int) -> Any:
    total, looked, broken = 0.0, 0, False
    for n in range(count):
        looked += 1
        place = int(places[n]) if n < len(places) else 0
        if place == 99:
            broken = True
            break
        total += sum(float(x[place + m]) if 0 <= place + m < len(x) else 0.0 for m in range(2))
    return np.arange(size) + total + (0 if broken else 0.5) + 1000.0 * looked


@DEVICES
@pytest.mark.parametrize(
    ("places", "count", "message"),
    [
        ([0, 1, 2, 1, 0], 5, None),
        ([0, 1, 99, 7, 8], 5, None),
        ([0, 1, 2, 7, 0], 5, "read outside array x: index 7 "),
        ([0, -1, 2, 7, 0], 5, "read outside array x: index -1 "),
        ([0, 2**31 - 2, 2, 3, 0, 99], 6, "read outside array x: index 2147483646 "),
        ([0, 1], 9, "read outside array places: index 2 "),
        ([], 3, "read outside array places: index 0 "),
    ],
)
def test_the_sum_is_that_of_what_is_inside(device: kdsl.Device, places: list[int], count: int, message: str | None) -> None:
    x = np.array([1, 2, 4, 8], np.float32)
    y = device.full(33, np.nan, f32)
    gathered(y, device.array(x), device.array(np.array(places, np.int32)), count)
    if message is None:
        device.synchronize()
    else:
        with pytest.raises(kdsl.BoundsError, match=message):
            device.synchronize()
    assert (y.numpy() == expected(x, places, count, 33)).all()


@DEVICES
def test_reads_of_what_the_kernel_writes_are_made_again(device: kdsl.Device) -> None:
    @kernel(grid=1, block=1)
    def prefix(y: SliceMut[f32], n: i64) -> None:
        """Each element becomes the sum of those before, read by an inner loop; the last ones do not exist."""
        for i in range(len(y)):
            total = f32(0)
            for j in range(i + n):
                total += y[j]
            y[i] = total + 1.0

    y = device.full(4, 1.0, f32)
    prefix(y, 1)
    assert y.numpy().tolist() == [2.0, 4.0, 8.0, 16.0]
    prefix(y, 2)
    with pytest.raises(kdsl.BoundsError, match="index 4 is out of bounds for 4 elements"):
        device.synchronize()
    assert y.numpy().tolist() == [7.0, 20.0, 52.0, 96.0]
