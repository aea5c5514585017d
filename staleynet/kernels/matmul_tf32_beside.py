"""The product of `matmul_tf32.py` with k across both operands, where copying B takes long and each block has one tile: B is copied beside the products.

The first stages of each part along k are copied before (`turn_heads` in `convert.py`). Blocks whose tiles lie below each other read the same columns of B, and
share the rest of that copy: warps that have nothing else to do take boxes from a queue, and count those that are done for every few stages; who loads these
waits for that. A block that waits copies as well, so that it never depends on one that has yet to begin.
"""

from typing import Any

from kdsl import (
    D4,
    Kernel,
    SliceMut,
    TensorMap,
    atomic_add,
    atomic_load,
    barrier_arrive_expect,
    barrier_init,
    barrier_wait,
    block_idx,
    commit_stores,
    decrease_registers,
    elect_one,
    f32,
    fence_async_proxy,
    function,
    i64,
    increase_registers,
    is_first_thread,
    kernel,
    launch_dependents,
    local_array,
    prefetch_map,
    shared_array,
    shared_barriers,
    sync_warp,
    thread_idx,
    tma_load,
    tma_store,
    u32,
    unroll,
    wait_for_dependencies,
    wait_stores,
    warp_group_index,
    warp_index,
    warp_sum,
    wgmma_wait,
)
from staleynet.kernels.matmul_hopper import Work
from staleynet.kernels.matmul_ring import set_up
from staleynet.kernels.matmul_tf32 import GROUPS, Schedule, steps_of_warps, turn
from staleynet.kernels.tf32_tiles import BOX, DEPTH, HALF, STEP, boxes, lane_now
from staleynet.kernels.tile_order import order_of, placed

CHUNK = 4
"""Stages whose copies are counted together."""
LINE = 128
"""Counters of a group of blocks that share columns of B: of what is taken, and for each chunk of what is copied."""
MOST = 32
"""Stages of a part that are copied before, at most; half of them where there are fewer."""


def heads_of(steps: int) -> int:
    """The stages that are copied before, of a part with so many: whole blocks of `turn_heads`. 0 where that is not worth it, or counters would not suffice."""
    heads = min(MOST, steps // 4 * 2)
    return heads if -(-(steps - heads) // CHUNK) < LINE else 0


def product(schedule: Schedule, *, c_across: bool, parts: int, heads: int) -> Kernel:
    """The kernel C <- alpha A B (+ C). All arrays have four dimensions, two of the batch and two of the matrix, rows contiguous.

    A is given as its transpose k x m, B as `source`, k x n, and as its copy b, n x k, of which the first `heads` stages of each part are there; all are single
    matrices. C has the sums of each of the `parts` along k, m x n, or with `c_across` given as its transpose n x m. The maps of A and of `source` round to
    tf32. `progress` has `LINE` counters for each column of tiles of each part, all of them 0.
    """
    ROWS, COLUMNS, STAGES, GROUP, HALVES = schedule.rows, schedule.columns, schedule.stages, schedule.group, schedule.halves
    SHARE = 2 // HALVES  # warps that have a box together
    SUMS = COLUMNS // 2
    PARTS, BUFFERS = parts, schedule.buffers
    UNITS, HEADS = COLUMNS // BOX, heads
    tiles = boxes(ROWS, COLUMNS, STAGES, a_across=True, b_across=False)
    LEFT, RIGHT, load = tiles.left, tiles.right, tiles.load
    fetch, multiply, release, leave = steps_of_warps(schedule, c_across=c_across)
    MULTIPLY, LOAD = 208, 88  # registers per thread; together no more than the block begins with
    down_c, side_c = 2 + int(c_across), 3 - int(c_across)

    @function
    def spot(me: i64, turn_of: i64) -> tuple[i64, i64]:
        """Which two boxes for results, not in use before the products are done, a warp that copies has."""
        number = 2 * me + turn_of
        return number // (ROWS // BOX), number % (ROWS // BOX)

    @function
    def copy(b: Any, source: Any, out: Any, arrived: Any, progress: Any, group: u32, me: i64, column: u32, first: i64, units: i64) -> None:
        """A warp turns boxes of the operand that its group has yet to copy, taken one after the other from a queue, and says so. One is on its way in, one is
        turned, and one is on its way out."""
        is_leader = lane_now() == 0
        queue = group * LINE
        taken = u32(0)
        if is_leader and queue < len(progress):
            taken = atomic_add(progress, queue, u32(1))
        unit, inside, outside, count = i64(warp_sum(taken)), i64(-1), i64(-1), i64(0)
        while unit < units or inside >= 0 or outside >= 0:
            if is_leader and unit < units:
                wait_stores(0)
                now = 2 * me + count % 2
                barrier_arrive_expect(arrived, now, BOX * BOX * 4)
                k, n = first + BOX * (unit // UNITS), column + u32(BOX * (unit % UNITS))
                tma_load(out, spot(me, count % 2), source, (0, 0, k, n), arrived, now)
                if queue < len(progress):
                    taken = atomic_add(progress, queue, u32(1))
            if inside >= 0:
                other = 1 - count % 2
                buffer, box = spot(me, other)
                barrier_wait(arrived, 2 * me + other, (count - 1) // 2)
                turn(out, buffer, box, 1 + me)
                fence_async_proxy()
                sync_warp()
                if is_leader:
                    k, n = first + BOX * (inside // UNITS), column + u32(BOX * (inside % UNITS))
                    tma_store(b, (0, 0, n, k), out, (buffer, box))
                    commit_stores()
            if is_leader and outside >= 0:
                if inside >= 0:
                    wait_stores(1, read=False)
                else:
                    wait_stores(0, read=False)
                done = queue + 1 + u32(outside // (UNITS * CHUNK))
                if done < len(progress):
                    atomic_add(progress, done, u32(1), order="release")
            outside = inside
            if unit < units:
                inside = unit
                unit = i64(warp_sum(taken))
            else:
                inside = i64(-1)
            count += 1

    @function
    def await_copy(progress: Any, group: u32, step: i64, steps: i64) -> None:
        """Wait until the stages of the chunk that begins with this one are copied."""
        if step >= HEADS and (step - HEADS) % CHUNK == 0:
            place = group * LINE + 1 + u32((step - HEADS) // CHUNK)
            wanted = u32(UNITS * min(i64(CHUNK), steps - step))
            if place < len(progress):
                while atomic_load(progress, place, order="acquire") < wanted:
                    pass
            fence_async_proxy("global")

    @kernel(
        grid=("w.blocks",),
        block=128 * (GROUPS + 1),
        requires=(
            "a.shape[2] == b.shape[3]",
            f"c.shape[{down_c}] == a.shape[3]",
            f"c.shape[{side_c}] == b.shape[2]",
            f"c.shape[0] == {PARTS} and a.shape[0] == b.shape[0] == 1",
            "c.shape[1] == a.shape[1] == b.shape[1] == 1",
            "source.shape[0] == source.shape[1] == 1 and source.shape[2] == b.shape[3] and source.shape[3] == b.shape[2]",
        ),
        programmatic=True,
        spills=False,
    )
    def matmul_tf32_beside(
        c: TensorMap[f32, D4], a: TensorMap[f32, D4], b: TensorMap[f32, D4], source: TensorMap[f32, D4], progress: SliceMut[u32], w: Work
    ) -> None:
        """C <- alpha A B (+ C), a tile per block."""
        left = shared_array(LEFT, f32, swizzle=128)
        right = shared_array(RIGHT, f32, swizzle=128)
        out = shared_array((BUFFERS, ROWS // BOX, BOX, BOX), f32, swizzle=128)
        full, empty, arrived = shared_barriers(STAGES), shared_barriers(STAGES), shared_barriers(6)
        if is_first_thread():
            for i in unroll(6):
                barrier_init(arrived, i, 1)
        set_up(full, empty, STAGES, 4 * GROUPS)
        me = warp_group_index()
        steps = (a.shape[2] + PARTS * DEPTH - 1) // (PARTS * DEPTH)
        order = order_of(c.shape[0], c.shape[1], c.shape[down_c], c.shape[side_c], ROWS, COLUMNS, GROUP)
        p, q, y, x = placed(order, i64(block_idx.x))
        group = p * order.across + x
        prefetch_map(a)
        prefetch_map(b)
        prefetch_map(source)
        wait_for_dependencies()
        if me == GROUPS:
            decrease_registers(LOAD)
            if warp_index() == 4 * GROUPS:
                if elect_one():
                    for step in range(steps):
                        s = step % STAGES
                        await_copy(progress, group, step, steps)
                        barrier_wait(empty, s, step // STAGES + 1)
                        load(left, right, a, b, full, s, 0, 0, y * ROWS, x * COLUMNS, (i64(p) * steps + step) * DEPTH)
                    launch_dependents()
            else:
                start = (i64(p) * steps + HEADS) * DEPTH
                copy(b, source, out, arrived, progress, group, (warp_index() % 4 + 2) % 3, x * COLUMNS, start, (steps - HEADS) * UNITS)
        else:
            increase_registers(MULTIPLY)
            leader = thread_idx.x % (32 * SHARE) == 0
            warp = warp_index() % (4 * GROUPS)
            upper, lower = local_array(SUMS, f32), local_array(SUMS if HALVES == 2 else 1, f32)
            part, next_part = local_array((HALF // STEP, HALVES, 4), f32), local_array((HALF // STEP, HALVES, 4), f32)
            for step in range(steps):
                # fragments are read while the products of those before run
                now = u32(step)
                barrier_wait(full, now % STAGES, now // STAGES)
                fetch(part, left, now % STAGES, 0, warp)
                multiply(upper, lower, part, right, now % STAGES, 0)
                wgmma_wait(1)
                if step > 0:
                    release(empty, now - 1)
                fetch(next_part, left, now % STAGES, HALF, warp)
                multiply(upper, lower, next_part, right, now % STAGES, HALF)
                wgmma_wait(1)
            wgmma_wait(0)
            release(empty, u32(steps) - 1)
            leave(c, out, upper, lower, (p, q, y, x), warp, leader, w)
            if leader:
                wait_stores()

    return matmul_tf32_beside
