"""The fp32 matrix product for the last rows and columns of C, where what whole rounds of large tiles cover is computed elsewhere (`matmul_wide.py`).

Tiles are small, so that a few rows or columns occupy a GPU: high and narrow right of the others, where A is what is read, low and wider below them. Several
stages of both operands are on their way to shared memory at a time. Sums run along k in ascending order, one fused multiply-add after the other: the bits are
those of the naive kernel.
"""

from typing import Any

from kdsl import (
    D4,
    Kernel,
    Slice,
    SliceMut,
    as_vectors,
    block_idx,
    commit_copies,
    copy_async,
    f32,
    fma,
    function,
    i64,
    kernel,
    lane_index,
    launch_dependents,
    local_array,
    shared_array,
    struct,
    sync_threads,
    thread_idx,
    u32,
    unroll,
    wait_copies,
    wait_for_dependencies,
    warp_index,
)

WARPS = 2
"""Warps of a block."""
OWN_ROWS = 2
"""Rows of a thread, which has four columns."""
SIDE = (64 * WARPS, 4)
"""Rows and columns of a tile right of the others."""
FOOT = (16 * WARPS, 16)
"""Those of a tile below them."""
DEPTH, STAGES = 32, 4
"""Steps of k per stage, and stages."""


@struct
class Border:
    """What becomes of a product of which only the last rows and columns are computed."""

    alpha: f32
    """Its factor."""
    accumulate: u32
    """1 to add it to C, 0 to overwrite C."""
    rows: u32
    """Rows that are computed elsewhere but for the last columns: a multiple of 4, or all."""
    columns: u32
    """Columns that are computed elsewhere but for the last rows: likewise."""


def product_of_border(*, a_across: bool, rest: bool = True, early: bool = False) -> Kernel:
    """The kernel C <- alpha A B (+ C) for the border of C; all arrays have four dimensions, the first two of extent 1.

    A is given as m x k, or with `a_across` as its transpose k x m, B as k x n; their rows are contiguous and begin at multiples of 16 bytes, and B may have
    more columns than C. Without `rest`, k is a multiple of the depth of a stage. `early` lets blocks begin before the launch in front has ended, on GPUs from
    compute capability 9.0 on.
    """
    THREADS = 32 * WARPS
    # four numbers more: rows that lanes read at once lie in different banks
    LEFT = (STAGES, DEPTH, SIDE[0]) if a_across else (STAGES, SIDE[0], DEPTH + 4)
    inner = 2 + int(not a_across)

    @function
    def bring(tile: Any, s: i64, source: Any, first: i64, k: i64, extent: i64, across: bool) -> None:
        """Begin to copy a stage of an operand, `extent` rows (or columns) from `first` on; what lies outside of it becomes 0."""
        per_line = extent // 4 if across else DEPTH // 4
        for i in unroll(0, extent * DEPTH // 4, THREADS):
            unit = thread_idx.x + i
            line, place = unit // per_line, unit % per_line * 4
            row, column = (k + line, first + place) if across else (first + line, k + place)
            if extent * DEPTH // 4 % THREADS == 0 or unit < extent * DEPTH // 4:
                # this keeps every read inside
                valid = min(source.shape[3] - column, 4) if row < source.shape[2] else 0
                copy_async(tile.unchecked, (s, line, place), source.unchecked, (0, 0, row, column), 4, valid=valid)

    @function
    def bring_both(left: Any, right: Any, step: i64, a: Any, b: Any, row: i64, column: i64, rows: i64, columns: i64) -> None:
        bring(left, step % STAGES, a, row, step * DEPTH, rows, a_across)
        bring(right, step % STAGES, b, column, step * DEPTH, columns, True)
        commit_copies()

    @function
    def row_of(i: i64, high: i64) -> i64:
        """Where the thread's row number i lies in a tile, with `high` lanes of a warp one below the other."""
        lane = lane_index() % high
        row: i64 = warp_index() % WARPS * (high * OWN_ROWS) + (OWN_ROWS * lane + i if a_across else lane + high * i)
        return row

    @function
    def multiply(sums: Any, left: Any, right: Any, s: i64, high: i64, depth: i64, whole: bool) -> None:
        """Add the products of a stage, or of the first `depth` steps of it."""
        lefts, rights = as_vectors(left, OWN_ROWS if a_across else 4), as_vectors(right, 4)
        u = local_array((OWN_ROWS, 4), f32)
        for k in unroll(0, DEPTH, 4):
            if a_across:
                for e in unroll(4):
                    w = lefts[s, k + e, row_of(0, high) // OWN_ROWS]
                    for i in unroll(OWN_ROWS):
                        u[i, e] = w[i]
            else:
                for i in unroll(OWN_ROWS):
                    w = lefts[s, row_of(i, high), k // 4]
                    for e in unroll(4):
                        u[i, e] = w[e]
            for e in unroll(4):
                if whole or k + e < depth:
                    v = rights[s, k + e, lane_index() // high]
                    for i in unroll(OWN_ROWS):
                        for j in unroll(4):
                            sums[i, j] = fma(u[i, e], v[j], sums[i, j])

    @function
    def compute(c: Any, a: Any, b: Any, e: Border, left: Any, right: Any, row: i64, column: i64, rows: i64, columns: i64) -> None:
        """The tile of `rows` x `columns` that begins at `row` and `column`."""
        high = 128 // columns
        depth = b.shape[2]
        steps = (depth + DEPTH - 1) // DEPTH
        for step in unroll(STAGES - 1):
            bring_both(left, right, step, a, b, row, column, rows, columns)
        sums = local_array((OWN_ROWS, 4), f32)
        whole = depth // DEPTH if rest else steps
        for step in range(whole):
            wait_copies(STAGES - 2)
            sync_threads()
            # since the barrier nobody reads the stage of the step before any more
            bring_both(left, right, step + STAGES - 1, a, b, row, column, rows, columns)
            multiply(sums, left, right, step % STAGES, high, DEPTH, True)
        if rest and whole < steps:
            wait_copies(0)
            sync_threads()
            # not the zeros behind the last k: 0 * 0 added to a sum of -0 would make it +0
            multiply(sums, left, right, whole % STAGES, high, depth - whole * DEPTH, False)
        wait_copies(0)
        if early:
            launch_dependents()
        for i in unroll(OWN_ROWS):
            for j in unroll(4):
                y, x = row + row_of(i, high), column + 4 * (lane_index() // high) + j
                if y < c.shape[2] and x < c.shape[3] and c.shape[0] == 1 and c.shape[1] == 1:
                    value = e.alpha * sums[i, j]
                    if e.accumulate != 0:
                        before = c[0, 0, y, x]
                        c[0, 0, y, x] = before + value
                    else:
                        c[0, 0, y, x] = value

    @kernel(
        grid=(
            f"((c.shape[2] + {SIDE[0] - 1}) // {SIDE[0]}) * ((c.shape[3] - e.columns + {SIDE[1] - 1}) // {SIDE[1]})"
            f" + ((c.shape[2] - e.rows + {FOOT[0] - 1}) // {FOOT[0]}) * ((e.columns + {FOOT[1] - 1}) // {FOOT[1]})",
        ),
        block=THREADS,
        requires=(
            "c.shape[0] == a.shape[0] == b.shape[0] == 1 and c.shape[1] == a.shape[1] == b.shape[1] == 1",
            f"a.shape[{inner}] == b.shape[2]",
            f"c.shape[2] == a.shape[{5 - inner}]",
            "c.shape[3] <= b.shape[3]",
            "e.rows <= c.shape[2] and e.columns <= c.shape[3]",
            *(() if rest else (f"b.shape[2] == b.shape[2] // {DEPTH} * {DEPTH}",)),
        ),
        programmatic=early,
        spills=False,
    )
    def matmul_border(c: SliceMut[f32, D4], a: Slice[f32, D4], b: Slice[f32, D4], e: Border) -> None:
        """C <- alpha A B (+ C), a tile per block: first those right of what is computed elsewhere, from top to bottom, then those below it."""
        left = shared_array(LEFT, f32, align=16)
        right = shared_array((STAGES, DEPTH, FOOT[1]), f32, align=16)
        if early:
            wait_for_dependencies()
        down, across = u32((c.shape[2] + SIDE[0] - 1) // SIDE[0]), (e.columns + FOOT[1] - 1) // FOOT[1]
        tile, beside = u32(block_idx.x), down * u32((c.shape[3] - e.columns + SIDE[1] - 1) // SIDE[1])
        if tile < beside:
            compute(c, a, b, e, left, right, i64(tile % down) * SIDE[0], i64(e.columns) + i64(tile // down) * SIDE[1], SIDE[0], SIDE[1])
        else:
            number = tile - beside
            compute(
                c, a, b, e, left, right, i64(e.rows) + i64(number // across) * FOOT[0], i64(number % across) * FOOT[1], FOOT[0], FOOT[1]
            )

    return matmul_border
