"""Exclusive scans over a block, and the largest and smallest numbers so far: each warp by itself, then the first warp over the warps' results.

Two barriers each. What the first warp writes lies apart from what it reads, so that the next call may begin while slow threads still read the result.
"""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import (
    WARP_SIZE,
    block_dim,
    lane_index,
    shared_array,
    shuffle_up,
    sync_threads,
    warp_exclusive_max,
    warp_exclusive_min,
    warp_exclusive_sum,
    warp_index,
    warp_prefix_sum,
)


@function
def block_exclusive_sum(value: Any) -> Any:
    """Sum over the threads of lower rank; 0 in the first. Each warp combines by halves (`warp_exclusive_sum`), then the warps' sums are combined likewise, and
    what the warps below come to is added on the left."""
    own = warp_prefix_sum(value)
    moved = shuffle_up(own, 1)
    before = moved if lane_index() > 0 else own.dtype(0)
    warps = (block_dim.x * block_dim.y * block_dim.z + WARP_SIZE - 1) // WARP_SIZE
    if warps == 1:
        return before
    partial = shared_array(warps - 1, own.dtype)
    below = shared_array(warps, own.dtype)
    if lane_index() == WARP_SIZE - 1 and warp_index() < warps - 1:  # those are full, the last warp perhaps not, and nobody needs its sum
        partial[warp_index()] = own
    sync_threads()
    if warp_index() == 0:
        sums = warp_exclusive_sum(partial[lane_index()] if lane_index() < warps - 1 else own.dtype(0))
        if lane_index() < warps:
            below[lane_index()] = sums
    sync_threads()
    # zero would turn minus zero into zero, so it is added to nothing
    return below[warp_index()] if lane_index() == 0 else (below[warp_index()] + before if warp_index() > 0 else before)


@function
def block_exclusive_max(value: Any) -> Any:
    """Largest value over the threads of lower rank; NaN if any is; in the first one minus infinity, or the least integer of the type."""
    before = warp_exclusive_max(value)
    warps = (block_dim.x * block_dim.y * block_dim.z + WARP_SIZE - 1) // WARP_SIZE
    if warps == 1:
        return before
    partial = shared_array(warps - 1, before.dtype)
    below = shared_array(warps, before.dtype)
    if lane_index() == WARP_SIZE - 1 and warp_index() < warps - 1:
        partial[warp_index()] = max(before, value)
    sync_threads()
    if warp_index() == 0:
        largest = warp_exclusive_max(partial[lane_index() if lane_index() < warps - 1 else 0])
        if lane_index() < warps:
            below[lane_index()] = largest
    sync_threads()
    return max(below[warp_index()], before)


@function
def block_exclusive_min(value: Any) -> Any:
    """Smallest value over the threads of lower rank; NaN if any is; in the first one infinity, or the largest integer of the type."""
    before = warp_exclusive_min(value)
    warps = (block_dim.x * block_dim.y * block_dim.z + WARP_SIZE - 1) // WARP_SIZE
    if warps == 1:
        return before
    partial = shared_array(warps - 1, before.dtype)
    below = shared_array(warps, before.dtype)
    if lane_index() == WARP_SIZE - 1 and warp_index() < warps - 1:
        partial[warp_index()] = min(before, value)
    sync_threads()
    if warp_index() == 0:
        smallest = warp_exclusive_min(partial[lane_index() if lane_index() < warps - 1 else 0])
        if lane_index() < warps:
            below[lane_index()] = smallest
    sync_threads()
    return min(below[warp_index()], before)


@function
def block_prefix_max(value: Any) -> Any:
    """Largest value over the thread itself and those of lower rank; NaN if any is."""
    return max(block_exclusive_max(value), value)


@function
def block_prefix_min(value: Any) -> Any:
    """Smallest value over the thread itself and those of lower rank; NaN if any is."""
    return min(block_exclusive_min(value), value)
