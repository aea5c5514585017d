"""The fp32 matrix product on the ordinary cores of a Hopper GPU, with warps that copy and warps that multiply.

The copy engine brings tiles of A and B into a ring of stages in shared memory. For the multiplication they lie with k across, so that a thread reads four
neighbouring rows (or columns) at once; a tile whose rows run along k is turned there by two warps. Sums run along k in ascending order, one fused
multiply-add after the other: the bits are those of the naive kernel.
"""

from dataclasses import dataclass
from typing import Any

from kdsl import (
    D4,
    Kernel,
    SliceMut,
    TensorMap,
    as_vectors,
    barrier_arrive,
    barrier_arrive_expect,
    barrier_init,
    barrier_wait,
    decrease_registers,
    elect_one,
    f32,
    fence_barrier_init,
    function,
    i64,
    increase_registers,
    is_first_thread,
    kernel,
    lane_index,
    launch_dependents,
    local_array,
    prefetch_map,
    shared_array,
    shared_barriers,
    sync_threads,
    thread_idx,
    tma_load,
    u32,
    unroll,
    wait_for_dependencies,
    warp_group_index,
    warp_index,
)
from staleynet.kernels.convert import Ending
from staleynet.kernels.matmul_tile import LANE_COLUMNS, LANE_ROWS, add_products, room, write_lines, write_tile
from staleynet.kernels.tile_order import place_of_block

TURNERS = 128
"""Threads that turn tiles; the first of them also starts the copies."""


@dataclass(frozen=True)
class Schedule:
    """How a product is laid out on the device. It changes no bit."""

    rows: int
    """Rows of a tile of C."""
    columns: int
    """Columns of a tile of C."""
    stages: int
    """Stages of the ring."""
    warp_rows: int
    """Warps that multiply along the rows; with those along the columns a multiple of 4."""
    warp_columns: int
    """Warps that multiply along the columns."""
    registers: int = 0
    """Registers of a thread that multiplies, taken from the warps that copy; 0 leaves all as they are."""
    depth: int = 16
    """Steps of k per stage: 8, 16 or 32."""
    group: int = 8
    """Tiles below each other that are computed before the next column of tiles."""
    resident: int = 1
    """Blocks for which a multiprocessor shall have registers at a time."""


def product(schedule: Schedule, *, a_across: bool, b_across: bool, each: int = 4, rest: bool = True) -> Kernel:
    """The kernel C <- alpha A B (+ C) for batches; all arrays have four dimensions, two of the batch and two of the matrix.

    A is given as m x k, or with `a_across` as its transpose k x m, B as its transpose n x k, or with `b_across` as k x n; rows contiguous. `each` columns of
    C are written at once: 1, or 2 or 4 if its rows consist of whole vectors of so many. Without `rest`, k is a multiple of the
    depth of a stage.
    """
    ROWS, COLUMNS, DEPTH, STAGES, GROUP = schedule.rows, schedule.columns, schedule.depth, schedule.stages, schedule.group
    WARP_ROWS, WARP_COLUMNS = schedule.warp_rows, schedule.warp_columns
    WARPS = WARP_ROWS * WARP_COLUMNS
    THREADS = 32 * WARPS
    UP = ROWS // WARP_ROWS // LANE_ROWS // 4  # vectors of rows of a thread
    SIDE = COLUMNS // WARP_COLUMNS // LANE_COLUMNS // 4
    TURNS = not (a_across and b_across)
    ENGINE = a_across or b_across
    RAW = 2 if TURNS else 1
    BYTES = ((ROWS if a_across else 0) + (COLUMNS if b_across else 0)) * DEPTH * 4
    RAW_BYTES = ((0 if a_across else ROWS) + (0 if b_across else COLUMNS)) * DEPTH * 4
    RAW_ROWS = (8 if a_across else ROWS, 8 if b_across else COLUMNS)
    REGISTERS = schedule.registers
    LINES = each < 4 and schedule.resident == 1  # with two blocks on a multiprocessor there are too few registers
    ROOM = room(WARPS, COLUMNS // WARP_COLUMNS) if LINES else (1, 1, 4)
    SPARE = 40 if THREADS == 256 else 32
    AT_ONCE = (2 if SPARE < 40 else 4) if schedule.registers else 8
    inner_a, inner_b = 2 + int(not a_across), 2 + int(not b_across)

    @function
    def turn(tile: Any, s: i64, raw: Any, r: i64, size: i64) -> None:
        """Exchange rows and columns of a tile of `size` x DEPTH."""
        t = thread_idx.x % TURNERS
        fours = as_vectors(raw, 4)
        found = local_array((AT_ONCE, 4), f32)
        for i in unroll(0, size * DEPTH // 4, AT_ONCE * TURNERS):
            # several reads are under way before the first is waited for
            for j in unroll(AT_ONCE):
                if i + j * TURNERS < size * DEPTH // 4:
                    unit = t + i + j * TURNERS
                    x = fours[r, unit % size, unit // size % (DEPTH // 4)]
                    for e in unroll(4):
                        found[j, e] = x[e]
            for j in unroll(AT_ONCE):
                if i + j * TURNERS < size * DEPTH // 4:
                    unit = t + i + j * TURNERS
                    for e in unroll(4):
                        tile[s, 4 * (unit // size % (DEPTH // 4)) + e, unit % size] = found[j, e]

    @function
    def start(
        left: Any, right: Any, a: Any, b: Any, bars: Any, slot: i64, p: u32, q: u32, row: u32, column: u32, k: i64, turned: bool
    ) -> None:
        """Bring the tiles of the operands that are to be turned, or of the others."""
        barrier_arrive_expect(bars, slot, RAW_BYTES if turned else BYTES)
        if turned:
            if not a_across:
                tma_load(left, slot, a, (p, q, row, k), bars, slot)
            if not b_across:
                tma_load(right, slot, b, (p, q, column, k), bars, slot)
        else:
            if a_across:
                tma_load(left, slot, a, (p, q, k, row), bars, slot)
            if b_across:
                tma_load(right, slot, b, (p, q, k, column), bars, slot)

    @function
    def fetch(u: Any, v: Any, lefts: Any, rights: Any, s: i64, k: i64, my_row: i64, my_column: i64) -> None:
        """Read the thread's rows and columns at depth k of a stage."""
        for i in unroll(UP):
            w = lefts[s, k, my_row + LANE_ROWS * i]
            for e in unroll(4):
                u[4 * i + e] = w[e]
        for j in unroll(SIDE):
            w = rights[s, k, my_column + LANE_COLUMNS * j]
            for e in unroll(4):
                v[4 * j + e] = w[e]

    @function
    def steps_of(a: Any) -> i64:
        steps: i64 = (a.shape[inner_a] + DEPTH - 1) // DEPTH
        return steps

    @kernel(
        grid=(f"((c.shape[2] + {ROWS - 1}) // {ROWS}) * ((c.shape[3] + {COLUMNS - 1}) // {COLUMNS}) * c.shape[0] * c.shape[1]",),
        block=THREADS + 128,
        requires=(
            f"a.shape[{inner_a}] == b.shape[{inner_b}]",
            f"c.shape[2] == a.shape[{5 - inner_a}]",
            f"c.shape[3] <= b.shape[{5 - inner_b}]",
            "c.shape[0] == a.shape[0] == b.shape[0]",
            "c.shape[1] == a.shape[1] == b.shape[1]",
            *(() if rest else (f"a.shape[{inner_a}] == a.shape[{inner_a}] // {DEPTH} * {DEPTH}",)),
        ),
        programmatic=True,
        spills=False,
        resident=schedule.resident,
    )
    def matmul_wide(c: SliceMut[f32, D4], a: TensorMap[f32, D4], b: TensorMap[f32, D4], e: Ending) -> None:
        """C <- alpha A B (+ C), a tile per block."""
        left = shared_array((STAGES, DEPTH, ROWS), f32, align=128)
        right = shared_array((STAGES, DEPTH, COLUMNS), f32, align=128)
        raw_left = shared_array((RAW, RAW_ROWS[0], DEPTH), f32, swizzle=DEPTH * 4)
        raw_right = shared_array((RAW, RAW_ROWS[1], DEPTH), f32, swizzle=DEPTH * 4)
        full, empty = shared_barriers(STAGES), shared_barriers(STAGES)
        raw_full, raw_empty = shared_barriers(RAW), shared_barriers(RAW)
        out = shared_array(ROOM, f32, align=16)
        if is_first_thread():
            for s in unroll(STAGES):
                barrier_init(full, s, int(ENGINE) + (TURNERS if TURNS else 0))
                barrier_init(empty, s, WARPS)
            for s in unroll(RAW):
                barrier_init(raw_full, s, 1)
                barrier_init(raw_empty, s, TURNERS)
            fence_barrier_init()
        sync_threads()
        wait_for_dependencies()
        if warp_group_index() == THREADS // 128:
            if REGISTERS:
                decrease_registers(SPARE)
            if TURNS:
                loads = thread_idx.x % 128 == 0
                p, q, y, x = place_of_block(c, ROWS, COLUMNS, GROUP)
                row, column = y * ROWS, x * COLUMNS
                if loads:
                    start(raw_left, raw_right, a, b, raw_full, 0, p, q, row, column, 0, True)
                for step in range(steps_of(a)):
                    r, s = step % RAW, step % STAGES
                    if loads and step + 1 < steps_of(a):
                        barrier_wait(raw_empty, (step + 1) % RAW, (step + 1) // RAW + 1)
                        start(raw_left, raw_right, a, b, raw_full, (step + 1) % RAW, p, q, row, column, (step + 1) * DEPTH, True)
                    barrier_wait(empty, s, step // STAGES + 1)
                    if ENGINE and loads:
                        start(left, right, a, b, full, s, p, q, row, column, step * DEPTH, False)
                    barrier_wait(raw_full, r, step // RAW)
                    if not a_across:
                        turn(left, s, raw_left, r, ROWS)
                    if not b_across:
                        turn(right, s, raw_right, r, COLUMNS)
                    barrier_arrive(full, s)
                    barrier_arrive(raw_empty, r)
                launch_dependents()
            elif warp_index() == WARPS and elect_one():
                prefetch_map(a)
                prefetch_map(b)
                p, q, y, x = place_of_block(c, ROWS, COLUMNS, GROUP)
                row, column = y * ROWS, x * COLUMNS
                for step in range(steps_of(a)):
                    s = step % STAGES
                    barrier_wait(empty, s, step // STAGES + 1)
                    start(left, right, a, b, full, s, p, q, row, column, step * DEPTH, False)
                launch_dependents()
        else:
            if REGISTERS:
                increase_registers(REGISTERS)
            sums = local_array((4 * UP, 4 * SIDE), f32)
            lefts, rights = as_vectors(left, 4), as_vectors(right, 4)
            warp, lane = warp_index() % WARPS, lane_index()
            my_row = warp // WARP_COLUMNS * (ROWS // WARP_ROWS // 4) + lane // LANE_COLUMNS
            my_column = warp % WARP_COLUMNS * (COLUMNS // WARP_COLUMNS // 4) + lane % LANE_COLUMNS
            u, v = local_array(4 * UP, f32), local_array(4 * SIDE, f32)
            whole = a.shape[inner_a] // DEPTH if rest else steps_of(a)
            for step in range(whole):
                s = step % STAGES
                barrier_wait(full, s, step // STAGES)
                for k in unroll(DEPTH):
                    fetch(u, v, lefts, rights, s, k, my_row, my_column)
                    add_products(sums, u, v, 4 * UP, 4 * SIDE)
                if lane == 0:
                    barrier_arrive(empty, s)
            if rest and whole < steps_of(a):
                # not the zeros behind the last k: 0 * 0 added to a sum of -0 would make it +0
                s = whole % STAGES
                barrier_wait(full, s, whole // STAGES)
                for k in range(a.shape[inner_a] - whole * DEPTH):
                    fetch(u, v, lefts, rights, s, k, my_row, my_column)
                    add_products(sums, u, v, 4 * UP, 4 * SIDE)
            p, q, y, x = place_of_block(c, ROWS, COLUMNS, GROUP)
            if LINES:
                at_row = i64(y) * ROWS + warp // WARP_COLUMNS * (ROWS // WARP_ROWS)
                at_column = i64(x) * COLUMNS + warp % WARP_COLUMNS * (COLUMNS // WARP_COLUMNS)
                write_lines(c, sums, e, out, warp, i64(p), i64(q), at_row, at_column, 4 * UP, 4 * SIDE, each)
            else:
                write_tile(
                    c, sums, e, i64(p), i64(q), i64(y) * ROWS, i64(x) * COLUMNS, ROWS, COLUMNS, my_row, my_column, 4 * UP, 4 * SIDE, each
                )

    return matmul_wide
