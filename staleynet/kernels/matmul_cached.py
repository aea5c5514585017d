"""The register-blocked matrix product for a CPU, where a block's tiles fill the caches instead of a GPU's shared memory.

The same sums in the same order as the kernels of `matmul.py`, and so the same bits. Left out: which size suits a product (`staleynet.ops.matmul`).
"""

from kdsl import (
    Kernel,
    Slice,
    SliceMut,
    f32,
    fma,
    function,
    i64,
    kernel,
    prefetch,
    shared_array,
    sync_threads,
    thread_idx,
    tile_index,
    tiles,
    u32,
    unroll,
)
from staleynet.kernels.device import store
from staleynet.kernels.matmul import FITS, NOTHING, THREADS, Product, batch_start, element

SIZES = (128, 64, 32)
"""Rows and columns of a tile of C, and the depth of the tiles of A and B. Three tiles of the largest size take 200 KiB: a level-2 cache holds them, and panels of
16 columns of B stay in the level-1 cache.
"""
A_PADDING = 4
"""Unused elements at the end of each row of the tile of A, so that a column is spread over the sets of a cache."""
PADDING = 16
"""The same for B and C, whose rows begin at cache lines."""


@function
def touch(source: Slice[f32], first: i64, place: i64, stride: i64, k: i64, k_stride: i64) -> None:
    """Say that element (place, k) of an operand is read in the next step."""
    prefetch(source, first + place * stride + k * k_stride)


def cache_blocked(size: int) -> Kernel:
    """The kernel with tiles of `size` x `size`, a multiple of 32."""
    parts = size // THREADS

    @kernel(
        grid=tiles(rows="p.m", columns="p.n", batch="p.sequences * p.heads", tile=(size, size)), block=(THREADS, THREADS), requires=FITS
    )
    def matmul_cache_blocked(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Product) -> None:
        """A block per square tile of C, which it keeps in its cache beside a tile of A and one of B, all of the same size.

        Thread (x, y) owns the rows y + 16 i and the columns x + 16 j. It has two sums in registers at a time; what a GPU's thread gains by several more, a group of
        lanes gains here, because the threads of several rows run together and share what they read of B. While it sums, a block asks for the tiles of its next
        step. Neighbouring threads read neighbouring words of global memory: x runs along the smaller of an operand's strides.
        """
        a_tile = shared_array((size, size + A_PADDING), f32)
        b_tile = shared_array((size, size + PADDING), f32)
        c_tile = shared_array((size, size + PADDING), f32)
        x, y = thread_idx.x, thread_idx.y
        tile = tile_index()
        a_first = batch_start(tile.batch, p.heads, p.a_sequence, p.a_head)
        b_first = batch_start(tile.batch, p.heads, p.b_sequence, p.b_head)
        a_along_k = p.a_column <= p.a_row  # the same for all threads: x along k, or else along the rows
        b_along_k = p.b_row < p.b_column  # x along k, or else along the columns
        for i in range(parts):
            for j in range(parts):
                c_tile[y + THREADS * i, x + THREADS * j] = 0.0
        for step in range(0, p.k, size):
            depth = min(i64(p.k) - step, size)
            copied = (depth + THREADS - 1) // THREADS  # parts along k
            if a_along_k:
                for i in range(parts):
                    for j in range(copied):
                        u, v = y + THREADS * i, x + THREADS * j
                        a_tile[u, v] = element(a, a_first, tile.row + u, p.m, p.a_row, step + v, p.k, p.a_column, NOTHING)
            else:
                for i in range(copied):
                    for j in range(parts):
                        u, v = y + THREADS * i, x + THREADS * j
                        a_tile[v, u] = element(a, a_first, tile.row + v, p.m, p.a_row, step + u, p.k, p.a_column, NOTHING)
            if b_along_k:
                for i in range(parts):
                    for j in range(copied):
                        u, v = y + THREADS * i, x + THREADS * j
                        b_tile[v, u] = element(b, b_first, tile.column + u, p.n, p.b_column, step + v, p.k, p.b_row, 0.0)
            else:
                for i in range(copied):
                    for j in range(parts):
                        u, v = y + THREADS * i, x + THREADS * j
                        b_tile[u, v] = element(b, b_first, tile.column + v, p.n, p.b_column, step + u, p.k, p.b_row, 0.0)
            sync_threads()
            following = step + size
            for j in range(parts // 2):
                for i in range(parts):
                    for h in unroll(2):
                        u, v = y + THREADS * i, x + THREADS * (2 * j + h)
                        if a_along_k:
                            touch(a, a_first, tile.row + u, p.a_row, following + v, p.a_column)
                        else:
                            touch(a, a_first, tile.row + x + THREADS * i, p.a_row, following + y + THREADS * (2 * j + h), p.a_column)
                        if b_along_k:
                            touch(b, b_first, tile.column + y + THREADS * (2 * j + h), p.b_column, following + x + THREADS * i, p.b_row)
                        else:
                            touch(b, b_first, tile.column + v, p.b_column, following + u, p.b_row)
                    u, v = y + THREADS * i, x + 2 * THREADS * j
                    first, second = c_tile[u, v], c_tile[u, v + THREADS]
                    for k in range(depth):
                        left = a_tile[u, k]
                        first, second = fma(left, b_tile[k, v], first), fma(left, b_tile[k, v + THREADS], second)
                    c_tile[u, v], c_tile[u, v + THREADS] = first, second
                sync_threads()  # the panel of B stays in the level-1 cache until all threads are done with it
        c_first = batch_start(tile.batch, p.heads, p.c_sequence, p.c_head)
        for i in range(parts):
            row = tile.row + y + THREADS * i
            for j in range(parts):
                column = tile.column + x + THREADS * j
                if row < p.m and column < p.n:
                    place = c_first + row * p.c_row + column * p.c_column
                    store(c, place, p.alpha * c_tile[y + THREADS * i, x + THREADS * j], p.accumulate)

    return matmul_cache_blocked
