"""The matrix product of fp32 numbers, rounded to tf32, on Hopper's tensor cores where k lies across the rows of A, or of both operands.

`wgmma` reads tf32 from shared memory only with k along the rows. So A is read from registers, which each thread fills from the tile as it lies; and where k
lies across the rows of B, too, another warpgroup turns its tiles in shared memory, or it is given as a copy. (Both operands with k along
their rows: `matmul_hopper.py`.)
"""

from dataclasses import dataclass
from typing import Any

from kdsl import (
    D4,
    Kernel,
    Slice,
    SliceMut,
    TensorMap,
    as_vectors,
    barrier_arrive,
    barrier_init,
    barrier_sync,
    barrier_wait,
    block_idx,
    commit_stores,
    decrease_registers,
    elect_one,
    f32,
    f32x2,
    f32x4,
    fence_async_proxy,
    function,
    grid_dim,
    i64,
    increase_registers,
    is_first_lane,
    is_first_thread,
    kernel,
    lane_index,
    local_array,
    shared_array,
    shared_barriers,
    shuffle,
    thread_idx,
    tma_reduce,
    tma_store,
    u32,
    unroll,
    wait_for_dependencies,
    wait_stores,
    warp_group_index,
    warp_index,
    wgmma,
    wgmma_commit,
    wgmma_fence,
    wgmma_wait,
)
from staleynet.kernels.convert import read_turned, write_turned
from staleynet.kernels.matmul_hopper import Work
from staleynet.kernels.matmul_ring import bringing, set_up
from staleynet.kernels.tf32_tiles import BOX, DEPTH, HALF, STEP, block_of, boxes, lane_now, read_blocks, rows_of
from staleynet.kernels.tile_order import order_of, placed

GROUPS = 2
"""Warpgroups that multiply, one below the other; another one loads, and where B is turned one more does that."""


@dataclass(frozen=True)
class Schedule:
    """How a product is laid out on the device. It changes no bit."""

    halves: int
    """Products of 64 rows of a warpgroup: 1 or 2."""
    columns: int
    """Columns of a tile of C, a multiple of 32: up to 128, with one product of 64 rows per warpgroup up to 256."""
    stages: int
    """Stages of the ring."""
    group: int = 8
    """Tiles below each other that are computed before the next column of tiles."""

    buffers: int = 2
    """Buffers of a warp (or of two that share a box of rows) for results on their way out."""
    copies: bool = False
    """Whether, of two operands with k across, the smaller one is copied with k along its rows first, and not turned tile by tile."""
    beside: bool = False
    """Whether most of that is copied beside the products where each block has one tile (`matmul_tf32_beside.py`)."""

    @property
    def rows(self) -> int:
        """Rows of a tile of C."""
        return 64 * self.halves * GROUPS

    def takes(self, across: tuple[bool, bool]) -> bool:
        """Whether it goes with the layouts of A and B."""
        return self.copies or self.turns if across == (True, True) else not self.copies

    @property
    def turns(self) -> bool:
        """Whether a warpgroup turns B, for which registers are left."""
        return self.columns <= 128 and not self.copies


@function
def turn(tile: Any, s: i64, box: i64, number: i64) -> None:
    """Exchange rows and columns of a box in place, by a warp that has named barrier `number` for itself."""
    fours, found = as_vectors(tile, 4), local_array((2, 4, 4), f32)
    lane = lane_now()
    read_blocks(found, tile, s, box, lane)
    barrier_sync(number, 32)
    for i in unroll(2):
        row, column = block_of(lane, i)
        for e in unroll(4):
            fours[s, box, 4 * column + e, row] = f32x4(found[i, 0, e], found[i, 1, e], found[i, 2, e], found[i, 3, e])


@function
def chosen(is_first: bool, first: f32, second: f32) -> f32:
    """One of two numbers, without a branch."""
    return first if is_first else second


def steps_of_warps(schedule: Schedule, *, c_across: bool) -> tuple[Any, Any, Any, Any]:
    """What the warps that multiply do: fetch(part, left, s, k, warp), multiply(upper, lower, part, right, s, k), release(empty, number), and in the end
    leave(c, out, upper, lower, (p, q, y, x), warp, leader, w), which begins to write their results."""
    ROWS, COLUMNS, STAGES, HALVES, BUFFERS = schedule.rows, schedule.columns, schedule.stages, schedule.halves, schedule.buffers
    EACH = 2 * HALVES  # neighbouring rows of C of a lane
    SHARE = 2 // HALVES  # warps that have a box together

    @function
    def fetch(part: Any, left: Any, s: u32, k: i64, warp: i64) -> None:
        """Read what the warp multiplies from step k of a stage on: of each k of the lane two rows for each product."""
        vectors = as_vectors(left, EACH)
        for i in unroll(0, HALF, STEP):
            for after in unroll(2):
                x = vectors[s, warp // SHARE, k + i + 4 * after + lane_index() % 4, rows_of(lane_index(), warp, EACH) // EACH]
                for e in unroll(EACH):
                    part[i // STEP, e // 2, 2 * after + e % 2] = x[e]

    @function
    def multiply(upper: Any, lower: Any, part: Any, right: Any, s: u32, k: i64) -> None:
        """Start the products of half a stage, from step k on."""
        wgmma_fence()
        for i in unroll(0, HALF, STEP):
            wgmma(upper, part[i // STEP, 0, :], (), right, (s, 0, 0, k + i))
            if HALVES == 2:
                wgmma(lower, part[i // STEP, 1, :], (), right, (s, 0, 0, k + i))
        wgmma_commit()

    @function
    def release(empty: Any, number: u32) -> None:
        if is_first_lane():
            barrier_arrive(empty, number % STAGES)

    @function
    def put(out: Any, buffer: i64, warp: i64, upper: Any, lower: Any, piece: i64, alpha: f32) -> None:
        """Write 32 columns of the warp's rows to a box. Half of the lanes have two of their vectors in the other order, so that all banks are met at once."""
        lane = lane_now()
        row, four = rows_of(lane, warp, EACH), lane % 4
        late = lane // (4 if HALVES == 2 else 8) % 2
        if c_across:
            vectors = as_vectors(out, EACH)
            for i in unroll(4):
                for e in unroll(2):
                    n, there = 16 * piece + 4 * i, 8 * i + 2 * four + (late ^ e)
                    x, y = chosen(late == e, upper[n], upper[n + 1]), chosen(late == e, upper[n + 2], upper[n + 3])
                    if HALVES == 2:
                        z, w = chosen(late == e, lower[n], lower[n + 1]), chosen(late == e, lower[n + 2], lower[n + 3])
                        vectors[buffer, warp // SHARE, there, row // EACH] = alpha * f32x4(x, y, z, w)
                    else:
                        vectors[buffer, warp // SHARE, there, row // EACH] = alpha * f32x2(x, y)
        else:
            pairs = as_vectors(out, 2)
            for i in unroll(4):
                for e in unroll(2):
                    n = 16 * piece + 4 * i + 2 * e
                    if HALVES == 2:
                        x, y = chosen(late == 0, upper[n], lower[n]), chosen(late == 0, upper[n + 1], lower[n + 1])
                        z, w = chosen(late == 0, lower[n], upper[n]), chosen(late == 0, lower[n + 1], upper[n + 1])
                        pairs[buffer, warp // SHARE, row + 2 * late + e, 4 * i + four] = alpha * f32x2(x, y)
                        pairs[buffer, warp // SHARE, row + 2 - 2 * late + e, 4 * i + four] = alpha * f32x2(z, w)
                    else:
                        m = 16 * piece + 4 * (i ^ 2) + 2 * e
                        x, y = chosen(late == 0, upper[n], upper[m]), chosen(late == 0, upper[n + 1], upper[m + 1])
                        pairs[buffer, warp // SHARE, row + e, 4 * (i ^ 2 * late) + four] = alpha * f32x2(x, y)

    @function
    def leave(c: Any, out: Any, upper: Any, lower: Any, tile: Any, warp: i64, leader: bool, w: Work) -> None:
        """Box by box."""
        p, q, y, x = tile
        row = y * ROWS + BOX * u32(warp // SHARE)
        for piece in unroll(COLUMNS // BOX):
            if leader:
                wait_stores(BUFFERS - 1)
            barrier_sync(5 + warp // SHARE, 32 * SHARE)
            put(out, piece % BUFFERS, warp, upper, lower, piece, w.alpha)
            fence_async_proxy()
            barrier_sync(5 + warp // SHARE, 32 * SHARE)
            if leader:
                column = x * COLUMNS + BOX * piece
                to_row, to_column = (column, row) if c_across else (row, column)
                if w.accumulate != 0:
                    tma_reduce(c, (p, q, to_row, to_column), out, (piece % BUFFERS, warp // SHARE))
                else:
                    tma_store(c, (p, q, to_row, to_column), out, (piece % BUFFERS, warp // SHARE))
                commit_stores()

    return fetch, multiply, release, leave


def product(schedule: Schedule, *, b_across: bool, c_across: bool, parts: int = 1, ahead: bool = False) -> Kernel:
    """The kernel C <- alpha A B (+ C) for batches. All arrays have four dimensions, two of the batch and two of the matrix, rows contiguous.

    A is given as its transpose k x m, B as its transpose n x k, or with `b_across` as k x n. C is m x n, or with `c_across` given as its transpose n x m. The
    maps of A and B round to tf32. With several `parts` A and B are one matrix each, and C has the sums of each part along k. With `ahead` the warps that have
    nothing else to do turn `source`, k x n, to `later`, n x k, for the next launch.
    """
    ROWS, COLUMNS, STAGES, GROUP, HALVES = schedule.rows, schedule.columns, schedule.stages, schedule.group, schedule.halves
    SHARE = 2 // HALVES  # warps that have a box together
    SUMS = COLUMNS // 2
    PARTS, BUFFERS = parts, schedule.buffers
    tiles = boxes(ROWS, COLUMNS, STAGES, a_across=True, b_across=b_across)
    LEFT, RIGHT, bring = tiles.left, tiles.right, bringing(tiles, ROWS, COLUMNS, parts)
    fetch, multiply, release, leave = steps_of_warps(schedule, c_across=c_across)
    WARPGROUPS = GROUPS + 1 + int(b_across)
    # registers per thread; together no more than the block begins with
    MULTIPLY, LOAD, TURN = (200, 48, 64) if b_across else (208, 88, 0) if ahead else (232, 40, 0)
    inner_b, down_c, side_c = 2 + int(not b_across), 2 + int(c_across), 3 - int(c_across)

    @function
    def await_stage(full: Any, turned: Any, number: u32) -> None:
        barrier_wait(full, number % STAGES, number // STAGES)
        if b_across:
            barrier_wait(turned, number % STAGES, number // STAGES)

    @function
    def copy(y: Any, x: Any, number: u32, warps: u32) -> None:
        """Turn x, by as many warps as say so, of which this has a number. Two blocks of each lane are under way."""
        across, down = u32((x.shape[3] + 63) // 64), u32((x.shape[2] + 15) // 16)
        for unit in range(number, across * down * u32(x.shape[0] * x.shape[1]), warps):
            matrix = unit // (across * down)
            p, q = i64(matrix // u32(x.shape[1])), i64(matrix % u32(x.shape[1]))
            n, k = i64(64 * (unit % across)), i64(16 * (unit // across % down))
            if p < x.shape[0] and q < x.shape[1]:
                one, two = local_array((4, 4), f32), local_array((4, 4), f32)
                read_turned(one, x, p, q, n, k)
                read_turned(two, x, p, q, n + 32, k)
                write_turned(y, one, p, q, n, k)
                write_turned(y, two, p, q, n + 32, k)

    @kernel(
        grid=("w.blocks",),
        block=128 * WARPGROUPS,
        requires=(
            f"a.shape[2] == b.shape[{inner_b}]",
            f"c.shape[{down_c}] == a.shape[3]",
            f"c.shape[{side_c}] == b.shape[{5 - inner_b}]",
            "c.shape[0] == a.shape[0] == b.shape[0]" if PARTS == 1 else f"c.shape[0] == {PARTS} and a.shape[0] == b.shape[0] == 1",
            "c.shape[1] == a.shape[1] == b.shape[1]" if PARTS == 1 else "c.shape[1] == a.shape[1] == b.shape[1] == 1",
            "source.shape[0] == later.shape[0] and source.shape[1] == later.shape[1]",
            "source.shape[2] == later.shape[3] and source.shape[3] == later.shape[2]",
        ),
        programmatic=True,
        spills=False,
    )
    def matmul_tf32(
        c: TensorMap[f32, D4], a: TensorMap[f32, D4], b: TensorMap[f32, D4], later: SliceMut[f32, D4], source: Slice[f32, D4], w: Work
    ) -> None:
        """C <- alpha A B (+ C), tile after tile; `source` is copied to `later` only with `ahead`."""
        left = shared_array(LEFT, f32, swizzle=128)
        right = shared_array(RIGHT, f32, swizzle=128)
        out = shared_array((BUFFERS, ROWS // BOX, BOX, BOX), f32, swizzle=128)
        full, turned, empty = shared_barriers(STAGES), shared_barriers(STAGES), shared_barriers(STAGES)
        if is_first_thread():
            for s in unroll(STAGES):
                barrier_init(turned, s, 4)
        set_up(full, empty, STAGES, 4 * GROUPS)
        me = warp_group_index()
        steps = (a.shape[2] + PARTS * DEPTH - 1) // (PARTS * DEPTH)
        order = order_of(c.shape[0], c.shape[1], c.shape[down_c], c.shape[side_c], ROWS, COLUMNS, GROUP)
        wait_for_dependencies()
        if me == GROUPS:
            decrease_registers(LOAD)
            if warp_index() == 4 * GROUPS and elect_one():
                bring(left, right, a, b, full, empty, order, steps)
            elif ahead and warp_index() > 4 * GROUPS:
                copy(later, source, 3 * u32(block_idx.x) + u32(warp_index()) - 4 * GROUPS - 1, 3 * u32(grid_dim.x))
        elif b_across and me == GROUPS + 1:
            decrease_registers(TURN)
            number = 0
            own = warp_index() % 4
            for _tile in range(block_idx.x, order.count, grid_dim.x):
                for _step in range(steps):
                    s = number % STAGES
                    barrier_wait(full, s, number // STAGES)
                    for piece in unroll(0, COLUMNS // BOX, 4):
                        if piece + own < COLUMNS // BOX:
                            turn(right, s, piece + own, 1 + own)
                    fence_async_proxy()
                    barrier_sync(1 + own, 32)
                    if is_first_lane():
                        barrier_arrive(turned, s)
                    number += 1
        else:
            increase_registers(MULTIPLY)
            number = 0
            leader = thread_idx.x % (32 * SHARE) == 0
            warp = warp_index() % (4 * GROUPS)
            for tile in range(block_idx.x, order.count, grid_dim.x):
                p, q, y, x = placed(order, tile)
                upper, lower = local_array(SUMS, f32), local_array(SUMS if HALVES == 2 else 1, f32)
                part, next_part = local_array((HALF // STEP, HALVES, 4), f32), local_array((HALF // STEP, HALVES, 4), f32)
                first = shuffle(u32(number), 0)  # so that the assembler knows that all lanes have the same stage
                for step in range(steps):
                    # fragments are read while the products of those before run
                    now = first + u32(step)
                    await_stage(full, turned, now)
                    fetch(part, left, now % STAGES, 0, warp)
                    multiply(upper, lower, part, right, now % STAGES, 0)
                    wgmma_wait(1)
                    if step > 0:
                        release(empty, now - 1)
                    fetch(next_part, left, now % STAGES, HALF, warp)
                    multiply(upper, lower, next_part, right, now % STAGES, HALF)
                    wgmma_wait(1)
                wgmma_wait(0)
                release(empty, first + u32(steps) - 1)
                number += steps
                leave(c, out, upper, lower, (p, q, y, x), warp, leader, w)
            if leader:
                wait_stores()

    return matmul_tf32
