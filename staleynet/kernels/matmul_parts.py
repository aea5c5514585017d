"""Matrix products with a small C and a long k on Hopper's tensor cores: sums of parts along k, and what adds them in ascending order.

C has fewer tiles than the device has multiprocessors, so each block sums up one part of one tile and leaves the sums as they lie in its registers; a thread of
the second kernel reads the same four numbers of all parts at once. Both kernels need so few registers that blocks of the second one wait on their
multiprocessor for the first one's end. (The steps that led here: docs/matmul.md.)
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
    elect_one,
    f32,
    f32x4,
    fence_barrier_init,
    is_first_thread,
    kernel,
    launch_dependents,
    local_array,
    prefetch_map,
    shared_array,
    shared_barriers,
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
from staleynet.kernels.matmul_epilogue import writing
from staleynet.kernels.matmul_hopper import Work
from staleynet.kernels.matmul_ring import ROW_BYTES, ring
from staleynet.kernels.tile_order import place

NUMBERS = 512
"""Sums of a slot: four neighbouring ones of each of the 128 threads of a warpgroup."""
GROUP = 8
"""Tiles below each other that follow each other."""


@dataclass(frozen=True)
class Schedule:
    """How a product in parts is laid out on the device. It changes no bit."""

    rows: int
    """Rows of a tile of C: 64 or 128, for one or two warpgroups that multiply."""
    columns: int
    """Columns of a tile of C, a multiple of 64 up to 256."""
    stages: int
    """Tiles of A and of B that are in shared memory or on their way."""

    @property
    def slots(self) -> int:
        """Slots of the sums of a tile."""
        return self.rows // 64 * self.columns // 8


def sums_of_parts(element: Any, schedule: Schedule, parts: int, *, a_across: bool = False, b_across: bool = False) -> Kernel:
    """The kernel that sums up A B in `parts` parts along k: arrays of one matrix each, else as for `matmul_hopper.product`.

    All parts have the same number of stages, the last one less of k. The sums are an array (part, tile, slot, number).
    """
    ROWS, COLUMNS, STAGES, PARTS, SLOTS = schedule.rows, schedule.columns, schedule.stages, parts, schedule.slots
    GROUPS, SUMS, FOURS = ROWS // 64, COLUMNS // 2, COLUMNS // 8
    tiles = ring(element, ROWS, COLUMNS, STAGES, a_across=a_across, b_across=b_across)
    DEPTH, A_SHAPE, B_SHAPE, load, multiply = tiles.depth, tiles.left, tiles.right, tiles.load, tiles.multiply
    inner_a, inner_b = 2 + int(not a_across), 2 + int(not b_across)

    @kernel(
        grid=("w.blocks",),
        block=128 * (GROUPS + 1),
        requires=(
            f"a.shape[{inner_a}] == b.shape[{inner_b}]",
            "a.shape[0] == a.shape[1] == b.shape[0] == b.shape[1] == 1",
            f"sums.shape[1] == ((a.shape[{5 - inner_a}] + {ROWS - 1}) // {ROWS}) * ((b.shape[{5 - inner_b}] + {COLUMNS - 1}) // {COLUMNS})",
            f"sums.shape[0] == {PARTS} and sums.shape[2] == {SLOTS} and sums.shape[3] == {NUMBERS}",
            "w.blocks == sums.shape[0] * sums.shape[1]",
        ),
        programmatic=True,
        spills=False,
    )
    def matmul_parts(sums: SliceMut[f32, D4], a: TensorMap[element, D4], b: TensorMap[element, D4], w: Work) -> None:
        """A block per part of a tile; the tiles of a part follow each other."""
        left = shared_array(A_SHAPE, element, swizzle=ROW_BYTES)
        right = shared_array(B_SHAPE, element, swizzle=ROW_BYTES)
        full, empty = shared_barriers(STAGES), shared_barriers(STAGES)
        if is_first_thread():
            for s in unroll(STAGES):
                barrier_init(full, s, 1)
                barrier_init(empty, s, GROUPS)
            fence_barrier_init()
        sync_threads()
        me = warp_group_index()
        steps = (a.shape[inner_a] + PARTS * DEPTH - 1) // (PARTS * DEPTH)
        across = u32((b.shape[5 - inner_b] + COLUMNS - 1) // COLUMNS)
        down = u32((a.shape[5 - inner_a] + ROWS - 1) // ROWS)
        part, tile = u32(block_idx.x) // (down * across), u32(block_idx.x) % (down * across)
        _, _, y, x = place(tile, down, across, 1, GROUP)
        wait_for_dependencies()
        if me == GROUPS:
            if warp_index() == 4 * GROUPS and elect_one():
                prefetch_map(a)
                prefetch_map(b)
                for step in range(steps):
                    barrier_wait(empty, step % STAGES, step // STAGES + 1)
                    load(left, right, a, b, full, step % STAGES, 0, 0, y * ROWS, x * COLUMNS, (part * steps + step) * DEPTH)
                launch_dependents()
        else:
            mine = local_array(SUMS, f32)
            for step in range(steps):
                s = u32(step) % STAGES
                barrier_wait(full, s, step // STAGES)
                wgmma_fence()
                multiply(mine, left, s, right, s, 64 * me)
                wgmma_commit()
                wgmma_wait(1)
                if step >= 1 and thread_idx.x % 128 == 0:
                    barrier_arrive(empty, (step - 1) % STAGES)
            wgmma_wait(0)
            to = as_vectors(sums, 4)
            if part < to.shape[0] and tile < to.shape[1]:
                for i in unroll(FOURS):
                    slot, t = me * FOURS + i, thread_idx.x % 128
                    if slot < to.shape[2] and t < to.shape[3]:
                        to[part, tile, slot, t] = f32x4(mine[4 * i], mine[4 * i + 1], mine[4 * i + 2], mine[4 * i + 3])

    return matmul_parts


def sum_of_parts(result: Any, schedule: Schedule, parts: int, *, bias: bool = False, gelu: bool = False, pairs: bool = False) -> Kernel:
    """The kernel C <- act(alpha (sum of parts) + bias) (+ C) of sums as `sums_of_parts` leaves them with the same schedule; bias and GELU are optional.

    With `pairs` rows of C consist of whole pairs of elements and begin at multiples of them.
    """
    ROWS, COLUMNS, PARTS, SLOTS = schedule.rows, schedule.columns, parts, schedule.slots
    FOURS, PER_BLOCK = COLUMNS // 8, 2
    write = writing(result, bias=bias, gelu=gelu, pairs=pairs)

    @kernel(
        grid=(f"sums.shape[1] * {SLOTS // PER_BLOCK}",),
        block=128 * PER_BLOCK,
        requires=(
            f"sums.shape[0] == {PARTS} and sums.shape[2] == {SLOTS} and sums.shape[3] == {NUMBERS}",
            f"sums.shape[1] == ((c.shape[2] + {ROWS - 1}) // {ROWS}) * ((c.shape[3] + {COLUMNS - 1}) // {COLUMNS})",
            "c.shape[0] == c.shape[1] == 1",
        ),
        programmatic=True,
        spills=False,
    )
    def matmul_sum_of_parts(c: SliceMut[result, D4], sums: Slice[f32, D4], offsets: Slice[f32], w: Work) -> None:
        """Four elements per thread, parts added in ascending order. `offsets` are read only with a bias."""
        tile = u32(block_idx.x) // (SLOTS // PER_BLOCK)
        slot, t = u32(block_idx.x) % (SLOTS // PER_BLOCK) * PER_BLOCK + u32(thread_idx.x // 128), thread_idx.x % 128
        down, across = u32((c.shape[2] + ROWS - 1) // ROWS), u32((c.shape[3] + COLUMNS - 1) // COLUMNS)
        _, _, y, x = place(tile, down, across, 1, GROUP)
        row = y * ROWS + slot // FOURS * 64 + u32(t // 32 * 16 + t % 32 // 4)  # as wgmma distributes sums among threads
        column = x * COLUMNS + slot % FOURS * 8 + u32(t % 4 * 2)
        of = as_vectors(sums, 4)
        wait_for_dependencies()
        launch_dependents()
        if of.shape[0] == PARTS and tile < of.shape[1] and slot < of.shape[2] and t < of.shape[3]:
            every = local_array((PARTS, 4), f32)  # all reads are under way before the first addition
            for part in unroll(PARTS):
                four = of[part, tile, slot, t]
                every[part, 0], every[part, 1], every[part, 2], every[part, 3] = four.x, four.y, four.z, four.w
            for part in unroll(1, PARTS):
                for i in unroll(4):
                    every[0, i] += every[part, i]
            write(c, row, column, every[0, 0], every[0, 1], w.alpha, w.accumulate, offsets)
            write(c, row + 8, column, every[0, 2], every[0, 3], w.alpha, w.accumulate, offsets)

    return matmul_sum_of_parts
