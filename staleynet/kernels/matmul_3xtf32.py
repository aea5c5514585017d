"""The matrix product of fp32 numbers on Hopper's tensor cores, with the accuracy of fp32: three products of tf32 parts.

A number is split into its rounding to tf32 and the rest, rounded to tf32, too: x = high + low up to 2^-22 x. A B is then high high + high low + low high,
the fourth product being too small to matter (Markidis et al. 2018, https://arxiv.org/abs/1803.04014). Tensor cores truncate when they accumulate, so that
errors grow with k; sums over 32 of k are therefore added to others in ordinary registers, while the next ones are computed (Ootomo and Yokota 2022,
https://doi.org/10.1177/10943420221090256).
"""

from dataclasses import dataclass
from typing import Any

from kdsl import (
    D4,
    Kernel,
    TensorMap,
    barrier_arrive,
    barrier_arrive_expect,
    barrier_init,
    barrier_sync,
    barrier_wait,
    block_idx,
    commit_stores,
    decrease_registers,
    elect_one,
    f32,
    fence_async_proxy,
    fence_barrier_init,
    function,
    grid_dim,
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
    shuffle,
    sync_threads,
    thread_idx,
    tma_load,
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
from staleynet.kernels.tile_order import place

GROUPS = 2
"""Warpgroups that multiply, 64 rows each; a third one loads."""
ROWS = 64 * GROUPS
"""Rows of a tile of C."""
DEPTH = 32
"""Steps of k per stage: 128 bytes."""
STEP = 8
"""Steps of k per instruction."""


@dataclass(frozen=True)
class Schedule:
    """How a product is laid out on the device. It changes no bit."""

    columns: int = 128
    """Columns of a tile of C, a multiple of 32 up to 128."""
    stages: int = 3
    """Stages of the ring."""
    group: int = 8
    """Tiles below each other that are computed before the next column of tiles."""
    rows = ROWS
    """Rows of a tile of C."""


def product(schedule: Schedule) -> Kernel:
    """The kernel C <- alpha A B^T (+ C) for batches, of the parts of A (m x k) and of B (n x k), rows contiguous. All arrays have four dimensions, two of
    the batch and two of the matrix."""
    COLUMNS, STAGES, GROUP = schedule.columns, schedule.stages, schedule.group
    SUMS = COLUMNS // 2
    STAGE_BYTES = 2 * (ROWS + COLUMNS) * DEPTH * 4

    @function
    def multiply(sums: Any, left: Any, right: Any, s: u32, me: i64) -> None:
        """The three products of a stage, the small ones first."""
        wgmma_fence()
        for k in unroll(0, DEPTH, STEP):
            wgmma(sums, left, (s, 1, 64 * me, k), right, (s, 0, 0, k), accumulate=k > 0)
        for k in unroll(0, DEPTH, STEP):
            wgmma(sums, left, (s, 0, 64 * me, k), right, (s, 1, 0, k))
        for k in unroll(0, DEPTH, STEP):
            wgmma(sums, left, (s, 0, 64 * me, k), right, (s, 0, 0, k))
        wgmma_commit()

    @function
    def turn_over(sums: Any, left: Any, right: Any, full: Any, empty: Any, number: u32, me: i64, leader: bool) -> None:
        """When the products before are done, start those of stage `number`."""
        wgmma_wait(0)
        if leader:
            barrier_arrive(empty, (number - 1) % STAGES)
        barrier_wait(full, number % STAGES, number // STAGES)
        multiply(sums, left, right, number % STAGES, me)

    @function
    def add(total: Any, sums: Any) -> None:
        for i in unroll(SUMS):
            total[i] += sums[i]

    @kernel(
        grid=("w.blocks",),
        block=128 * (GROUPS + 1),
        requires=(
            "a_high.shape[0] == a_low.shape[0] == b_high.shape[0] == b_low.shape[0] == c.shape[0]",
            "a_high.shape[1] == a_low.shape[1] == b_high.shape[1] == b_low.shape[1] == c.shape[1]",
            "a_high.shape[2] == a_low.shape[2] == c.shape[2]",
            "b_high.shape[2] == b_low.shape[2] == c.shape[3]",
            "a_high.shape[3] == a_low.shape[3] == b_high.shape[3] == b_low.shape[3]",
        ),
        programmatic=True,
        spills=False,
    )
    def matmul_3xtf32(
        c: TensorMap[f32, D4],
        a_high: TensorMap[f32, D4],
        a_low: TensorMap[f32, D4],
        b_high: TensorMap[f32, D4],
        b_low: TensorMap[f32, D4],
        w: Work,
    ) -> None:
        """C <- alpha A B^T (+ C), tile after tile."""
        left = shared_array((STAGES, 2, ROWS, DEPTH), f32, swizzle=128)
        right = shared_array((STAGES, 2, COLUMNS, DEPTH), f32, swizzle=128)
        out = shared_array((GROUPS, 64, 32), f32, swizzle=128)
        full, empty = shared_barriers(STAGES), shared_barriers(STAGES)
        if is_first_thread():
            for s in unroll(STAGES):
                barrier_init(full, s, 1)
                barrier_init(empty, s, GROUPS)
            fence_barrier_init()
        sync_threads()
        me = warp_group_index()
        pairs = (a_high.shape[3] + 2 * DEPTH - 1) // (2 * DEPTH)
        across = u32((c.shape[3] + COLUMNS - 1) // COLUMNS)
        down = u32((c.shape[2] + ROWS - 1) // ROWS)
        heads = u32(c.shape[1])
        count = i64(across * down * u32(c.shape[0]) * heads)
        wait_for_dependencies()
        if me == GROUPS:
            decrease_registers(40)
            if warp_index() == 4 * GROUPS and elect_one():
                prefetch_map(a_high)
                prefetch_map(a_low)
                prefetch_map(b_high)
                prefetch_map(b_low)
                number = 0
                for tile in range(block_idx.x, count, grid_dim.x):
                    p, q, y, x = place(u32(tile), down, across, heads, GROUP)
                    for step in range(2 * pairs):
                        s = number % STAGES
                        k = step * DEPTH
                        barrier_wait(empty, s, number // STAGES + 1)
                        barrier_arrive_expect(full, s, STAGE_BYTES)
                        tma_load(left, (s, 0), a_high, (p, q, y * ROWS, k), full, s)
                        tma_load(left, (s, 1), a_low, (p, q, y * ROWS, k), full, s)
                        tma_load(right, (s, 0), b_high, (p, q, x * COLUMNS, k), full, s)
                        tma_load(right, (s, 1), b_low, (p, q, x * COLUMNS, k), full, s)
                        number += 1
                launch_dependents()
        else:
            increase_registers(232)
            number = 0
            leader = thread_idx.x % 128 == 0
            for tile in range(block_idx.x, count, grid_dim.x):
                p, q, y, x = place(u32(tile), down, across, heads, GROUP)
                total, even, odd = local_array(SUMS, f32), local_array(SUMS, f32), local_array(SUMS, f32)
                first = shuffle(u32(number), 0)
                barrier_wait(full, first % STAGES, first // STAGES)
                multiply(even, left, right, first % STAGES, me)
                for pair in range(pairs - 1):
                    # the even sums are added while the products for the odd ones run, and the other way round
                    now = first + 2 * u32(pair)
                    turn_over(odd, left, right, full, empty, now + 1, me, leader)
                    add(total, even)
                    turn_over(even, left, right, full, empty, now + 2, me, leader)
                    add(total, odd)
                last = first + 2 * u32(pairs) - 1
                turn_over(odd, left, right, full, empty, last, me, leader)
                add(total, even)
                wgmma_wait(0)
                if leader:
                    barrier_arrive(empty, last % STAGES)
                add(total, odd)
                number += 2 * pairs
                row, column = 16 * (warp_index() % 4) + lane_index() // 4, 2 * (lane_index() % 4)
                for piece in unroll(COLUMNS // 32):
                    if leader:
                        wait_stores()
                    barrier_sync(1 + me, 128)
                    for i in unroll(16):
                        out[me, row + 8 * (i // 2 % 2), column + 8 * (i // 4) + i % 2] = w.alpha * total[16 * piece + i]
                    fence_async_proxy()
                    barrier_sync(1 + me, 128)
                    if leader:
                        if w.accumulate != 0:
                            tma_reduce(c, (p, q, y * ROWS + 64 * u32(me), x * COLUMNS + 32 * piece), out, me)
                        else:
                            tma_store(c, (p, q, y * ROWS + 64 * u32(me), x * COLUMNS + 32 * piece), out, me)
                        commit_stores()
            if leader:
                wait_stores()

    return matmul_3xtf32
