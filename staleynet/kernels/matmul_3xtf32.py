"""The matrix product of fp32 numbers on Hopper's tensor cores, with the accuracy of fp32: three products of tf32 parts.

A number is split into its rounding to tf32 and the rest, rounded to tf32, too: x = high + low up to 2^-22 x. A B is then high high + high low + low high,
the fourth product being too small to matter (Markidis et al. 2018, https://arxiv.org/abs/1803.04014). Tensor cores truncate when they accumulate, so that
errors grow with k; sums over 32 of k are therefore added to others in ordinary registers (Ootomo and Yokota 2022, https://doi.org/10.1177/10943420221090256).

Operands are split on their way, whichever way they lie: A by the warpgroups that multiply, in registers, from which `wgmma` takes it; B by another warpgroup in
shared memory, where it is turned, too, if k lies across its rows.
"""

from dataclasses import dataclass
from typing import Any

from kdsl import (
    D4,
    Kernel,
    TensorMap,
    as_vectors,
    barrier_arrive,
    barrier_init,
    barrier_sync,
    barrier_wait,
    bits_float,
    block_idx,
    commit_stores,
    decrease_registers,
    elect_one,
    f32,
    f32x4,
    fence_async_proxy,
    function,
    grid_dim,
    i32,
    i64,
    increase_registers,
    inline_ptx,
    is_first_lane,
    is_first_thread,
    kernel,
    lane_index,
    ldmatrix,
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
from staleynet.kernels.matmul_hopper import Work
from staleynet.kernels.matmul_ring import bringing, set_up
from staleynet.kernels.tf32_tiles import BOX, DEPTH, HALF, STEP, block_of, boxes, lane_now, read_blocks, rows_of
from staleynet.kernels.tile_order import order_of, placed

GROUPS = 2
"""Warpgroups that multiply, 64 rows each; a third one loads, a fourth one splits B."""
ROWS = 64 * GROUPS
"""Rows of a tile of C."""
BUFFERS = 2
"""Buffers of a warpgroup for results on their way out."""


@dataclass(frozen=True)
class Schedule:
    """How a product is laid out on the device. It changes no bit."""

    columns: int = 128
    """Columns of a tile of C, a multiple of 32 up to 128."""
    stages: int = 4
    """Stages of the ring."""
    group: int = 8
    """Tiles below each other that are computed before the next column of tiles."""
    rows = ROWS
    """Rows of a tile of C."""


@function
def nearest(x: f32) -> f32:
    """The number rounded to tf32, ties to even."""
    rounded: f32 = inline_ptx("cvt.rn.tf32.f32 {0}, {1};", f32, (x,), volatile=False, memory=False)
    return rounded


@function
def rest(x: f32, high: f32) -> f32:
    """What the rounding has left, rounded, too. (Of an infinity it is NaN.)"""
    return nearest(x - high)


@function
def put(tile: Any, low: Any, s: i64, box: i64, row: i64, chunk: i64, x: f32x4) -> None:
    """Write the parts of four neighbouring numbers."""
    highs, lows = as_vectors(tile, 4), as_vectors(low, 4)
    high = f32x4(nearest(x.x), nearest(x.y), nearest(x.z), nearest(x.w))
    highs[s, box, row, chunk] = high
    lows[s, box, row, chunk] = f32x4(rest(x.x, high.x), rest(x.y, high.y), rest(x.z, high.z), rest(x.w, high.w))


@function
def split(tile: Any, low: Any, s: i64, box: i64) -> None:
    """Split a box with k along its rows, by a warp: the upper parts stay where the numbers were."""
    fours, lane = as_vectors(tile, 4), lane_now()
    for i in unroll(0, BOX, 4):
        put(tile, low, s, box, lane // 8 + i, lane % 8, fours[s, box, lane // 8 + i, lane % 8])


@function
def split_and_turn(tile: Any, low: Any, s: i64, box: i64, number: i64) -> None:
    """The same for a box with k across its rows, which are exchanged with its columns; the warp has named barrier `number` for itself."""
    found, lane = local_array((2, 4, 4), f32), lane_now()
    read_blocks(found, tile, s, box, lane)
    barrier_sync(number, 32)
    for i in unroll(2):
        row, column = block_of(lane, i)
        for e in unroll(4):
            put(tile, low, s, box, 4 * column + e, row, f32x4(found[i, 0, e], found[i, 1, e], found[i, 2, e], found[i, 3, e]))


def product(schedule: Schedule, *, a_across: bool, b_across: bool, parts: int = 1) -> Kernel:
    """The kernel C <- alpha A B (+ C) for batches; all arrays have four dimensions, two of the batch and two of the matrix, rows contiguous.

    A is given as m x k, or with `a_across` as its transpose k x m, B as its transpose n x k, or with `b_across` as k x n. With several `parts` A and B are one
    matrix each, and C has the sums of each part along k.
    """
    COLUMNS, STAGES, GROUP = schedule.columns, schedule.stages, schedule.group
    SUMS = COLUMNS // 2
    PARTS = parts
    tiles = boxes(ROWS, COLUMNS, STAGES, a_across=a_across, b_across=b_across)
    LEFT, RIGHT, bring = tiles.left, tiles.right, bringing(tiles, ROWS, COLUMNS, parts)
    inner_a, inner_b = 2 + int(not a_across), 2 + int(not b_across)

    @function
    def fetch(high: Any, low: Any, left: Any, twos: Any, s: u32, k: i64, warp: i64) -> None:
        """Read what the warp multiplies from step k of a stage on, and split it."""
        lane = lane_index()
        for i in unroll(0, HALF, STEP):
            x = local_array(4, f32)
            if a_across:
                for after in unroll(2):
                    two = twos[s, warp // 2, k + i + 4 * after + lane % 4, rows_of(lane, warp, 2) // 2]
                    x[2 * after], x[2 * after + 1] = two.x, two.y
            else:
                found = ldmatrix(left, (s, warp // 2, 16 * (warp % 2) + lane % 16, k + i + lane // 16 * 4))
                for e in unroll(4):
                    x[e] = bits_float(i32(found[e]))
            for e in unroll(4):
                y = nearest(x[e])
                high[i // STEP, e], low[i // STEP, e] = y, rest(x[e], y)

    @function
    def start_small(sums: Any, high: Any, low: Any, right: Any, right_low: Any, s: u32, first: i64) -> None:
        """Start the two small products of half a stage."""
        for k in unroll(0, HALF, STEP):
            wgmma(sums, low[k // STEP, :], (), right, (s, 0, 0, first + k), accumulate=first + k > 0)
        for k in unroll(0, HALF, STEP):
            wgmma(sums, high[k // STEP, :], (), right_low, (s, 0, 0, first + k))

    @function
    def hold(part: Any) -> None:
        """Keep fragments in their registers until here. Products that are under way read them, which neither LLVM nor ptxas knows: what is fetched meanwhile
        would go to the same registers."""
        for k in unroll(HALF // STEP):
            for e in unroll(4):
                inline_ptx("{ .reg .f32 kept; mov.f32 kept, {0}; }", None, (part[k, e],), memory=False)

    @function
    def start_large(sums: Any, high: Any, right: Any, s: u32, first: i64) -> None:
        """Start the large one."""
        for k in unroll(0, HALF, STEP):
            wgmma(sums, high[k // STEP, :], (), right, (s, 0, 0, first + k))

    @function
    def await_stage(full: Any, ready: Any, number: u32) -> None:
        barrier_wait(full, number % STAGES, number // STAGES)
        barrier_wait(ready, number % STAGES, number // STAGES)

    @function
    def finish(total: Any, sums: Any, empty: Any, number: u32) -> None:
        """When the products of a stage are done, give it back and add its sums."""
        wgmma_wait(0)
        if is_first_lane():
            barrier_arrive(empty, number % STAGES)
        for i in unroll(SUMS):
            total[i] += sums[i]

    @kernel(
        grid=("w.blocks",),
        block=128 * (GROUPS + 2),
        requires=(
            f"a.shape[{inner_a}] == b.shape[{inner_b}]",
            f"c.shape[2] == a.shape[{5 - inner_a}]",
            f"c.shape[3] == b.shape[{5 - inner_b}]",
            "c.shape[0] == a.shape[0] == b.shape[0]" if PARTS == 1 else f"c.shape[0] == {PARTS} and a.shape[0] == b.shape[0] == 1",
            "c.shape[1] == a.shape[1] == b.shape[1]" if PARTS == 1 else "c.shape[1] == a.shape[1] == b.shape[1] == 1",
        ),
        programmatic=True,
        spills=False,
    )
    def matmul_3xtf32(c: TensorMap[f32, D4], a: TensorMap[f32, D4], b: TensorMap[f32, D4], w: Work) -> None:
        """C <- alpha A B (+ C), tile after tile."""
        left = shared_array(LEFT, f32, swizzle=128)
        right = shared_array(RIGHT, f32, swizzle=128)
        right_low = shared_array(RIGHT, f32, swizzle=128)
        out = shared_array((BUFFERS, GROUPS, 64, BOX), f32, swizzle=128)
        full, ready, empty = shared_barriers(STAGES), shared_barriers(STAGES), shared_barriers(STAGES)
        if is_first_thread():
            for s in unroll(STAGES):
                barrier_init(ready, s, 4)
        set_up(full, empty, STAGES, 4 * GROUPS)
        me = warp_group_index()
        steps = (a.shape[inner_a] + PARTS * DEPTH - 1) // (PARTS * DEPTH)
        order = order_of(c.shape[0], c.shape[1], c.shape[2], c.shape[3], ROWS, COLUMNS, GROUP)
        wait_for_dependencies()
        if me == GROUPS:
            decrease_registers(48)
            if warp_index() == 4 * GROUPS and elect_one():
                bring(left, right, a, b, full, empty, order, steps)
        elif me == GROUPS + 1:
            decrease_registers(64)
            number = 0
            own = warp_index() % 4
            for _tile in range(block_idx.x, order.count, grid_dim.x):
                for _step in range(steps):
                    s = number % STAGES
                    barrier_wait(full, s, number // STAGES)
                    if own < COLUMNS // BOX:
                        if b_across:
                            split_and_turn(right, right_low, s, own, 1 + own)
                        else:
                            split(right, right_low, s, own)
                    fence_async_proxy()
                    barrier_sync(1 + own, 32)
                    if is_first_lane():
                        barrier_arrive(ready, s)
                    number += 1
        else:
            increase_registers(200)
            twos = as_vectors(left, 2)
            warp = warp_index() % (4 * GROUPS)
            number = 0
            leader = thread_idx.x % 128 == 0
            for tile in range(block_idx.x, order.count, grid_dim.x):
                p, q, y, x = placed(order, tile)
                total, sums = local_array(SUMS, f32), local_array(SUMS, f32)
                high, low = local_array((HALF // STEP, 4), f32), local_array((HALF // STEP, 4), f32)
                high_2, low_2 = local_array((HALF // STEP, 4), f32), local_array((HALF // STEP, 4), f32)
                next_high = local_array((HALF // STEP, 4), f32)
                first = shuffle(u32(number), 0)  # so that the assembler knows that all lanes have the same stage
                await_stage(full, ready, first)
                fetch(next_high, low, left, twos, first % STAGES, 0, warp)
                for step in range(steps):
                    # Fragments are read and split while products of those before run. The small products of a stage come first, since the sums of the
                    # large ones cut off what is added to them.
                    now = first + u32(step)
                    for i in unroll(HALF // STEP):
                        for e in unroll(4):
                            high[i, e] = next_high[i, e]
                    wgmma_fence()
                    start_small(sums, high, low, right, right_low, now % STAGES, 0)
                    wgmma_commit()
                    fetch(high_2, low_2, left, twos, now % STAGES, HALF, warp)
                    wgmma_fence()
                    start_small(sums, high_2, low_2, right, right_low, now % STAGES, HALF)
                    start_large(sums, high, right, now % STAGES, 0)
                    start_large(sums, high_2, right, now % STAGES, HALF)
                    wgmma_commit()
                    wgmma_wait(1)
                    if step + 1 < steps:
                        await_stage(full, ready, now + 1)
                        fetch(next_high, low, left, twos, (now + 1) % STAGES, 0, warp)
                    finish(total, sums, empty, now)
                    hold(high)
                    hold(high_2)
                number += steps
                for piece in unroll(COLUMNS // BOX):
                    if leader:
                        wait_stores(BUFFERS - 1)
                    barrier_sync(5 + warp // 4, 128)
                    lane = lane_now()
                    row = 32 * (warp // 2 % 2) + rows_of(lane, warp, 2) if a_across else 16 * (warp % 4) + lane // 4
                    column = 2 * (lane % 4)
                    for i in unroll(16):
                        down_by = i // 2 % 2 if a_across else 8 * (i // 2 % 2)
                        out[piece % BUFFERS, warp // 4, row + down_by, column + 8 * (i // 4) + i % 2] = w.alpha * total[16 * piece + i]
                    fence_async_proxy()
                    barrier_sync(5 + warp // 4, 128)
                    if leader:
                        top = y * ROWS + 64 * u32(warp // 4)
                        if w.accumulate != 0:
                            tma_reduce(c, (p, q, top, x * COLUMNS + BOX * piece), out, (piece % BUFFERS, warp // 4))
                        else:
                            tma_store(c, (p, q, top, x * COLUMNS + BOX * piece), out, (piece % BUFFERS, warp // 4))
                        commit_stores()
            if leader:
                wait_stores()

    return matmul_3xtf32
