"""The matrix product on the tensor cores that every GPU since Ampere has: `mma` of a warp, fed by `cp.async` and `ldmatrix`, for bf16, f16 and tf32 operands
with f32 sums.

Blocks go from tile to tile of C. A block brings tiles of A and B to a ring of stages in shared memory, those of the next tile of C while it ends the last one;
each warp multiplies a part of the tile, and its results go through shared memory, so that they leave in whole lines. Operands of 16 bits may have k along
their rows or across them, which `ldmatrix` exchanges; those of tf32 have it along. The kernel also runs on the CPU, with the meaning that `mma` has there.
"""

import math
from dataclasses import dataclass
from typing import Any

from kdsl import (
    D4,
    Kernel,
    Slice,
    SliceMut,
    block_idx,
    commit_copies,
    copy_async,
    f32,
    function,
    grid_dim,
    i64,
    inline_ptx,
    kernel,
    lane_index,
    launch_dependents,
    ldmatrix,
    local_array,
    mma,
    shared_array,
    sync_threads,
    thread_idx,
    u32,
    unroll,
    wait_copies,
    wait_for_dependencies,
    warp_index,
)
from staleynet.kernels.matmul_hopper import Work
from staleynet.kernels.matmul_mma_results import leaving, room, room_bytes
from staleynet.kernels.matmul_ring import ROW_BYTES
from staleynet.kernels.tile_order import place

CHUNK = 16
"""Bytes that are copied at once: neighbouring elements along k."""


@function
def same(x: u32) -> u32:
    return x


@function
def kept(x: u32) -> u32:
    """The same number, of which the compiler does not know which bits are 0, so that it adds to it: the assembler folds such sums into addresses."""
    y: u32 = inline_ptx("mov.b32 {0}, {1};", u32, (x,), volatile=False, memory=False, cpu=same)
    return y


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
    resident: int = 1
    """Blocks of a multiprocessor, each of which goes from tile to tile."""
    late: bool = False
    """Whether a stage is filled again behind the products of its last part instead of before, which takes fewer registers."""

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.warp_rows * self.warp_columns

    @property
    def shared_bytes(self) -> int:
        """What a block takes of shared memory, with results of 32 bits."""
        return (self.rows + self.columns) * self.row_bytes * self.stages + room_bytes(self.warps, self.columns // self.warp_columns)


def product(
    element: Any,
    result: Any,
    schedule: Schedule,
    *,
    a_across: bool = False,
    b_across: bool = False,
    each: int = 1,
    parts: int = 1,
    edges: bool = True,
    batch: bool = True,
    early: bool = False,
) -> Kernel:
    """The kernel C <- alpha A B (+ C) for batches of operands of `element` (bf16, f16, or f32 that is rounded to tf32 already) and results of `result`.

    A is given as m x k, or with `a_across` as its transpose k x m, B as its transpose n x k, or with `b_across` as k x n; the rows of both begin at multiples
    of 16 bytes. All arrays have four dimensions, two of the batch and two of the matrix; k is not 0.
    `each` columns of C are written at once: 1, 2, or 16 bytes of them; its rows begin at multiples of so many, and have a multiple of so many. Without
    `edges` all extents are multiples of those of a tile, without `batch` there is one matrix. With `early`, on GPUs from Hopper on, blocks begin before the
    kernel in front of this one has ended.
    With several `parts`, A and B are one matrix each, and C has the sums of each part along k, of whole stages of 128 bytes; the last part may be shorter, but
    not without `edges`.
    """
    ROWS, COLUMNS, STAGES, GROUP = schedule.rows, schedule.columns, schedule.stages, schedule.group
    SPAN = schedule.row_bytes
    DEPTH = SPAN // element.itemsize
    EACH = CHUNK // element.itemsize
    CHUNKS = SPAN // CHUNK
    WARPS = schedule.warps
    THREADS = 32 * WARPS
    WARP_COLUMNS = schedule.warp_columns
    OWN_ROWS, OWN_COLUMNS = ROWS // schedule.warp_rows, COLUMNS // WARP_COLUMNS
    DOWN, SIDE = OWN_ROWS // 16, OWN_COLUMNS // 8
    STEPS = CHUNKS // 2
    PARTS = parts
    PARTED = PARTS * ROW_BYTES // element.itemsize  # steps of a stage of all parts
    SHAPE = "m16n8k16" if element.itemsize == 2 else "m16n8k8"
    KIND = "tf32" if element is f32 else element
    LATE = schedule.late
    # whether there are registers for the next part of a stage, too; edges and batches take some, and results of 32 bits with the addresses of an A across
    TWICE = 4 * DOWN * SIDE < 96 or not (edges or batch or (a_across and result is f32))
    SLOTS = 2 if TWICE else 1
    # blocks for which ptxas shall leave registers: of small ones it aims at more by itself, and spills some bytes where it misses them
    RESIDENT = 2 if WARPS <= 4 and (edges or batch or not early) else 1
    OUT = room(result, WARPS, OWN_COLUMNS) if each > 1 else (1, 1, 1)
    leave = leaving(result, DOWN, SIDE, each=each, edges=edges)
    # with k across, rows of a tile have at most 64 elements, so that a wider one is several pieces
    A_WIDE, B_WIDE = math.gcd(ROWS, 64), math.gcd(COLUMNS, 64)
    A_SPAN, B_SPAN = (wide * element.itemsize if across else SPAN for wide, across in ((A_WIDE, a_across), (B_WIDE, b_across)))
    A_LINE, B_LINE = A_WIDE if a_across else DEPTH, B_WIDE if b_across else DEPTH
    A_SHAPE = (STAGES, ROWS // A_WIDE, DEPTH, A_WIDE) if a_across else (STAGES, ROWS, DEPTH)
    B_SHAPE = (STAGES, COLUMNS // B_WIDE, DEPTH, B_WIDE) if b_across else (STAGES, COLUMNS, DEPTH)
    inner_a, inner_b = 2 + int(not a_across), 2 + int(not b_across)
    multiples = ((f"a.shape[{inner_a}]", DEPTH if parts == 1 else PARTED), ("c.shape[2]", ROWS), ("c.shape[3]", COLUMNS))

    @function
    def bring(tile: Any, s: u32, source: Any, p: u32, q: u32, first: i64, k: i64, size: i64, wide: i64, across: bool, count: i64) -> None:
        """Begin to copy a stage of one operand, `size` rows of the product; what lies outside of it becomes 0 and is not read, nor is anything with a
        `count` of 0."""
        per_row = wide // EACH
        high = THREADS // per_row  # rows that the block copies at once
        own, along = i64(kept(u32(thread_idx.x // per_row))), thread_idx.x % per_row * EACH
        line, column = (k + own, first + i64(kept(u32(along)))) if across else (first + own, k + along)
        for i in unroll(0, size * DEPTH // wide, high):
            piece, row = (i // DEPTH, own + i % DEPTH) if high <= DEPTH else (own // DEPTH + i // DEPTH, own % DEPTH)
            to = (s, piece, row, along) if across else (s, own + i, along)
            of_row, of_column = (line + (row - own), column + piece * wide) if across else (line + i, column)
            if edges:
                # this keeps every read inside
                valid = min(source.shape[3] - of_column, count) if of_row < source.shape[2] else 0
                if PARTS > 1 and not across:
                    valid = max(valid, 0)  # the last part may be shorter by more than a stage
                copy_async(tile.unchecked, to, source.unchecked, (p, q, of_row, of_column), EACH, valid=valid)
            else:
                copy_async(tile.unchecked, to, source.unchecked, (p, q, of_row, of_column), EACH, valid=count)

    @function
    def depth_of(a: Any) -> u32:
        """Steps of k of a tile of C, of the last part with those that it lacks."""
        depth = u32(a.shape[inner_a])
        part: u32 = (depth + (PARTED - 1)) // PARTED * (PARTED // PARTS) if PARTS > 1 else depth
        return part

    @function
    def bring_both(a_tile: Any, b_tile: Any, s: u32, a: Any, b: Any, p: u32, q: u32, y: u32, x: u32, k: u32, alive: bool) -> None:
        count = EACH if alive else 0
        if PARTS > 1:
            p, k = u32(0), k + p * depth_of(a)
        bring(a_tile, s, a, p, q, i64(y) * ROWS, i64(k), ROWS, A_LINE, a_across, count)
        bring(b_tile, s, b, p, q, i64(x) * COLUMNS, i64(k), COLUMNS, B_LINE, b_across, count)
        commit_copies()

    @function
    def load(a_part: Any, b_part: Any, slot: i64, a_tile: Any, b_tile: Any, s: u32, step: i64) -> None:
        """Load what the warp multiplies in a step of two chunks."""
        lane, warp = lane_index(), warp_index() % WARPS
        row, column = warp // WARP_COLUMNS * OWN_ROWS, warp % WARP_COLUMNS * OWN_COLUMNS
        own = i64(kept(u32(lane // 16 * 8 + lane % 8 if a_across else row + lane % 16)))
        for i in unroll(DOWN):
            if a_across:
                its = row + 16 * i + lane // 8 % 2 * 8
                a_part[slot, i, :] = ldmatrix(a_tile.unchecked, (s, its // A_WIDE, own + 16 * step, its % A_WIDE), transpose=True)
            else:
                a_part[slot, i, :] = ldmatrix(a_tile.unchecked, (s, own + 16 * i, (lane // 16 + 2 * step) * EACH))
        other = i64(kept(u32(lane % 16 if b_across else column + lane // 16 * 8 + lane % 8)))
        for j in unroll(0, SIDE, 2):
            if b_across:
                its = column + 8 * j + lane // 16 * 8
                found = ldmatrix(b_tile.unchecked, (s, its // B_WIDE, other + 16 * step, its % B_WIDE), transpose=True)
            else:
                found = ldmatrix(b_tile.unchecked, (s, other + 8 * j, (lane // 8 % 2 + 2 * step) * EACH))
            b_part[slot, j, :], b_part[slot, j + 1, :] = (found[0], found[1]), (found[2], found[3])

    @function
    def place_of(tile: u32, down: u32, across: u32, heads: u32) -> tuple[u32, u32, u32, u32]:
        if batch:
            return place(tile, down, across, heads, GROUP)
        else:
            _, _, y, x = place(tile, down, across, u32(1), GROUP)
            return u32(0), u32(0), y, x

    @kernel(
        grid=("w.blocks",),
        block=THREADS,
        requires=(
            f"a.shape[{inner_a}] == b.shape[{inner_b}]",
            f"1 <= a.shape[{inner_a}] < {1 << 31}",
            f"c.shape[2] == a.shape[{5 - inner_a}] and c.shape[3] == b.shape[{5 - inner_b}]",
            "c.shape[0] == a.shape[0] == b.shape[0]" if parts == 1 else f"c.shape[0] == {PARTS} and a.shape[0] == b.shape[0] == 1",
            "c.shape[1] == a.shape[1] == b.shape[1]" if parts == 1 else "c.shape[1] == a.shape[1] == b.shape[1] == 1",
            *(() if batch else ("c.shape[0] == 1 and c.shape[1] == 1",)),
            *(() if edges else (f"{extent} == {extent} // {of} * {of}" for extent, of in multiples)),
        ),
        programmatic=early,
        resident=RESIDENT,
        spills=False,
    )
    def matmul_mma(c: SliceMut[result, D4], a: Slice[element, D4], b: Slice[element, D4], w: Work) -> None:
        """C <- alpha A B (+ C), tile after tile."""
        a_tile = shared_array(A_SHAPE, element, swizzle=A_SPAN)
        b_tile = shared_array(B_SHAPE, element, swizzle=B_SPAN)
        out = shared_array(OUT, result)
        a_part = local_array((SLOTS, DOWN, 4), u32)
        b_part = local_array((SLOTS, SIDE, 2), u32)
        across, down = u32((c.shape[3] + COLUMNS - 1) // COLUMNS), u32((c.shape[2] + ROWS - 1) // ROWS)
        heads = u32(c.shape[1])
        count = across * down * u32(c.shape[0]) * heads
        depth, hop = depth_of(a), u32(grid_dim.x)
        steps = (depth + (DEPTH - 1)) // DEPTH
        if early:
            wait_for_dependencies()
            launch_dependents()

        # copies are ahead of the products, and behind the last of a tile come those of the block's next one; behind the last tile zeros
        coming, at = u32(block_idx.x), u32(0)
        p, q, y, x = place_of(coming, down, across, heads)
        for s in unroll(STAGES):
            bring_both(a_tile, b_tile, u32(s), a, b, p, q, y, x, at, coming < count)
            at += DEPTH
            if at >= depth:
                coming, at = coming + hop, u32(0)
                p, q, y, x = place_of(coming, down, across, heads)
        wait_copies(STAGES - 1)
        sync_threads()
        here = u32(0)
        if TWICE:
            load(a_part, b_part, 0, a_tile, b_tile, here, 0)
        tile = u32(block_idx.x)
        while tile < count:
            next_p, next_q, next_y, next_x = place_of(coming + hop, down, across, heads)  # where copies go on within this tile
            total = local_array((DOWN, SIDE, 4), f32)
            steps_left = steps
            while steps_left > 0:
                steps_left -= 1
                following = here + 1 if here + 1 < STAGES else u32(0)
                for part in unroll(STEPS):
                    if not TWICE:
                        load(a_part, b_part, 0, a_tile, b_tile, here, part)
                    if part == STEPS - 1:
                        wait_copies(STAGES - 2)
                        sync_threads()
                    if TWICE:  # the next part, which may lie in the next stage
                        from_stage, next_part = (here, part + 1) if part < STEPS - 1 else (following, 0)
                        load(a_part, b_part, (part + 1) % 2, a_tile, b_tile, from_stage, next_part)
                    # since the barrier nobody reads this stage any more
                    if part == STEPS - 1 and not LATE:
                        bring_both(a_tile, b_tile, here, a, b, p, q, y, x, at, coming < count)
                    for i in unroll(DOWN):
                        for j in unroll(SIDE):
                            total[i, j, :] = mma(a_part[part % SLOTS, i, :], b_part[part % SLOTS, j, :], total[i, j, :], SHAPE, KIND)
                    if part == STEPS - 1 and LATE:
                        bring_both(a_tile, b_tile, here, a, b, p, q, y, x, at, coming < count)
                at += DEPTH
                if at >= depth:
                    coming, at = coming + hop, u32(0)
                    p, q, y, x = next_p, next_q, next_y, next_x
                here = following
            its_p, its_q, its_y, its_x = place_of(tile, down, across, heads)
            warp = warp_index() % WARPS
            own_row, own_column = (
                i64(its_y) * ROWS + warp // WARP_COLUMNS * OWN_ROWS,
                i64(its_x) * COLUMNS + warp % WARP_COLUMNS * OWN_COLUMNS,
            )
            leave(c, its_p, its_q, own_row, own_column, total, out, warp, w)
            tile += hop
        wait_copies(0)

    return matmul_mma
