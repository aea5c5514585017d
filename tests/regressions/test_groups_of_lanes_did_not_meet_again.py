"""On a GPU an exchange of all lanes that follows one by `mask=` was made by each group of lanes alone: sums of prefixes had the lane's own number only, and the
number of a lane in another group was not found. ptxas 13.0 to 13.5 takes the warp for together behind such an exchange. Found by the fuzzer."""

import re
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import (
    Slice,
    SliceMut,
    i32,
    kernel,
    shuffle,
    shuffle_xor,
    sync_warp,
    thread_idx,
    warp_ballot,
    warp_match_any,
    warp_prefix_sum,
    warp_sum,
)
from kdsl.backend.nvptx import compile_ptx
from kdsl.testing.ptx import assemble


@kernel(grid=1, block=32, requires=("len(y) == 4 * 32", "len(x) == 32"))
def exchanged(y: SliceMut[i32], x: Slice[i32], end: i32) -> None:
    t = thread_idx.x
    group = warp_match_any(x[t] & 3)
    near = shuffle_xor(x[t], 1, mask=group)
    if near > end:
        return
    y[t] = warp_prefix_sum(i32(1))
    others = warp_ballot(x[t] > 4, mask=group)
    y[t + 32] = shuffle(x[t] + i32(others), 31)
    y[t + 64] = warp_sum(near, mask=group)
    sync_warp()
    y[t + 96] = warp_sum(near)


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_all_lanes_meet(device: Any) -> None:
    x = np.random.default_rng(5).integers(0, 16, 32).astype(np.int32)
    y = device.full(4 * 32, -1, i32)
    exchanged(y, device.array(x), 99)
    lanes = np.arange(32)
    same = (x & 3)[:, None] == (x & 3)[None, :]
    near = np.where(same[lanes, lanes ^ 1], x[lanes ^ 1], x)
    others = sum(1 << lane for lane in lanes if same[31, lane] and x[lane] > 4)
    found = y.numpy().reshape(4, 32)
    np.testing.assert_array_equal(found[0], lanes + 1)
    np.testing.assert_array_equal(found[1], np.full(32, np.uint32(x[31] + others & 0xFFFFFFFF).view(np.int32)))
    np.testing.assert_array_equal(found[2], same @ near)
    np.testing.assert_array_equal(found[3], np.full(32, near.sum()))


@pytest.mark.parametrize("level", [0, 3])
def test_ptxas_cannot_take_them_for_together(level: int) -> None:
    ptx = compile_ptx(exchanged.ir(), "sm_90", optimise=level)
    assert not re.search(r"\b(?:shfl|vote|match|redux|bar\.warp)\.[^;]*[ \t]-1;", ptx)
    assert "%lanemask_lt" in ptx
    assemble(ptx, "sm_90")


@kernel(grid=1, block=32, requires=("len(y) == 32", "len(x) == 32"))
def reduced(y: SliceMut[i32], x: Slice[i32]) -> None:
    t = thread_idx.x
    y[t] = warp_sum(shuffle_xor(x[t], 1, mask=warp_match_any(x[t] & 3)))


@pytest.mark.parametrize("level", [0, 3])
def test_reductions_whose_mask_is_in_a_register_do_so_too(level: int) -> None:
    ptx = compile_ptx(reduced.ir(), "sm_90", optimise=level)
    (mask,) = re.findall(r"redux\.sync\.add\.s32 \t%r\d+, %r\d+, (%r\d+);", ptx)
    assert f"or.b32 {mask}, %a, %b;" in ptx
    assemble(ptx, "sm_90")


@kernel(grid=1, block=32, requires=("len(y) == 32", "len(x) == 32"))
def reduced_alone(y: SliceMut[i32], x: Slice[i32]) -> None:
    y[thread_idx.x] = shuffle(warp_sum(x[thread_idx.x]), 3)


@kernel(grid=1, block=32, requires="len(y) == 32")
def without_masks(y: SliceMut[i32]) -> None:
    y[thread_idx.x] = warp_prefix_sum(i32(1))


def test_kernels_without_masks_stay_as_they_are() -> None:
    for kernel_ in (without_masks, reduced_alone):
        assert "lanemask_lt" not in compile_ptx(kernel_.ir(), "sm_90")
