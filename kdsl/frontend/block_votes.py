"""Votes of a block for targets without an instruction for them, written in the language. Threads that have returned do not count."""

from __future__ import annotations

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import atomic_add, atomic_store, lane_index, popcount, shared_array, sync_threads, trailing_zeros, warp_ballot
from kdsl.lang.types import u32


@function
def sync_threads_count(predicate: bool) -> u32:
    """For how many threads it holds: by a counter, to which the first lane that is there adds for its warp."""
    total = shared_array(1, u32)
    atomic_store(total, 0, 0, scope="block")
    sync_threads()
    held = warp_ballot(predicate)
    if trailing_zeros(warp_ballot(True)) == u32(lane_index()):
        atomic_add(total, 0, popcount(held), scope="block")
    sync_threads()
    count: u32 = total[0]
    sync_threads()  # before a next vote sets it to 0
    return count


@function
def sync_threads_and(predicate: bool) -> bool:
    """Whether it holds for all."""
    return sync_threads_count(not predicate) == 0


@function
def sync_threads_or(predicate: bool) -> bool:
    """Whether it holds for some."""
    return sync_threads_count(predicate) != 0
