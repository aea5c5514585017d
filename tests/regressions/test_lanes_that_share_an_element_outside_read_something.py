"""On a CPU a checked read outside, of one element that several neighbouring lanes share, gave a word of the launch's arguments and not 0."""

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, f32, f32x4, kernel, thread_idx, u8, warp_xor


@kernel(grid=1, block=40, requires="len(y) == 40")
def by_warps(y: SliceMut[f32], x: Slice[f32]) -> None:
    t = thread_idx.x
    warp_xor(1)  # groups of a whole warp
    y[t] = x[t // 16 - 1]


@kernel(grid=1, block=(4, 8), requires="len(y) == 32")
def by_rows(y: SliceMut[u8], x: Slice[u8]) -> None:
    row = thread_idx.y
    y[4 * row + thread_idx.x] = x[row]


@kernel(grid=1, block=(8, 8), requires="len(y) == 64")
def as_vectors_by_rows(y: SliceMut[f32], x: Slice[f32x4]) -> None:
    row = thread_idx.y
    v = x[row]
    y[8 * row + thread_idx.x] = v.x + v.w


def read(device: Any, run: Any, x: np.ndarray[Any, Any], threads: int) -> np.ndarray[Any, Any]:
    y = device.array(np.full(threads, 77, x.dtype))
    run(y, device.array(x))
    with pytest.raises(kdsl.BoundsError):
        device.synchronize()
    return np.asarray(y.numpy())


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_what_is_outside_reads_zero(device: Any) -> None:
    found = read(device, by_warps, np.array([3.0], np.float32), 40)
    np.testing.assert_array_equal(found, np.repeat([0, 3, 0], [16, 16, 8]))
    found = read(device, by_rows, np.arange(5, 8, dtype=np.uint8), 32)
    np.testing.assert_array_equal(found, np.repeat([5, 6, 7, 0, 0, 0, 0, 0], 4))
    found = read(device, as_vectors_by_rows, np.arange(1, 13, dtype=np.float32), 64)
    np.testing.assert_array_equal(found, np.repeat([5, 13, 21, 0, 0, 0, 0, 0], 8))
