"""Clusters that make no sense, and another block's array without the barriers that it needs."""

from __future__ import annotations

from typing import Any

import pytest
from refusal import refused

from kdsl import (
    KernelError,
    SliceMut,
    as_vectors,
    cluster_rank,
    elements,
    f16,
    f32,
    f32x2,
    f32x4,
    i32,
    i64,
    kernel,
    local_array,
    reduce_async,
    remote,
    shared_array,
    shared_barriers,
    store_async,
    sweep,
    sync_cluster,
    thread_idx,
    tiles,
    u32,
    u64,
)


@pytest.mark.parametrize(
    ("grid", "cluster", "message"),
    [
        (8, 0, "no size of a cluster"),
        (8, -2, "no size of a cluster"),
        (8, True, "no size of a cluster"),
        (8, 2.0, "no size of a cluster"),
        (8, "2", "no size of a cluster"),
        (8, (1, 2, 1, 1), "no size of a cluster"),
        (8, (), "no size of a cluster"),
        (34, 17, "has 17 blocks"),
        ((6, 6, 6), (3, 3, 2), "has 18 blocks"),
        (7, 2, "7 blocks along x, which is no multiple of the cluster's 2"),
        ((8, 3), (1, 2), "3 blocks along y, which is no multiple of the cluster's 2"),
        (sweep(blocks=5), 2, "5 blocks along x"),
        (elements("y"), (1, 2), "1 blocks along y"),
        (tiles(rows=8, columns=8, batch=3, tile=(2, 2)), (1, 1, 2), "3 blocks along z"),
    ],
)
def test_declarations(grid: Any, cluster: Any, message: str) -> None:
    with pytest.raises(KernelError, match=message) as caught:

        @kernel(grid=grid, block=32, cluster=cluster)
        def wrong(y: SliceMut[f32]) -> None:
            y[0] = 1.0

    assert caught.value.hint


def test_without_clusters() -> None:
    @kernel(grid=2, block=32)
    def rank(y: SliceMut[f32]) -> None:
        y[0] = f32(cluster_rank())

    @kernel(grid=2, block=32)
    def barrier(y: SliceMut[f32]) -> None:
        sync_cluster()
        y[0] = 1.0

    refused(rank, "cluster_rank() needs a kernel with clusters", at="cluster_rank()", hint="cluster=2")
    refused(barrier, "sync_cluster() needs a kernel with clusters", at="sync_cluster()", hint="cluster=2")


def test_divergent_barrier() -> None:
    @kernel(grid=2, block=32, cluster=2)
    def wrong(y: SliceMut[f32]) -> None:
        if thread_idx.x < 16:
            sync_cluster()
        y[0] = 1.0

    refused(
        wrong, "not all threads of the block reach sync_cluster()", at="sync_cluster()", hint="move the barrier", also="thread_idx.x < 16"
    )


def test_what_is_remote() -> None:
    @kernel(grid=2, block=32, cluster=2)
    def of_a_view(y: SliceMut[f32]) -> None:
        sync_cluster()
        y[0] = remote(y, 1)[0]
        sync_cluster()

    @kernel(grid=2, block=32, cluster=2)
    def of_a_local(y: SliceMut[f32]) -> None:
        own = local_array(4, f32)
        sync_cluster()
        y[0] = remote(own, 1)[0]
        sync_cluster()

    @kernel(grid=2, block=32, cluster=2)
    def of_nobody(y: SliceMut[f32]) -> None:
        tile = shared_array(4, f32)
        sync_cluster()
        y[0] = remote(tile, 2)[0]
        sync_cluster()

    @kernel(grid=2, block=32, cluster=2)
    def outside(y: SliceMut[f32]) -> None:
        tile = shared_array(4, f32)
        sync_cluster()
        y[0] = remote(tile, 1)[4]
        sync_cluster()

    refused(of_a_view, "takes a shared array of numbers, not SliceMut[f32]", at="y", hint="shared_array()")
    refused(of_a_local, "not a local array of f32", at="own", hint="shared_array()")
    refused(of_nobody, "block 2 is outside of the cluster", at="2", hint="ranks are 0 to 1")
    refused(outside, "index 4 is outside `tile`", at="4", hint="0 to 3")


def test_no_barrier_before() -> None:
    @kernel(grid=2, block=32, cluster=2)
    def wrong(y: SliceMut[f32]) -> None:
        tile = shared_array(4, f32)
        y[0] = remote(tile, 1)[0]
        sync_cluster()

    refused(wrong, "may not have begun", at="remote(tile, 1)[0]", hint="call sync_cluster() before")


def test_no_barrier_behind() -> None:
    @kernel(grid=2, block=32, cluster=2)
    def wrong(y: SliceMut[f32], n: f32) -> None:
        tile = shared_array(4, f32)
        sync_cluster()
        remote(tile, 1)[0] = 1.0
        if n > 0.0:
            sync_cluster()

    refused(wrong, "may have ended by then", at="remote(tile, 1)[0]", hint="after the last access")


def test_asynchronous_stores() -> None:
    @kernel(grid=2, block=32, cluster=2)
    def own(y: SliceMut[f32]) -> None:
        tile, full = shared_array(32, f32), shared_barriers(1)
        sync_cluster()
        store_async(tile, 0, 1.0, full, 0)
        sync_cluster()

    refused(own, "store_async() writes to a shared array of another block, not to a shared array of f32", at="tile", hint="remote(tile, 1)")

    @kernel(grid=2, block=32, cluster=2)
    def narrow(y: SliceMut[f32]) -> None:
        tile, full = shared_array(32, f16), shared_barriers(1)
        sync_cluster()
        store_async(remote(tile, 1), 0, f16(1.0), full, 0)
        sync_cluster()

    refused(narrow, "stores 4, 8 or 16 bytes, and an element of `tile` has 2", at="remote(tile, 1)", hint="as_vectors")

    @kernel(grid=2, block=32, cluster=2)
    def floats(y: SliceMut[f32]) -> None:
        tile, full = shared_array(32, f32), shared_barriers(1)
        sync_cluster()
        reduce_async(remote(tile, 1), 0, 1.0, full, 0)
        sync_cluster()

    refused(floats, 'reduce_async() with op="add" of f32', at="remote(tile, 1)", hint="i32, u32, i64, u64")

    @kernel(grid=2, block=32, cluster=2)
    def wide(y: SliceMut[f32]) -> None:
        tile, full = shared_array(32, i64), shared_barriers(1)
        sync_cluster()
        reduce_async(remote(tile, 1), 0, 1, full, 0, op="min")
        sync_cluster()

    refused(wide, 'with op="min" of i64', at="remote(tile, 1)", hint="i32, u32")

    @kernel(grid=2, block=32, cluster=2)
    def word(y: SliceMut[f32]) -> None:
        tile, full = shared_array(32, u32), shared_barriers(1)
        sync_cluster()
        reduce_async(remote(tile, 1), 0, 1, full, 0, op="mul")
        sync_cluster()

    refused(word, "`op` of reduce_async() is one of", at='"mul"', hint="such as")

    @kernel(grid=2, block=32, cluster=2)
    def vector(y: SliceMut[f32]) -> None:
        tile, full = shared_array(32, f32), shared_barriers(1)
        sync_cluster()
        store_async(as_vectors(remote(tile, 1), 4), 0, f32x2(1.0), full, 0)
        sync_cluster()

    refused(vector, "an f32x2 is not an f32x4", at="f32x2(1.0)", hint="f32x4")

    @kernel(grid=2, block=32, cluster=2)
    def place(y: SliceMut[f32]) -> None:
        tile, full = shared_array(32, f32), shared_barriers(1)
        sync_cluster()
        store_async(as_vectors(remote(tile, 1), 4), 8, f32x4(1.0), full, 0)
        sync_cluster()

    refused(place, "index 8 is outside `tile`, whose extent there is 8", at="8", hint="0 to 7")

    @kernel(grid=2, block=32, cluster=2)
    def no_barrier(y: SliceMut[f32]) -> None:
        tile, full = shared_array(32, f32), shared_array(1, u64)
        sync_cluster()
        store_async(remote(tile, 1), 0, 1.0, full, 0)
        sync_cluster()

    refused(no_barrier, "takes barriers, not a shared array of u64", at="full", hint="shared_barriers(count)")


def test_asynchronous_stores_between_barriers_of_the_cluster() -> None:
    @kernel(grid=2, block=32, cluster=2)
    def early(y: SliceMut[f32]) -> None:
        tile, full = shared_array(32, f32), shared_barriers(1)
        store_async(remote(tile, 1), 0, 1.0, full, 0)
        sync_cluster()

    refused(
        early, "`tile` of another block is touched", "may not have begun", at="store_async(remote(tile, 1), 0, 1.0, full, 0)", hint="before"
    )

    @kernel(grid=2, block=32, cluster=2)
    def last(y: SliceMut[f32], n: i32) -> None:
        tile, full = shared_array(32, u32), shared_barriers(1)
        sync_cluster()
        reduce_async(remote(tile, n), n, 1, full, n)

    refused(last, "may have ended by then", at="reduce_async(remote(tile, n), n, 1, full, n)", hint="after the last access")


def test_barriers_within_a_loop_serve_its_own_accesses() -> None:
    @kernel(grid=2, block=32, cluster=2)
    def right(y: SliceMut[f32]) -> None:
        tile = shared_array(4, f32)
        for k in range(3):
            tile[k] = 1.0
            sync_cluster()
            y[k] = remote(tile, 1)[k]
            sync_cluster()

    assert right.ir()

    @kernel(grid=2, block=32, cluster=2)
    def wrong(y: SliceMut[f32]) -> None:
        tile = shared_array(4, f32)
        sync_cluster()
        for k in range(3):
            sync_cluster()
            y[k] = remote(tile, 1)[k]

    refused(wrong, "may have ended by then", at="remote(tile, 1)[k]", hint="after the last access")
