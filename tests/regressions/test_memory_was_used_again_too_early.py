"""Elsewhere the memory of an array that was dropped was lent again while a stream still worked on it, was freed by another allocator than it came from, or lay
on the device of whatever context was current.

An array may be dropped at once behind a launch; what is allocated next does not disturb that, on whichever stream. Freed arrays are refused, and not freed
twice.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES

import kdsl
from kdsl import Slice, SliceMut, f32, kernel, thread_index
from kdsl.testing import devices

SIZE = 4096


@kernel(grid=1, block=256)
def slowly(y: SliceMut[f32], x: Slice[f32], rounds: kdsl.i32) -> None:
    """x, after adding to it and taking away again many times."""
    for i in range(thread_index(), len(y), 256):
        v = x[i]
        for _ in range(rounds):
            v = v + 1.0
        for _ in range(rounds):
            v = v - 1.0
        y[i] = v


@DEVICES
def test_arrays_that_are_dropped_behind_a_launch(device: Any) -> None:
    streams = [device.stream() for _ in range(3)]
    x = np.arange(SIZE, dtype=np.float32)
    results = []
    for turn in range(30):
        y = device.full(SIZE, -1.0, f32)
        slowly.on(streams[turn % 3])(y, device.array(x + turn), 200)  # the second array is dropped here
        results.append(y)
        device.full(SIZE, float("nan"), f32)  # would lie where that was
    device.synchronize()
    for turn, y in enumerate(results):
        np.testing.assert_array_equal(y.numpy(), x + turn)


@DEVICES
def test_one_stream_writes_what_another_reads(device: Any) -> None:
    first, second = device.stream(), device.stream()
    for turn in range(10):
        middle, y = device.zeros(SIZE, f32), device.zeros(SIZE, f32)
        slowly.on(first)(middle, device.full(SIZE, float(turn), f32), 100)
        second.wait_for(first)
        slowly.on(second)(y, middle, 1)
        del middle
        gc.collect()
        np.testing.assert_array_equal(y.numpy(), turn)


@DEVICES
def test_ten_thousand_arrays(device: Any) -> None:
    kept = [device.zeros(64 + n, f32) for n in range(100)]
    for n in range(10_000):
        device.empty(1 + n % 700, f32)
    assert all(not a.numpy().any() for a in kept)


@DEVICES
def test_what_is_freed_is_refused(device: Any) -> None:
    x, y = device.zeros(8, f32), device.zeros(8, f32)
    part = x[2:]
    x.free()
    x.free()
    for given in (x, part):
        with pytest.raises(kdsl.LaunchError, match="freed"):
            slowly(y, given, 1)
        with pytest.raises(kdsl.DeviceError, match="freed"):
            given.numpy()


@DEVICES
def test_what_lies_on_the_host_or_elsewhere_is_refused(device: Any) -> None:
    y = device.zeros(8, f32)
    for given in ([1.0] * 8, None, 3.0, "x"):
        with pytest.raises((kdsl.LaunchError, TypeError), match="x"):
            slowly(y, given, 1)
    for other in (other for other in devices() if other is not device):
        with pytest.raises(kdsl.LaunchError, match=f"(?s){other.name}.*|{device.name}.*"):
            slowly(y, other.zeros(8, f32), 1)
        with pytest.raises(kdsl.LaunchError):
            slowly.on(other.stream())(y, y, 1)
