"""Tiles of the operands in shared memory for products of warpgroups on Hopper: a ring of stages that the copy engine fills, and `wgmma` reads.

Left out: who waits for which stage, which is the kernels' own (`matmul_hopper.py`, `matmul_held.py`, `matmul_parts.py`).
"""

from dataclasses import dataclass
from typing import Any

from kdsl import (
    barrier_arrive_expect,
    barrier_init,
    barrier_wait,
    block_idx,
    fence_barrier_init,
    function,
    grid_dim,
    i64,
    is_first_thread,
    launch_dependents,
    prefetch_map,
    sync_threads,
    tma_load,
    u32,
    unroll,
    wgmma,
)
from staleynet.kernels.tile_order import placed

ROW_BYTES = 128
"""Bytes of a row of a swizzled tile."""


@dataclass(frozen=True)
class Ring:
    """What a kernel needs of a ring."""

    left: tuple[int, ...]
    """Shape of the tiles of A, a stage after the other."""
    right: tuple[int, ...]
    """That of the tiles of B."""
    depth: int
    """Steps of k of a stage, 128 bytes of them."""
    load: Any
    """load(left, right, a, b, full, s, p, q, row, column, k): bring the tiles of stage s from row `row` of A and column `column` of B, from k on."""
    load_left: Any = None
    """load_left(left, a, full, s, p, q, row, k): bring the tile of A alone, whose bytes the barrier expects already. None where nobody asks for that."""
    load_right: Any = None
    """The same for B."""
    multiply: Any = None
    """multiply(sums, left, i, right, j, row): add the products of A in stage i and B in stage j, 64 rows from `row` on. None where the kernel has its own
    way."""


@function
def set_up(full: Any, empty: Any, stages: i64, multipliers: u32) -> None:
    """Make the barriers of a ring ready for the block: a stage is full when its bytes have come, and empty when so many threads have said so."""
    if is_first_thread():
        for s in unroll(stages):
            barrier_init(full, s, 1)
            barrier_init(empty, s, multipliers)
        fence_barrier_init()
    sync_threads()


def bringing(tiles: Ring, rows: int, columns: int, parts: int = 1) -> Any:
    """The function bring(left, right, a, b, full, empty, order, steps): one thread loads the tiles of A and B of all that the block computes, stage after
    stage, `steps` for each tile of `rows` x `columns`. Of several `parts` along k, which the first axis of C's batch counts, each has so many steps; what lies
    behind the last k is 0."""
    ROWS, COLUMNS, STAGES, DEPTH, PARTS, load = rows, columns, tiles.left[0], tiles.depth, parts, tiles.load

    @function
    def bring(left: Any, right: Any, a: Any, b: Any, full: Any, empty: Any, order: Any, steps: i64) -> None:
        prefetch_map(a)
        prefetch_map(b)
        k = 0
        for tile in range(block_idx.x, order.count, grid_dim.x):
            p, q, y, x = placed(order, tile)
            for step in range(steps):
                s = k % STAGES
                barrier_wait(empty, s, k // STAGES + 1)
                if PARTS > 1:
                    load(left, right, a, b, full, s, 0, 0, y * ROWS, x * COLUMNS, (i64(p) * steps + step) * DEPTH)
                else:
                    load(left, right, a, b, full, s, p, q, y * ROWS, x * COLUMNS, step * DEPTH)
                k += 1
        launch_dependents()

    return bring


def ring(
    element: Any, rows: int, columns: int, stages: int, *, a_across: bool, b_across: bool, a_passes: bool = False, held: int = 0
) -> Ring:
    """A ring of `stages` tiles of `rows` rows of A and `columns` columns of B, of arrays of four dimensions; or one of B's alone, with room for `held` tiles
    of A beside it.

    A is given as m x k, or with `a_across` as its transpose k x m, B as its transpose n x k, or with `b_across` as k x n. What `a_passes` is read once, and
    need not stay in the level-2 cache.
    """
    ROWS, COLUMNS = rows, columns
    DEPTH = ROW_BYTES // element.itemsize
    STEP = DEPTH // 4
    STAGE_BYTES = (ROWS + COLUMNS) * ROW_BYTES
    EVICT = "first" if a_passes else ""

    @function
    def load_left(left: Any, a: Any, full: Any, s: i64, p: u32, q: u32, row: u32, k: i64) -> None:
        if a_across:
            for piece in unroll(ROWS // 64):
                tma_load(left, (s, piece), a, (p, q, k, row + 64 * piece), full, s, evict=EVICT)
        else:
            tma_load(left, s, a, (p, q, row, k), full, s, evict=EVICT)

    @function
    def load_right(right: Any, b: Any, full: Any, s: i64, p: u32, q: u32, column: u32, k: i64) -> None:
        if b_across:
            for piece in unroll(COLUMNS // 64):
                tma_load(right, (s, piece), b, (p, q, k, column + 64 * piece), full, s)
        else:
            tma_load(right, s, b, (p, q, column, k), full, s)

    @function
    def load(left: Any, right: Any, a: Any, b: Any, full: Any, s: i64, p: u32, q: u32, row: u32, column: u32, k: i64) -> None:
        barrier_arrive_expect(full, s, STAGE_BYTES)
        load_left(left, a, full, s, p, q, row, k)
        load_right(right, b, full, s, p, q, column, k)

    @function
    def multiply(sums: Any, left: Any, i: u32, right: Any, j: u32, row: i64) -> None:
        for k in unroll(0, DEPTH, STEP):
            if a_across and b_across:
                wgmma(sums, left, (i, row // 64, k, 0), right, (j, 0, k, 0), transpose_a=True, transpose_b=True)
            elif a_across:
                wgmma(sums, left, (i, row // 64, k, 0), right, (j, 0, k), transpose_a=True)
            elif b_across:
                wgmma(sums, left, (i, row, k), right, (j, 0, k, 0), transpose_b=True)
            else:
                wgmma(sums, left, (i, row, k), right, (j, 0, k))

    lefts = held or stages
    left_shape = (lefts, ROWS // 64, DEPTH, 64) if a_across else (lefts, ROWS, DEPTH)
    right_shape = (stages, COLUMNS // 64, DEPTH, 64) if b_across else (stages, COLUMNS, DEPTH)
    return Ring(left_shape, right_shape, DEPTH, load, load_left, load_right, multiply)
