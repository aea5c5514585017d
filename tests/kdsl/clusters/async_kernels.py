"""Kernels that store asynchronously to other blocks, for the tests of this folder. Every wait has a limit, so that a mistake is reported."""

from __future__ import annotations

from typing import Final, TypeVar

from kdsl import (
    Barriers,
    Const,
    Slice,
    SliceMut,
    as_vectors,
    barrier_arrive,
    barrier_arrive_expect,
    barrier_init,
    barrier_test,
    barrier_wait,
    cluster_rank,
    cluster_size,
    f16,
    f32,
    f64,
    fence_barrier_init,
    function,
    i32,
    i64,
    is_first_thread,
    kernel,
    reduce_async,
    remote,
    shared_array,
    shared_barriers,
    store_async,
    sync_cluster,
    thread_idx,
    thread_index,
    u8,
    u32,
    u64,
)

LIMIT: Final = 20_000_000
"""Nanoseconds of a wait."""
T = TypeVar("T", f16, f32, f64, i32, i64, u8, u32, u64)


@function
def set_up(full: Barriers) -> None:
    """Two barriers for one thread of the block, ready for the whole cluster."""
    if is_first_thread():
        barrier_init(full, 0, 1)
        barrier_init(full, 1, 1)
        fence_barrier_init()
    sync_cluster()


@kernel(grid="len(y) // 32", block=32, cluster=4, requires=("len(x) == len(y)",))
def passed_on(y: SliceMut[T], x: Slice[T], rounds: i32) -> None:
    """Each block passes its numbers on to the next one of its cluster, round after round."""
    tile = shared_array((2, 32), T)
    full = shared_barriers(2)
    set_up(full)
    t = thread_idx.x
    value = x[thread_index()]
    for k in range(rounds):
        if is_first_thread():
            barrier_arrive_expect(full, k % 2, tile.nbytes // 2)
        store_async(remote(tile, (cluster_rank() + 1) % cluster_size()), (k % 2, t), value, full, k % 2)
        barrier_wait(full, k % 2, k // 2, timeout=LIMIT)
        value = tile[k % 2, t]
        sync_cluster()  # before a round later the same row is written again
    y[thread_index()] = value
    sync_cluster()


@kernel(grid="len(y) // 256", block=32, cluster=2, requires=("len(x) == len(y)", "n == 256"))
def exchanged(y: SliceMut[T], x: Slice[T], n: i32, LANES: Const[int]) -> None:
    """Both blocks of a cluster exchange 256 numbers by vectors, in an array that the launch sizes."""
    tile = shared_array(16 * (n // 16), T)
    full = shared_barriers(2)
    set_up(full)
    if is_first_thread():
        barrier_arrive_expect(full, 1, tile.nbytes)
    own = as_vectors(x, LANES)
    theirs = as_vectors(remote(tile, 1 - cluster_rank()), LANES)
    for i in range(thread_idx.x, 256 // LANES, 32):
        store_async(theirs, i, own[thread_index() // 32 * (256 // LANES) + i], full, 1)
    barrier_wait(full, 1, 0, timeout=LIMIT)
    if barrier_test(full, 1, 0):
        for i in range(thread_idx.x, 256, 32):
            y[thread_index() // 32 * 256 + i] = tile[i]
    sync_cluster()


@kernel(grid="len(sums) * 4", block=64, cluster=4)
def counted(sums: SliceMut[T], x: Slice[T], OP: Const[int]) -> None:
    """All blocks of a cluster combine their numbers in the first one."""
    total = shared_array(1, T)
    full = shared_barriers(2)
    total[0] = x[0]
    set_up(full)
    if cluster_rank() == 0 and is_first_thread():
        barrier_arrive_expect(full, 0, 4 * 64 * total.nbytes)
    first = remote(total, 0)
    value = x[1 + thread_index()]
    if OP == 0:
        reduce_async(first, 0, value, full, 0)
    if OP == 1:
        reduce_async(first, 0, value, full, 0, op="min")
    if OP == 2:
        reduce_async(first, 0, value, full, 0, op="max")
    if OP == 3:
        reduce_async(first, 0, value, full, 0, op="and")
    if OP == 4:
        reduce_async(first, 0, value, full, 0, op="or")
    if OP == 5:
        reduce_async(first, 0, value, full, 0, op="xor")
    if cluster_rank() == 0:
        barrier_wait(full, 0, 0, timeout=LIMIT)
        if is_first_thread():
            sums[thread_index() // 256] = total[0]
    sync_cluster()


@kernel(grid=2, block=32, cluster=2)
def outside(y: SliceMut[f32], row: i64, rank: i64, bar: i64, whole: i32) -> None:
    """Block 0 stores to a row and a block that may not exist; block 1 waits, if `whole`, for as many bytes as all its threads send."""
    tile = shared_array((2, 32), f32)
    full = shared_barriers(2)
    tile[0, thread_idx.x] = -1.0
    tile[1, thread_idx.x] = -1.0
    set_up(full)
    if is_first_thread():
        if whole != 0:
            barrier_arrive_expect(full, 0, 128)
        else:
            barrier_arrive(full, 0)
    if cluster_rank() == 0:
        store_async(remote(tile, rank), (row, thread_idx.x), 1.0, full, bar)
        if whole != 0:
            store_async(remote(tile, 0), (1, thread_idx.x), 2.0, full, 0)
    barrier_wait(full, 0, 0, timeout=LIMIT)
    y[thread_index()] = tile[0, thread_idx.x]
    sync_cluster()


@kernel(grid=2, block=32, cluster=2)
def trusted(y: SliceMut[f32], row: i64, rank: i64) -> None:
    """The same without checks."""
    tile = shared_array((2, 32), f32)
    full = shared_barriers(2)
    set_up(full)
    if is_first_thread() and cluster_rank() == 1:
        barrier_arrive_expect(full, 0, 128)
    if cluster_rank() == 0:
        store_async(
            remote(tile, rank).unchecked, (row, thread_idx.x), f32(thread_idx.x), full, 0
        )  # the test gives a row and a block that are there
    else:
        barrier_wait(full, 0, 0, timeout=LIMIT)
        y[thread_idx.x] = tile[row, thread_idx.x]
    sync_cluster()


@kernel(grid=2, block=32, cluster=2)
def two_kinds(y: SliceMut[f32]) -> None:
    """Barriers of the block beside those of the cluster."""
    tile = shared_array(32, f32)
    full, own = shared_barriers(2), shared_barriers(2)
    set_up(full)
    set_up(own)
    if is_first_thread():
        barrier_arrive_expect(full, 0, 128)
        barrier_arrive(own, 1)
    store_async(remote(tile, 1 - cluster_rank()), thread_idx.x, 1.0, full, 0)
    barrier_wait(own, 1, 0, timeout=LIMIT)
    barrier_wait(full, 0, 0, timeout=LIMIT)
    y[thread_index()] = tile[thread_idx.x]
    sync_cluster()
