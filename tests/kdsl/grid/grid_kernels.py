"""Kernels whose blocks wait for each other, and kernels that overlap."""

from __future__ import annotations

from kdsl import (
    DisjointSlice,
    Slice,
    SliceMut,
    block_index,
    elements,
    f32,
    grid_dim,
    i64,
    is_first_thread,
    kernel,
    launch_dependents,
    shared_array,
    sync_cluster,
    sync_grid,
    sync_threads,
    thread_idx,
    thread_index,
    wait_for_dependencies,
)


@kernel(grid="len(a) // 96", block=96, cooperative=True, requires=("len(a) == len(b)",))
def turn(a: SliceMut[i64], b: SliceMut[i64], rounds: i64) -> None:
    """Move every element of `a` two places towards the front, round after round; from the front they come to the end."""
    i = thread_index()
    n = len(a)
    for _ in range(rounds):
        b[i] = a[(i + 1) % n]
        sync_grid()
        a[i] = b[(i + 1) % n]
        sync_grid()


@kernel(grid="len(a) // 96", block=96, cooperative=True, cluster=2, requires=("len(a) == len(b)",))
def turn_in_clusters(a: SliceMut[i64], b: SliceMut[i64], n: i64) -> None:
    """One round of the same through shared memory that the launch sizes, in clusters."""
    tile = shared_array(n, i64)
    i = thread_index()
    tile[thread_idx.x] = a[(i + 1) % len(a)]
    sync_cluster()
    b[i] = tile[thread_idx.x]
    sync_grid()
    a[i] = b[(i + 1) % len(a)]


@kernel(grid=("len(sums)", 1, 1), block=128, cooperative=True)
def normalise(y: SliceMut[f32], sums: SliceMut[f32]) -> None:
    """Divide by the largest absolute value of all, which each block finds for its part first."""
    largest = shared_array(128, f32)
    t = thread_idx.x
    seen = f32(0.0)
    for i in range(thread_index(), len(y), grid_dim.x * 128):
        seen = max(seen, abs(y[i]))
    largest[t] = seen
    sync_threads()
    if is_first_thread():
        for k in range(128):
            seen = max(seen, largest[k])
        sums[block_index()] = seen
    sync_grid()
    whole = f32(0.0)
    for k in range(grid_dim.x):
        whole = max(whole, sums[k])
    for i in range(thread_index(), len(y), grid_dim.x * 128):
        y[i] = y[i] / whole


@kernel(grid=elements("y"), block=64, programmatic=True, requires=("len(x) == len(y)",))
def add(y: SliceMut[f32], x: Slice[f32], a: f32) -> None:
    """Add a multiple of `x` reversed to `y`; the next kernel may begin as soon as this one runs."""
    launch_dependents()
    i = thread_index()
    n = len(y)
    wait_for_dependencies()
    if i in y:
        y[i] = a * x[n - 1 - i] + y[i]


@kernel(grid=elements("y"), block=64, requires=("len(x) == len(y)",))
def add_plainly(y: DisjointSlice[f32], x: Slice[f32], a: f32) -> None:
    """The same, one after the other."""
    i = thread_index()
    if i in y:
        y[i] = a * x[len(y) - 1 - i] + y[i]


@kernel(grid=elements("y"), block=64, programmatic=True)
def last(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    """Wait at the end only, so that what it reads may not be there yet."""
    i = thread_index()
    if i in y:
        y[i] = x[i]
    wait_for_dependencies()
