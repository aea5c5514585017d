"""Kernels whose accesses tell the caches something, for the tests of this folder."""

from __future__ import annotations

from typing import TypeVar

from kdsl import (
    D2,
    DisjointSlice,
    Slice,
    SliceMut,
    as_vectors,
    bf16,
    cached,
    elements,
    f16,
    f32,
    f32x4,
    f64,
    function,
    i8,
    i16,
    i32,
    i64,
    kernel,
    thread_index,
    u8,
    u16,
    u32,
    u64,
)

T = TypeVar("T", i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64)


@kernel(grid=elements("y"))
def reversed_(y: SliceMut[T], x: Slice[T]) -> None:
    """Every hint once: the last one to write wins, and all write the same."""
    i = thread_index()
    j = len(x) - 1 - i
    if i in y:
        cached(y, "streaming")[i] = cached(x, "streaming")[j]
        cached(y, "level2")[i] = cached(x, "level2", prefetch=64)[j]
        cached(y, "evict_first")[i] = cached(x, "evict_first", prefetch=128)[j]
        cached(y, "evict_last")[i] = cached(x, "evict_last", prefetch=256)[j]
        cached(y, "no_allocate")[i] = cached(x, "no_allocate")[j]
        cached(y)[i] = cached(x, prefetch=128)[j]


@kernel(grid=elements("y"))
def inverted(y: DisjointSlice[bool], x: Slice[bool]) -> None:
    i = thread_index()
    if i in y:
        cached(y, "streaming")[i] = not cached(x, "level2")[i]


@kernel(grid=elements("n"))
def moved(y: SliceMut[T], n: Slice[i32]) -> None:
    """An array that is read and written: what was written before is read."""
    i = thread_index()
    if i in n:
        cached(y, "streaming")[2 * i] = cached(y, "level2")[2 * i] + y.dtype(1)
        y[2 * i] = cached(y, "evict_last")[2 * i] + y.dtype(1)
        cached(y, "no_allocate")[2 * i + 1] = y[2 * i]


@function
def through(x: Slice[f32], i: i64) -> f32:
    return x[i]


@kernel(grid=elements("y"))
def everywhere(y: DisjointSlice[f32], x: Slice[f32], z: Slice[f32, D2], n: i64) -> None:
    """In a loop whose reads are checked, through a function, of two dimensions, without checks."""
    i = thread_index()
    if i in y:
        total = 0.0
        seen = cached(x, "streaming")
        for k in range(n):
            total += seen[i + k]
        # i is an index of y, which is as long as x here
        y[i] = total + through(seen, i) + cached(z, "evict_first", prefetch=128)[i, 1] + cached(x, "level2").unchecked[i]


@kernel(grid=elements("y"))
def wide(y: DisjointSlice[f32x4], x: Slice[f32], z: SliceMut[f32]) -> None:
    i = thread_index()
    if i in y:
        v = cached(as_vectors(x, 4), "streaming", prefetch=256)[i] + as_vectors(cached(x, "evict_last"), 4)[i]
        cached(y, "streaming")[i] = v
        as_vectors(cached(z, "no_allocate"), f32x4)[i] = v + cached(y, "evict_first")[i]
        as_vectors(cached(z, "streaming"), 2)[2 * i] = cached(as_vectors(x, 2), "level2")[2 * i]


@kernel(grid=1, block=32)
def outside(y: SliceMut[f32], x: Slice[f32], at: i64, to: i64) -> None:
    if thread_index() == 0:
        cached(y, "streaming")[to] = cached(x, "level2")[at] + 1.0
