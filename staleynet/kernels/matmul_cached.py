"""The register-blocked matrix product for a CPU, where a block's tiles fill the caches instead of a GPU's shared memory.

The same sums in the same order as the kernels of `matmul.py`, and so the same bits. Left out: which schedule suits a product (`staleynet.ops.matmul`).
"""

from dataclasses import dataclass

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
    unroll,
)
from staleynet.kernels.device import store
from staleynet.kernels.matmul import FITS, NOTHING, THREADS, Product, batch_start, element


@dataclass(frozen=True)
class Schedule:
    """How large the tiles are. The sums, and so all bits, are the same for every schedule."""

    rows: int
    """Rows of a tile of C and of A, a multiple of 16."""
    columns: int
    """Columns of a tile of C and of B, a multiple of 16."""
    depth: int
    """Columns of a tile of A and rows of one of B, a multiple of 32."""


PADDING = 16
"""Unused elements at the end of each row of a tile, so that rows begin at cache lines and a column is spread over the sets of a cache."""


def cache_blocked(schedule: Schedule) -> Kernel:
    """The kernel with one schedule. Its three tiles should fit the level-2 cache, and 16 columns of B the level-1 cache."""
    rows, columns, depth = schedule.rows, schedule.columns, schedule.depth
    row_parts, column_parts, depth_parts = rows // THREADS, columns // THREADS, depth // THREADS
    a_each, b_each = -(-depth // columns), -(-depth // rows)  # parts of the next tiles of A and B that each round of sums asks for
    if rows % THREADS or columns % THREADS or depth % (2 * THREADS):
        raise ValueError(f"not a schedule of this kernel: {schedule}")

    @function
    def touch(source: Slice[f32], start: i64, place: i64, stride: i64, k: i64, k_stride: i64, along_k: bool) -> None:
        """Ask for 16 rows (of A) or columns (of B) from `place` on, at 16 places along k, of the tile that begins at `start`."""
        x, y = thread_idx.x, thread_idx.y
        if along_k:
            prefetch(source, start + (place + y) * stride + (k + x) * k_stride)
        else:
            prefetch(source, start + (place + x) * stride + (k + y) * k_stride)

    @kernel(
        grid=tiles(rows="p.m", columns="p.n", batch="p.sequences * p.heads", tile=(rows, columns)), block=(THREADS, THREADS), requires=FITS
    )
    def matmul_cache_blocked(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Product) -> None:
        """A block per tile of C, which it keeps in its cache beside a tile of A and one of B.

        Thread (x, y) owns the rows y + 16 i and the columns x + 16 j. It has one sum in a register at a time; what a GPU's thread gains by several, a group
        of lanes gains here, because the threads of several rows run together and share what they read of B. While it sums, a block asks for the tiles of the
        next step, a few lines at a time: what the sums read waits behind them. Neighbouring threads read neighbouring words of global memory: x runs along
        the smaller of an operand's strides. What is not added to C goes there from registers, a tile of C does not see it.
        """
        a_tile = shared_array((rows, depth + PADDING), f32)
        b_tile = shared_array((depth, columns + PADDING), f32)
        c_tile = shared_array((rows, columns + PADDING), f32)
        x, y = thread_idx.x, thread_idx.y
        tile = tile_index()
        a_first = batch_start(tile.batch, p.heads, p.a_sequence, p.a_head)
        b_first = batch_start(tile.batch, p.heads, p.b_sequence, p.b_head)
        a_along_k = p.a_column <= p.a_row  # the same for all threads: x along k, or else along the rows
        b_along_k = p.b_row < p.b_column  # x along k, or else along the columns
        c_first = batch_start(tile.batch, p.heads, p.c_sequence, p.c_head)
        c_start = c_first + tile.row * p.c_row + tile.column * p.c_column
        c_in_rows = p.c_column <= p.c_row
        for step in range(0, p.k, depth):
            rest = min(i64(p.k) - step, depth)
            copied = (rest + THREADS - 1) // THREADS  # parts along k
            if a_along_k:
                for i in range(row_parts):
                    for j in range(copied):
                        u, v = y + THREADS * i, x + THREADS * j
                        a_tile[u, v] = element(a, a_first, tile.row + u, p.m, p.a_row, step + v, p.k, p.a_column, NOTHING)
            else:
                for i in range(copied):
                    for j in range(row_parts):
                        u, v = y + THREADS * i, x + THREADS * j
                        a_tile[v, u] = element(a, a_first, tile.row + v, p.m, p.a_row, step + u, p.k, p.a_column, NOTHING)
            if b_along_k:
                for i in range(column_parts):
                    for j in range(copied):
                        u, v = y + THREADS * i, x + THREADS * j
                        b_tile[v, u] = element(b, b_first, tile.column + u, p.n, p.b_column, step + v, p.k, p.b_row, 0.0)
            else:
                for i in range(copied):
                    for j in range(column_parts):
                        u, v = y + THREADS * i, x + THREADS * j
                        b_tile[u, v] = element(b, b_first, tile.column + v, p.n, p.b_column, step + u, p.k, p.b_row, 0.0)
            sync_threads()
            # what is read next: the next step's tiles, or the first ones of the next block
            is_last = step + depth >= p.k
            is_last_column = tile.column + columns >= p.n
            next_k = 0 if is_last else step + depth
            next_row = tile.row + rows if is_last and is_last_column else tile.row
            next_column = tile.column if not is_last else 0 if is_last_column else tile.column + columns
            a_next = a_first + next_row * p.a_row + next_k * p.a_column
            b_next = b_first + next_column * p.b_column + next_k * p.b_row
            for j in range(column_parts):
                for i in range(row_parts):
                    u, v = y + THREADS * i, x + THREADS * j
                    if is_last:
                        touch(c, c_start, THREADS * i, p.c_row, THREADS * j, p.c_column, c_in_rows)
                    total = f32(0)
                    if step > 0:
                        total = c_tile[u, v]
                    for part in unroll(a_each):
                        if a_each * j + part < depth_parts:
                            touch(a, a_next, THREADS * i, p.a_row, THREADS * (a_each * j + part), p.a_column, a_along_k)
                    for k in range(min(rest, depth // 2)):
                        total = fma(a_tile[u, k], b_tile[k, v], total)
                    for part in unroll(b_each):
                        if b_each * i + part < depth_parts:
                            touch(b, b_next, THREADS * j, p.b_column, THREADS * (b_each * i + part), p.b_row, b_along_k)
                    for k in range(depth // 2, rest):
                        total = fma(a_tile[u, k], b_tile[k, v], total)
                    if is_last and p.accumulate == 0:
                        if tile.row + u < p.m and tile.column + v < p.n:
                            c[c_start + u * p.c_row + v * p.c_column] = p.alpha * total
                    else:
                        c_tile[u, v] = total
                    sync_threads()  # the panel of B stays in the level-1 cache until all threads are done with it
        if p.accumulate != 0 or p.k == 0:
            for i in range(row_parts):
                for j in range(column_parts):
                    u, v = y + THREADS * i, x + THREADS * j
                    if tile.row + u < p.m and tile.column + v < p.n:
                        total = c_tile[u, v] if p.k > 0 else f32(0)
                        store(c, c_start + u * p.c_row + v * p.c_column, p.alpha * total, p.accumulate)

    return matmul_cache_blocked
