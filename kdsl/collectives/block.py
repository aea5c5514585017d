"""Reductions and prefix sums over a block: each warp by itself, then the first warp over the warps' results.

Two barriers each. What the first warp writes lies apart from what it reads, so that the next call may begin while slow threads still read the result.
"""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import (
    WARP_SIZE,
    block_dim,
    is_first_lane,
    lane_index,
    shared_array,
    sync_threads,
    warp_index,
    warp_max,
    warp_min,
    warp_prefix_sum,
    warp_sum,
)


@function
def block_sum(value: Any) -> Any:
    """Sum over the threads of the block, in every thread. Each warp combines with xor 16, 8, 4, 2, 1, then the warps' sums are combined likewise."""
    total = warp_sum(value)
    warps = (block_dim.x * block_dim.y * block_dim.z + WARP_SIZE - 1) // WARP_SIZE
    if warps == 1:
        return total
    partial = shared_array(warps, total.dtype)
    result = shared_array(1, total.dtype)
    if is_first_lane():
        partial[warp_index()] = total
    sync_threads()
    if warp_index() == 0:
        # minus zero changes no sum, zero would turn minus zero into zero
        whole = warp_sum(partial[lane_index()] if lane_index() < warps else -total.dtype(0))
        if is_first_lane():
            result[0] = whole
    sync_threads()
    return result[0]


@function
def block_max(value: Any) -> Any:
    """Largest value over the threads of the block, in every thread; NaN if any is."""
    largest = warp_max(value)
    warps = (block_dim.x * block_dim.y * block_dim.z + WARP_SIZE - 1) // WARP_SIZE
    if warps == 1:
        return largest
    partial = shared_array(warps, largest.dtype)
    result = shared_array(1, largest.dtype)
    if is_first_lane():
        partial[warp_index()] = largest
    sync_threads()
    if warp_index() == 0:
        whole = warp_max(partial[lane_index() if lane_index() < warps else 0])  # once more the first changes nothing
        if is_first_lane():
            result[0] = whole
    sync_threads()
    return result[0]


@function
def block_min(value: Any) -> Any:
    """Smallest value over the threads of the block, in every thread; NaN if any is."""
    smallest = warp_min(value)
    warps = (block_dim.x * block_dim.y * block_dim.z + WARP_SIZE - 1) // WARP_SIZE
    if warps == 1:
        return smallest
    partial = shared_array(warps, smallest.dtype)
    result = shared_array(1, smallest.dtype)
    if is_first_lane():
        partial[warp_index()] = smallest
    sync_threads()
    if warp_index() == 0:
        whole = warp_min(partial[lane_index() if lane_index() < warps else 0])
        if is_first_lane():
            result[0] = whole
    sync_threads()
    return result[0]


@function
def block_prefix_sum(value: Any) -> Any:
    """Sum over the thread itself and those of lower rank. Each warp combines by halves (`warp_prefix_sum`), then the warps' sums are combined likewise, and
    what the warps below come to is added on the left."""
    own = warp_prefix_sum(value)
    warps = (block_dim.x * block_dim.y * block_dim.z + WARP_SIZE - 1) // WARP_SIZE
    if warps == 1:
        return own
    partial = shared_array(warps - 1, own.dtype)
    below = shared_array(warps - 1, own.dtype)
    if lane_index() == WARP_SIZE - 1 and warp_index() < warps - 1:  # those are full, the last warp perhaps not, and nobody needs its sum
        partial[warp_index()] = own
    sync_threads()
    if warp_index() == 0:
        sums = warp_prefix_sum(partial[lane_index()] if lane_index() < warps - 1 else -own.dtype(0))
        if lane_index() < warps - 1:
            below[lane_index()] = sums
    sync_threads()
    return below[warp_index() - 1] + own if warp_index() > 0 else own
