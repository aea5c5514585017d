"""The matrix product on the tensor cores that every GPU since Ampere has: `mma` of a warp, fed by `cp.async` and `ldmatrix`, for bf16, f16 and tf32 operands
with f32 sums.

A block brings tiles of A and B to a ring of stages in shared memory, each warp multiplies a part of the tile. Operands of 16 bits may have k along their rows
or across them, which `ldmatrix` exchanges; those of tf32 have it along. The kernel also runs on the CPU, with the meaning that `mma` has there.
"""

from dataclasses import dataclass
from typing import Any

from kdsl import (
    D4,
    Kernel,
    Slice,
    SliceMut,
    as_vectors,
    bf16x2,
    commit_copies,
    copy_async,
    f16x2,
    f32,
    f32x2,
    function,
    i64,
    kernel,
    lane_index,
    ldmatrix,
    local_array,
    mma,
    mma_column,
    mma_row,
    shared_array,
    sync_threads,
    thread_idx,
    u32,
    unroll,
    wait_copies,
    warp_index,
)
from staleynet.kernels.convert import Ending
from staleynet.kernels.tile_order import place_of_block

PAIRS = {"f32": f32x2, "f16": f16x2, "bf16": bf16x2}
"""Vectors of two results."""
CHUNK = 16
"""Bytes that are copied at once: neighbouring elements along k."""


@dataclass(frozen=True)
class Schedule:
    """How a product is laid out on the device. It changes no bit."""

    rows: int = 128
    """Rows of a tile of C."""
    columns: int = 128
    """Columns of a tile of C."""
    row_bytes: int = 64
    """Bytes of a row of a stage, along k: 64 or 128."""
    stages: int = 3
    """Stages of the ring."""
    warp_rows: int = 2
    """Warps along the rows."""
    warp_columns: int = 2
    """Warps along the columns."""
    group: int = 8
    """Tiles below each other that are computed before the next column of tiles."""

    @property
    def shared_bytes(self) -> int:
        """What a block takes of shared memory."""
        return (self.rows + self.columns) * self.row_bytes * self.stages


def product(
    element: Any,
    result: Any,
    schedule: Schedule,
    *,
    a_across: bool = False,
    b_across: bool = False,
    vectors: bool = True,
    edges: bool = True,
) -> Kernel:
    """The kernel C <- alpha A B (+ C) for batches of operands of `element` (bf16, f16, or f32 that is rounded to tf32 already) and results of `result`.

    A is given as m x k, or with `a_across` as its transpose k x m, B as its transpose n x k, or with `b_across` as k x n; the rows of both begin at multiples
    of 16 bytes. All arrays have four dimensions, two of the batch and two of the matrix.
    `vectors` writes two neighbouring columns of C at once, for which its rows begin at multiples of two elements and have an even number of them. Without
    `edges` all extents are multiples of those of a tile.
    """
    ROWS, COLUMNS, STAGES, GROUP = schedule.rows, schedule.columns, schedule.stages, schedule.group
    SPAN = schedule.row_bytes
    DEPTH = SPAN // element.itemsize
    EACH = CHUNK // element.itemsize
    CHUNKS = SPAN // CHUNK
    THREADS = 32 * schedule.warp_rows * schedule.warp_columns
    WARP_COLUMNS = schedule.warp_columns
    WARP_ROWS = schedule.warp_rows
    OWN_ROWS, OWN_COLUMNS = ROWS // WARP_ROWS, COLUMNS // WARP_COLUMNS
    DOWN, SIDE = OWN_ROWS // 16, OWN_COLUMNS // 8
    STEPS = CHUNKS // 2
    SHAPE = "m16n8k16" if element.itemsize == 2 else "m16n8k8"
    KIND = "tf32" if element is f32 else element
    pair = PAIRS[result.name]
    A_SPAN, B_SPAN = (min(size * element.itemsize, 128) if across else SPAN for size, across in ((ROWS, a_across), (COLUMNS, b_across)))
    # with k across, rows of a tile have 64 elements, so that a wider one is several pieces
    A_WIDE, B_WIDE = min(ROWS, 64), min(COLUMNS, 64)
    A_SHAPE = (STAGES, ROWS // A_WIDE, DEPTH, A_WIDE) if a_across else (STAGES, ROWS, DEPTH)
    B_SHAPE = (STAGES, COLUMNS // B_WIDE, DEPTH, B_WIDE) if b_across else (STAGES, COLUMNS, DEPTH)
    inner_a, inner_b = 2 + int(not a_across), 2 + int(not b_across)
    multiples = ((f"a.shape[{inner_a}]", DEPTH), ("c.shape[2]", ROWS), ("c.shape[3]", COLUMNS))

    @function
    def bring(tile: Any, s: i64, source: Any, p: i64, q: i64, first: i64, k: i64, size: i64, across: bool, wide: i64) -> None:
        """Begin to copy a stage of one operand, `size` rows of the product; what lies outside of it becomes 0 and is not read."""
        for i in unroll(0, size * CHUNKS, THREADS):
            t = thread_idx.x + i
            width = size if across else DEPTH
            row, along = t // (width // EACH), t % (width // EACH) * EACH
            to = (s, along // wide, row, along % wide) if across else (s, row, along)
            of_row, of_column = (k + row, first + along) if across else (first + row, k + along)
            if edges:
                # valid keeps every read inside
                valid = source.shape[3] - of_column if of_row < source.shape[2] else 0
                copy_async(tile, to, source.unchecked, (p, q, of_row, of_column), EACH, valid=valid)
            else:
                copy_async(tile, to, source.unchecked, (p, q, of_row, of_column), EACH)

    @function
    def bring_both(a_tile: Any, b_tile: Any, a: Any, b: Any, s: i64, p: i64, q: i64, row: i64, column: i64, k: i64) -> None:
        if edges or k < a.shape[inner_a]:
            bring(a_tile, s, a, p, q, row, k, ROWS, a_across, A_WIDE)
            bring(b_tile, s, b, p, q, column, k, COLUMNS, b_across, B_WIDE)
        commit_copies()

    @function
    def fragments(a_part: Any, b_part: Any, a_tile: Any, b_tile: Any, s: i64, step: i64, slot: i64) -> None:
        """Load what the warp multiplies in a step of two chunks."""
        lane = lane_index()
        warp = warp_index() % (WARP_ROWS * WARP_COLUMNS)
        a_row, b_row = warp // WARP_COLUMNS * OWN_ROWS, warp % WARP_COLUMNS * OWN_COLUMNS
        for i in unroll(DOWN):
            if a_across:
                k, row = 16 * step + lane // 16 * 8 + lane % 8, a_row + 16 * i + lane // 8 % 2 * 8
                a_part[slot, i, :] = ldmatrix(a_tile, (s, row // A_WIDE, k, row % A_WIDE), transpose=True)
            else:
                a_part[slot, i, :] = ldmatrix(a_tile, (s, a_row + 16 * i + lane % 16, (lane // 16 + 2 * step) * EACH))
        for j in unroll(0, SIDE, 2):
            if b_across:
                k, row = 16 * step + lane % 16, b_row + 8 * j + lane // 16 * 8
                found = ldmatrix(b_tile, (s, row // B_WIDE, k, row % B_WIDE), transpose=True)
            else:
                found = ldmatrix(b_tile, (s, b_row + 8 * j + lane // 16 * 8 + lane % 8, (lane // 8 % 2 + 2 * step) * EACH))
            b_part[slot, j, :] = (found[0], found[1])
            b_part[slot, j + 1, :] = (found[2], found[3])

    @kernel(
        grid=(f"((c.shape[2] + {ROWS - 1}) // {ROWS}) * ((c.shape[3] + {COLUMNS - 1}) // {COLUMNS}) * c.shape[0] * c.shape[1]",),
        block=THREADS,
        requires=(
            f"a.shape[{inner_a}] == b.shape[{inner_b}]",
            f"c.shape[2] == a.shape[{5 - inner_a}] and c.shape[3] == b.shape[{5 - inner_b}]",
            "c.shape[0] == a.shape[0] == b.shape[0]",
            "c.shape[1] == a.shape[1] == b.shape[1]",
            *(() if edges else (f"{extent} == {extent} // {of} * {of}" for extent, of in multiples)),
        ),
    )
    def matmul_mma(c: SliceMut[result, D4], a: Slice[element, D4], b: Slice[element, D4], e: Ending) -> None:
        """C <- alpha A B (+ C), a tile per block."""
        a_tile = shared_array(A_SHAPE, element, swizzle=A_SPAN)
        b_tile = shared_array(B_SHAPE, element, swizzle=B_SPAN)
        a_part = local_array((2, DOWN, 4), u32)
        b_part = local_array((2, SIDE, 2), u32)
        total = local_array((DOWN, SIDE, 4), f32)
        its_p, its_q, y, x = place_of_block(c, ROWS, COLUMNS, GROUP)
        p, q, row, column = i64(its_p), i64(its_q), i64(y) * ROWS, i64(x) * COLUMNS
        steps = (a.shape[inner_a] + DEPTH - 1) // DEPTH

        for s in unroll(STAGES - 1):
            bring_both(a_tile, b_tile, a, b, s, p, q, row, column, s * DEPTH)
        wait_copies(STAGES - 2)
        sync_threads()
        fragments(a_part, b_part, a_tile, b_tile, 0, 0, 0)
        for step in range(steps):
            for part in unroll(STEPS):
                # the fragments of the next part, which may lie in the next stage; behind the last one, where nothing may have been written, in that
                following = step if part < STEPS - 1 else min(step + 1, steps - 1)
                if part == STEPS - 1:
                    wait_copies(STAGES - 2)
                    sync_threads()
                fragments(a_part, b_part, a_tile, b_tile, following % STAGES, (part + 1) % STEPS, (part + 1) % 2)
                if part == 0:
                    # the stage that was left last is free since the barrier
                    later = step + STAGES - 1
                    bring_both(a_tile, b_tile, a, b, later % STAGES, p, q, row, column, later * DEPTH)
                for i in unroll(DOWN):
                    for j in unroll(SIDE):
                        total[i, j, :] = mma(a_part[part % 2, i, :], b_part[part % 2, j, :], total[i, j, :], SHAPE, KIND)

        warp = warp_index() % (WARP_ROWS * WARP_COLUMNS)
        own_row, own_column = row + warp // WARP_COLUMNS * OWN_ROWS, column + warp % WARP_COLUMNS * OWN_COLUMNS
        twos = as_vectors(c, 2) if vectors else c
        if p < c.shape[0] and q < c.shape[1]:
            for i in unroll(DOWN):
                for half in unroll(2):
                    to = own_row + 16 * i + mma_row(2 * half)
                    if to < c.shape[2]:
                        for j in unroll(SIDE):
                            there = own_column + 8 * j + mma_column(0)
                            low, high = e.alpha * total[i, j, 2 * half], e.alpha * total[i, j, 2 * half + 1]
                            if vectors:
                                if there // 2 < twos.shape[3]:
                                    if e.accumulate != 0:
                                        old = twos[p, q, to, there // 2]
                                        twos[p, q, to, there // 2] = pair(f32(old.x) + low, f32(old.y) + high)
                                    else:
                                        twos[p, q, to, there // 2] = pair(low, high)
                            else:
                                put(c, p, q, to, there, low, e.accumulate)
                                put(c, p, q, to, there + 1, high, e.accumulate)

    @function
    def put(c: Any, p: i64, q: i64, row: i64, column: i64, value: f32, accumulate: u32) -> None:
        """Write an element, if there is one."""
        if column < c.shape[3]:
            if accumulate != 0:
                before = f32(c[p, q, row, column])
                c[p, q, row, column] = result(before + value)
            else:
                c[p, q, row, column] = result(value)

    return matmul_mma
