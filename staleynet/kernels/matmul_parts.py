"""Matrix products with a small C and a long k on Hopper's tensor cores: sums of parts along k, and what adds them in ascending order.

C has fewer tiles than the device has multiprocessors, so each block sums up one part of one tile and leaves it as it lies in its registers; a thread of the
second kernel reads the same four numbers of all parts at once. Either kernel needs few registers and begins while what comes before it still ends. (The steps
that led here: docs/matmul.md.)
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
    barrier_wait,
    block_idx,
    cluster_rank,
    elect_one,
    f32,
    f32x4,
    fence_barrier_init,
    function,
    i64,
    is_first_thread,
    kernel,
    launch_dependents,
    local_array,
    prefetch_map,
    remote,
    shared_array,
    shared_barriers,
    sync_cluster,
    sync_threads,
    thread_idx,
    u32,
    unroll,
    wait_for_dependencies,
    warp_group_index,
    warp_index,
    wgmma_commit,
    wgmma_fence,
    wgmma_wait,
)
from staleynet.kernels.matmul_hopper import Work, ring, written
from staleynet.kernels.tile_order import place

NUMBERS = 512
"""Numbers of f32 that the 128 threads of a warpgroup hand over at a time, four each."""


@dataclass(frozen=True)
class Schedule:
    """How a product in parts is laid out on the device."""

    rows: int
    """Rows of a tile of C: 64 or 128, one or two warpgroups that multiply."""
    columns: int
    """Columns of a tile of C, a multiple of 64 up to 256."""
    stages: int
    """Tiles of A and of B that are in shared memory or on their way."""
    cluster: bool = False
    """Experiment."""
    rounds: int = 1
    """Experiment."""

    @property
    def slots(self) -> int:
        """Times that a warpgroup hands over numbers, of all warpgroups of a block."""
        return self.rows // 64 * self.columns // 8


@function
def place_of(t: i64, slot: u32, fours: u32, top: u32, side: u32) -> tuple[u32, u32]:
    """Row and column of the first of four numbers that thread t of a warpgroup hands over; the second one lies right of it, the others eight rows below."""
    return top + slot // fours * 64 + u32(t // 32 * 16 + t % 32 // 4), side + slot % fours * 8 + u32(t % 4 * 2)


def product(element: Any, result: Any, schedule: Schedule, parts: int, *, a_across: bool = False, b_across: bool = False, bias: bool = False, gelu: bool = False,
    pairs: bool = False) -> Kernel:
    """The kernel that sums up `parts` parts along k of A B. Operands as for `matmul_hopper.product`, but one matrix each.

    A part has whole stages of k, and all parts the same number of them but for the last one. The sums are (part, tile, slot, four numbers per thread).
    """
    ROWS, COLUMNS, STAGES, PARTS, ROUNDS = schedule.rows, schedule.columns, schedule.stages, parts, schedule.rounds
    GROUPS, SUMS, FOURS = ROWS // 64, COLUMNS // 2, COLUMNS // 8
    tiles = ring(element, ROWS, COLUMNS, STAGES, a_across, b_across)
    DEPTH, A_SHAPE, B_SHAPE, load, multiply = tiles.depth, tiles.left, tiles.right, tiles.load, tiles.multiply
    inner_a, inner_b = 2 + int(not a_across), 2 + int(not b_across)
    AT_ONCE = FOURS // ROUNDS
    SHARE = -(-AT_ONCE // PARTS)
    write = written(result, bias=bias, gelu=gelu, pairs=pairs)

    @function
    def sum_part(left: Any, right: Any, full: Any, empty: Any, a: Any, b: Any, sums: Any, part: u32, x: u32, y: u32) -> None:
        me = warp_group_index()
        steps = (a.shape[inner_a] + DEPTH * PARTS - 1) // (DEPTH * PARTS)
        if me == GROUPS:
            if warp_index() == 4 * GROUPS and elect_one():
                prefetch_map(a)
                prefetch_map(b)
                for step in range(steps):
                    barrier_wait(empty, step % STAGES, step // STAGES + 1)
                    load(left, right, a, b, full, step % STAGES, 0, 0, y * ROWS, x * COLUMNS, (part * steps + step) * DEPTH)
                launch_dependents()
        else:
            for step in range(steps):
                barrier_wait(full, step % STAGES, step // STAGES)
                wgmma_fence()
                multiply(sums, left, right, u32(step) % STAGES, 64 * me)
                wgmma_commit()
                wgmma_wait(1)
                if step >= 1 and thread_idx.x % 128 == 0:
                    barrier_arrive(empty, (step - 1) % STAGES)
            wgmma_wait(0)

    @function
    def start(full: Any, empty: Any) -> None:
        if is_first_thread():
            for s in unroll(STAGES):
                barrier_init(full, s, 1)
                barrier_init(empty, s, GROUPS)
            fence_barrier_init()

    if not schedule.cluster:

        @kernel(
            grid=("w.blocks",),
            block=128 * (GROUPS + 1),
            requires=(
                f"a.shape[{inner_a}] == b.shape[{inner_b}]",
                "a.shape[0] == a.shape[1] == b.shape[0] == b.shape[1] == 1",
                f"w.blocks == sums.shape[0] * sums.shape[1] and sums.shape[0] == {PARTS}",
                f"sums.shape[2] == {schedule.slots} and sums.shape[3] == {NUMBERS}",
                f"sums.shape[1] == ((a.shape[{5 - inner_a}] + {ROWS - 1}) // {ROWS}) * ((b.shape[{5 - inner_b}] + {COLUMNS - 1}) // {COLUMNS})",
            ),
            programmatic=True,
            spills=False,
        )
        def matmul_parts(sums: SliceMut[f32, D4], a: TensorMap[element, D4], b: TensorMap[element, D4], w: Work) -> None:
            """A block per part of a tile; neighbouring blocks have the same part."""
            left = shared_array(A_SHAPE, element, swizzle=128)
            right = shared_array(B_SHAPE, element, swizzle=128)
            full, empty = shared_barriers(STAGES), shared_barriers(STAGES)
            start(full, empty)
            sync_threads()
            across = u32((b.shape[5 - inner_b] + COLUMNS - 1) // COLUMNS)
            down = u32((a.shape[5 - inner_a] + ROWS - 1) // ROWS)
            count = u32(sums.shape[1])
            part, tile = u32(block_idx.x) // count, u32(block_idx.x) % count
            _, _, y, x = place(tile, down, across, 1, 8)
            mine = local_array(SUMS, f32)
            to = as_vectors(sums, 4)
            wait_for_dependencies()
            sum_part(left, right, full, empty, a, b, mine, part, x, y)
            group, t = warp_group_index(), thread_idx.x % 128
            if group < GROUPS and part < to.shape[0] and tile < to.shape[1]:
                for j in unroll(FOURS):
                    slot = group * FOURS + j
                    if slot < to.shape[2] and t < to.shape[3]:
                        to[part, tile, slot, t] = f32x4(mine[4 * j], mine[4 * j + 1], mine[4 * j + 2], mine[4 * j + 3])

        return matmul_parts

    @kernel(
        grid=("w.blocks",),
        block=128 * (GROUPS + 1),
        cluster=PARTS,
        requires=(
            f"a.shape[{inner_a}] == b.shape[{inner_b}]",
            f"c.shape[2] == a.shape[{5 - inner_a}]",
            f"c.shape[3] == b.shape[{5 - inner_b}]",
            "c.shape[0] == c.shape[1] == a.shape[0] == a.shape[1] == b.shape[0] == b.shape[1] == 1",
        ),
        programmatic=True,
        spills=False,
    )
    def matmul_cluster(c: SliceMut[result, D4], a: TensorMap[element, D4], b: TensorMap[element, D4], offsets: Slice[f32], w: Work) -> None:
        """C <- alpha A B (+ C), a tile per cluster; `offsets` are read only with a bias."""
        left = shared_array(A_SHAPE, element, swizzle=128)
        right = shared_array(B_SHAPE, element, swizzle=128)
        partial = shared_array((GROUPS, AT_ONCE, 128), f32x4)
        full, empty = shared_barriers(STAGES), shared_barriers(STAGES)
        start(full, empty)
        sync_cluster()
        rank = u32(cluster_rank())
        across = u32((b.shape[5 - inner_b] + COLUMNS - 1) // COLUMNS)
        down = u32((a.shape[5 - inner_a] + ROWS - 1) // ROWS)
        _, _, y, x = place(u32(block_idx.x) // PARTS, down, across, 1, 8)
        mine = local_array(SUMS, f32)
        wait_for_dependencies()
        sum_part(left, right, full, empty, a, b, mine, rank, x, y)
        group, t = warp_group_index(), thread_idx.x % 128
        for turn in unroll(ROUNDS):
            if group < GROUPS:
                for j in unroll(AT_ONCE):
                    i = 4 * (AT_ONCE * turn + j)
                    partial[group, j, t] = f32x4(mine[i], mine[i + 1], mine[i + 2], mine[i + 3])
            sync_cluster()
            if group < GROUPS:
                for n in unroll(SHARE):
                    j = rank * SHARE + n
                    if j < AT_ONCE:
                        total = f32x4(0.0)
                        for part in unroll(PARTS):
                            more = remote(partial, part)[group, j, t]
                            total = more if part == 0 else total + more  # type: ignore[assignment]
                        row, column = place_of(t, u32(group * FOURS + AT_ONCE * turn + j), FOURS, y * ROWS, x * COLUMNS)
                        write(c, 0, 0, row, column, total.x, total.y, w, offsets)
                        write(c, 0, 0, row + 8, column, total.z, total.w, w, offsets)
            sync_cluster()

    return matmul_cluster


def sum_of_parts(result: Any, schedule: Schedule, parts: int, *, bias: bool = False, gelu: bool = False, pairs: bool = False) -> Kernel:
    """The kernel C <- alpha (sum of parts) (+ C), or C <- GELU(alpha (sum of parts) + bias), of what `product` left with the same schedule.

    With `pairs` rows of C consist of whole pairs of elements and begin at multiples of them.
    """
    ROWS, COLUMNS, PARTS, SLOTS = schedule.rows, schedule.columns, parts, schedule.slots
    FOURS = COLUMNS // 8
    write = written(result, bias=bias, gelu=gelu, pairs=pairs)

    @kernel(
        grid=(f"sums.shape[1] * {SLOTS // 2}",),
        block=256,
        requires=(
            f"sums.shape[0] == {PARTS} and sums.shape[2] == {SLOTS} and sums.shape[3] == {NUMBERS}",
            "c.shape[0] == c.shape[1] == 1",
        ),
        programmatic=True,
        spills=False,
    )
    def matmul_sum_of_parts(c: SliceMut[result, D4], sums: Slice[f32, D4], offsets: Slice[f32], w: Work) -> None:
        """Four elements per thread; parts are added in ascending order. `offsets` are read only with a bias."""
        of = as_vectors(sums, 4)
        tile, slot, t = u32(block_idx.x) // (SLOTS // 2), u32(block_idx.x) % (SLOTS // 2) * 2 + u32(thread_idx.x // 128), thread_idx.x % 128
        down, across = u32((c.shape[2] + ROWS - 1) // ROWS), u32((c.shape[3] + COLUMNS - 1) // COLUMNS)
        _, _, y, x = place(tile, down, across, 1, 8)
        row, column = place_of(t, slot, FOURS, y * ROWS, x * COLUMNS)
        wait_for_dependencies()
        launch_dependents()
        if tile < of.shape[1] and slot < of.shape[2] and t < of.shape[3] and of.shape[0] == PARTS:
            more = local_array((PARTS, 4), f32)
            for part in unroll(PARTS):
                v = of[part, tile, slot, t]
                more[part, 0], more[part, 1], more[part, 2], more[part, 3] = v.x, v.y, v.z, v.w
            for part in unroll(1, PARTS):
                for i in unroll(4):
                    more[0, i] += more[part, i]
            write(c, 0, 0, row, column, more[0, 0], more[0, 1], w, offsets)
            write(c, 0, 0, row + 8, column, more[0, 2], more[0, 3], w, offsets)

    return matmul_sum_of_parts
