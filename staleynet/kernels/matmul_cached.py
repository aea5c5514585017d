"""The register-blocked matrix product for a CPU, where a block's tiles fill the caches instead of a GPU's shared memory (Goto and van de Geijn 2008,
https://doi.org/10.1145/1356052.1356053).

The same sums in the same order as the kernels of `matmul.py`, and so the same bits. Left out: which schedule suits a product (`staleynet.ops.matmul`).
"""

from dataclasses import dataclass

from kdsl import Kernel, Slice, SliceMut, f32, fma, i64, kernel, prefetch, shared_array, sync_threads, thread_idx, tile_index, tiles
from staleynet.kernels.device import store
from staleynet.kernels.matmul import FITS, NOTHING, Product, batch_start, element

WIDE = 32
"""Columns of C that a block sums up at a time: two vectors of AVX-512, four of AVX2."""
HIGH = 8
"""Rows of C that it sums up at a time. With AVX-512 all 8 x 32 sums are in registers: ten values read make sixteen products."""


@dataclass(frozen=True)
class Schedule:
    """How large the tiles are. The sums, and so all bits, are the same for every schedule."""

    rows: int
    """Rows of a tile of C and of A, a multiple of 32."""
    columns: int
    """Columns of a tile of C, a multiple of 32."""
    depth: int
    """Columns of a tile of A and rows of a panel of B, a multiple of 32."""


PADDING = 16
"""Unused elements at the end of each row of the tile of A, so that rows begin at cache lines and a column is spread over the sets of a cache."""


def cache_blocked(schedule: Schedule, *, sums_apart: bool = False) -> Kernel:
    """The kernel with one schedule. Its tile of A should fit the level-2 cache, and `depth` x 32 elements of B the level-1 cache. `sums_apart` keeps the sums
    of a tile of C in memory of their own while they grow, for a C to which they are added; other ones grow in C.
    """
    rows, columns, depth = schedule.rows, schedule.columns, schedule.depth
    if rows % WIDE or columns % WIDE or depth % WIDE:
        raise ValueError(f"not a schedule of this kernel: {schedule}")

    @kernel(grid=tiles(rows="p.m", columns="p.n", batch="p.sequences * p.heads", tile=(rows, columns)), block=(WIDE, HIGH), requires=FITS)
    def matmul_cache_blocked(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Product) -> None:
        """A block per tile of C. It copies a tile of A, which it keeps in its level-2 cache for all columns of the tile of C, and then, 32 columns at a time, a
        panel of B, which stays in the level-1 cache for all rows: with 256 rows and 512 columns a value is copied once for some hundred products.

        A thread has one sum in a register at a time; what a GPU's thread gains by several, a group of lanes gains here, because the threads of several rows run
        together and share what they read of B. Neighbouring threads read neighbouring words of global memory: x runs along the smaller of an operand's strides.
        """
        a_tile = shared_array((rows, depth + PADDING), f32)
        b_panel = shared_array((depth, WIDE), f32)
        c_tile = shared_array((rows, columns) if sums_apart else (1, 1), f32)
        x, y = thread_idx.x, thread_idx.y
        tile = tile_index()
        a_first = batch_start(tile.batch, p.heads, p.a_sequence, p.a_head)
        b_first = batch_start(tile.batch, p.heads, p.b_sequence, p.b_head)
        c_first = batch_start(tile.batch, p.heads, p.c_sequence, p.c_head)
        a_along_k = p.a_column <= p.a_row  # the same for all threads: x along k, or else along the rows
        b_along_k = p.b_row < p.b_column  # x along k, or else along the columns
        high, wide = min(i64(p.m) - tile.row, rows), min(i64(p.n) - tile.column, columns)  # what there is of this tile of C
        for step in range(0, max(p.k, 1), depth):
            deep = min(i64(p.k) - step, depth)
            if a_along_k:
                for i in range((high + HIGH - 1) // HIGH):
                    for j in range((deep + WIDE - 1) // WIDE):
                        u, v = y + HIGH * i, x + WIDE * j
                        a_tile[u, v] = element(a, a_first, tile.row + u, p.m, p.a_row, step + v, p.k, p.a_column, NOTHING)
            else:
                for i in range((deep + HIGH - 1) // HIGH):
                    for j in range((high + WIDE - 1) // WIDE):
                        u, v = y + HIGH * i, x + WIDE * j
                        a_tile[v, u] = element(a, a_first, tile.row + v, p.m, p.a_row, step + u, p.k, p.a_column, NOTHING)
            for panel in range((wide + WIDE - 1) // WIDE):
                column = tile.column + WIDE * panel
                if b_along_k:
                    for i in range(WIDE // HIGH):
                        for j in range((deep + WIDE - 1) // WIDE):
                            u, v = y + HIGH * i, x + WIDE * j
                            b_panel[v, u] = element(b, b_first, column + u, p.n, p.b_column, step + v, p.k, p.b_row, 0.0)
                else:
                    for i in range((deep + HIGH - 1) // HIGH):
                        u = y + HIGH * i
                        b_panel[u, x] = element(b, b_first, column + x, p.n, p.b_column, step + u, p.k, p.b_row, 0.0)
                sync_threads()
                for i in range((high + HIGH - 1) // HIGH):
                    u = y + HIGH * i
                    is_inside = tile.row + u < p.m and column + x < p.n
                    place = c_first + (tile.row + u) * p.c_row + (column + x) * p.c_column
                    if not sums_apart:
                        prefetch(c, place + HIGH * p.c_row)
                    total = f32(0)
                    if step > 0:
                        if sums_apart:
                            total = c_tile[u, x + WIDE * panel]
                        elif is_inside:
                            total = c[place]
                    for k in range(deep):
                        total = fma(a_tile[u, k], b_panel[k, x], total)
                    if step + depth < p.k:
                        if sums_apart:
                            c_tile[u, x + WIDE * panel] = total
                        elif is_inside:
                            c[place] = total
                    elif is_inside:
                        store(c, place, p.alpha * total, p.accumulate)
                    sync_threads()  # the panel of B is needed until all threads are done with it

    return matmul_cache_blocked
