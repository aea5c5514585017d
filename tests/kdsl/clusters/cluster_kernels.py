"""Kernels with clusters."""

from __future__ import annotations

from kdsl import (
    DisjointSlice,
    Slice,
    SliceMut,
    atomic_add,
    block_idx,
    block_index,
    cluster_rank,
    cluster_size,
    elements,
    f32,
    function,
    grid_dim,
    i32,
    i64,
    kernel,
    remote,
    rows,
    shared_array,
    sync_cluster,
    sync_threads,
    thread_idx,
    thread_index,
    tiles,
)


@kernel(grid="len(y) // 64", block=64, cluster=4, requires=("len(x) == len(y)",))
def rotate(y: SliceMut[f32], x: Slice[f32]) -> None:
    """Give each block of a cluster the 64 elements of the next one, the last those of the first, through shared memory."""
    tile = shared_array((2, 32), f32)
    t = thread_idx.x
    tile[t // 32, t % 32] = x[block_index() * 64 + t]
    sync_cluster()
    y[block_index() * 64 + t] = remote(tile, (cluster_rank() + 1) % cluster_size())[t // 32, t % 32]
    sync_cluster()


@kernel(grid="len(y) // 64", block=64, cluster=2, requires=("len(x) == len(y)",))
def push(y: SliceMut[f32], x: Slice[f32]) -> None:
    """The same for pairs, by writing into the other block's array, which is large enough to be dynamic."""
    tile = shared_array(20_000, f32)
    t = thread_idx.x
    sync_cluster()
    remote(tile, 1 - cluster_rank())[10_000 + t] = x[block_index() * 64 + t]
    sync_cluster()
    y[block_index() * 64 + t] = tile[10_000 + t]


@kernel(grid=2, block=32, cluster=2)
def sized(y: SliceMut[f32], n: i64) -> None:
    """Each block fills the other's array, whose extents the launch decides, with its rank; the sums."""
    own = shared_array((2, n), f32)
    sync_cluster()
    other = remote(own, 1 - cluster_rank())
    for i in range(thread_idx.x, other.shape[1], 32):
        other[0, i] = f32(cluster_rank())
        other[1, i] = 10.0
    sync_cluster()
    if thread_idx.x == 0:
        total = f32(0.0)
        for i in range(n):
            total += own[0, i] + own[1, i]
        y[cluster_rank()] = total


@kernel(grid=8, block=64, cluster=8)
def histogram(counts: SliceMut[i32], x: Slice[i32]) -> None:
    """How often each of 64 numbers occurs; every block of the one cluster keeps 8 of the counts."""
    own = shared_array(8, i32)
    t = thread_idx.x
    if t < 8:
        own[t] = 0
    sync_cluster()
    for i in range(thread_index(), len(x), 512):
        atomic_add(remote(own, x[i] // 8), x[i] % 8, 1, scope="device")
    sync_cluster()
    if t < 8:
        counts[cluster_rank() * 8 + t] = own[t]


@kernel(grid=("len(x) // 12", 3, 2), block=1, cluster=(2, 3, 1))
def places(x: SliceMut[i64]) -> None:
    """What a block knows of its place, as one number per block: its rank and its three indices."""
    wide = grid_dim.x * grid_dim.y
    x[block_idx.z * wide + block_idx.y * grid_dim.x + block_idx.x] = (
        1000 * cluster_rank() + 100 * block_idx.x + 10 * block_idx.y + block_idx.z
    )


@kernel(grid=("len(x) // 4", 2), block=1, cluster=(2, 2))
def far(x: SliceMut[f32]) -> None:
    """Blocks of clusters of 2 x 2; the one at (4, 1) writes beyond the end."""
    i = block_idx.y * grid_dim.x + block_idx.x
    if block_idx.x == 4 and block_idx.y == 1:
        i = len(x) + 7
    x[i] = 1.0


@kernel(grid=2, block=32, cluster=2)
def outside(y: SliceMut[f32], rank: i64, index: i64) -> None:
    """Read an element of some block's array that may not exist."""
    tile = shared_array((4, 32), f32)
    for row in range(4):
        tile[row, thread_idx.x] = 1.0
    sync_cluster()
    y[thread_index()] = remote(tile, rank)[3, index]
    remote(tile, rank)[index, 0] = 2.0
    sync_cluster()


@kernel(grid="x.shape[0] // 64", block=64, cluster=16)
def of_sixteen(y: SliceMut[f32], x: Slice[f32]) -> None:
    """Each block takes what the block half a cluster further has."""
    tile = shared_array(64, f32)
    t = thread_idx.x
    tile[t] = x[thread_index()]
    sync_cluster()
    y[thread_index()] = remote(tile, (cluster_rank() + 8) % cluster_size())[t]
    sync_cluster()


@kernel(grid=("len(totals) * 3", 3), block=32, cluster=(3, 3))
def of_nine(totals: SliceMut[i64]) -> None:
    """The sum of the ranks of each cluster."""
    total = shared_array(1, i64)
    total[0] = 0
    sync_cluster()
    if thread_idx.x == 0:
        atomic_add(remote(total, 0), 0, cluster_rank())
    sync_cluster()
    if cluster_rank() == 0 and thread_idx.x == 0:
        totals[block_idx.x // 3] = total[0]


@function
def of_neighbour(array: SliceMut[f32], i: i64) -> f32:
    """An element of the next block's array."""
    return remote(array, (cluster_rank() + 1) % cluster_size())[i]


@kernel(grid=elements("y"), block=32, cluster=2)
def through_a_function(y: DisjointSlice[f32]) -> None:
    """Each pair of blocks exchanges its elements; the last cluster may have a block without any."""
    tile = shared_array(32, f32)
    i = thread_index()
    tile[thread_idx.x] = 0.0
    if i in y:
        tile[thread_idx.x] = y[i]
    sync_cluster()
    other = of_neighbour(tile, thread_idx.x)
    sync_cluster()
    if i in y:
        y[i] = other


@kernel(grid=rows("n"), block=64, cluster=3)
def of_rows(y: SliceMut[f32], n: i64) -> None:
    """How many blocks there are."""
    y[0] = f32(grid_dim.x)


@kernel(grid=tiles(rows="m", columns="n", batch=2, tile=(2, 16)), cluster=(2, 2, 2))
def of_tiles(y: SliceMut[i64], m: i64, n: i64) -> None:
    """How many blocks there are along x, y and z."""
    y[0], y[1], y[2] = grid_dim.x, grid_dim.y, grid_dim.z
    sync_threads()
