"""On a CPU `some[lane] if lane < 3 else 0` had what lies behind the first three: LLVM divides a wide masked load, and loads a part with an empty mask whole."""

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import (
    Slice,
    SliceMut,
    block_sum,
    i32,
    is_first_lane,
    kernel,
    lane_index,
    shared_array,
    sync_threads,
    thread_idx,
    warp_index,
    warp_sum,
)


@kernel(grid=1, block=70, requires=("len(y) == 70", "len(x) == 16"))
def first_three(y: SliceMut[i32], x: Slice[i32]) -> None:
    t = thread_idx.x
    some = shared_array(16, i32)
    total = shared_array(1, i32)  # where the load is divided: 64 bytes behind its start
    if t < 16:
        some[t] = x[t]
    sync_threads()
    if warp_index() == 0:
        whole = warp_sum(some[lane_index()] if lane_index() < 3 else 0)
        if is_first_lane():
            total[0] = whole
    sync_threads()
    y[t] = total[0]


@kernel(grid=1, block=70, requires=("len(y) == 70",))
def summed(y: SliceMut[i32], n: i32) -> None:
    y[thread_idx.x] = block_sum(n)


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_only_active_lanes_are_read(device: Any) -> None:
    y = device.zeros(70, kdsl.i32)
    first_three(y, device.array((10 ** np.arange(16) % 1000003).astype(np.int32)))
    np.testing.assert_array_equal(y.numpy(), 111)
    summed(y, n=3)
    np.testing.assert_array_equal(y.numpy(), 210)
