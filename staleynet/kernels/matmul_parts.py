"""Matrix products with a small C and a long k on Hopper's tensor cores: the blocks of a cluster sum up parts along k of one tile of C, and add them.

Each block leaves its sums in its shared memory; then each reads its share of the tile from all of them, adds the parts in ascending order, and writes that
share of C. So one launch does what else takes two, and the parts never leave the multiprocessors. (The steps that led here: docs/matmul.md.)
"""

from dataclasses import dataclass
from typing import Any

from kdsl import (
    D4,
    Kernel,
    Slice,
    SliceMut,
    TensorMap,
    barrier_arrive,
    barrier_init,
    barrier_wait,
    cluster_rank,
    elect_one,
    f32,
    f32x4,
    fence_barrier_init,
    is_first_thread,
    kernel,
    lane_index,
    launch_dependents,
    local_array,
    prefetch_map,
    remote,
    shared_array,
    shared_barriers,
    shuffle,
    sync_cluster,
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
from kdsl import block_idx
from staleynet.kernels.matmul_hopper import GROUPS, Work, ring, written
from staleynet.kernels.tile_order import place


@dataclass(frozen=True)
class Schedule:
    """How a product in parts is laid out on the device."""

    rows: int
    """Rows of a tile of C: 64 or 128."""
    columns: int
    """Columns of a tile of C, a multiple of 64 up to 256."""
    stages: int
    """Tiles of A and of B that are in shared memory or on their way."""
    rounds: int = 1
    """In how many pieces the sums are exchanged, so that they fit beside the tiles."""
    group: int = 8
    """Tiles below each other that are computed before the next column of tiles."""
    probe: str = ""
    """Experiment."""


def product(
    element: Any, result: Any, schedule: Schedule, parts: int, *, a_across: bool = False, b_across: bool = False, bias: bool = False, gelu: bool = False,
    pairs: bool = False,
) -> Kernel:  # fmt: skip
    """The kernel C <- alpha A B (+ C), or C <- GELU(alpha A B + bias), with sums in `parts` parts along k.

    Operands as for `matmul_hopper.product`, but A and B in parts: their first dimension counts the parts. C has one matrix; with `pairs` its rows consist of
    whole pairs of elements, and begin at multiples of them. Two warpgroups share a tile of 128 rows; of one of 64 rows each has a part along k of its own.
    """
    ROWS, COLUMNS, STAGES, ROUNDS, GROUP = schedule.rows, schedule.columns, schedule.stages, schedule.rounds, schedule.group
    APART = ROWS == 64
    BLOCKS = parts // GROUPS if APART else parts
    STRIDE = GROUPS if APART else 1
    tiles = ring(element, ROWS, COLUMNS, STAGES, a_across, b_across)
    DEPTH, A_SHAPE, B_SHAPE, load, multiply = tiles.depth, tiles.left, tiles.right, tiles.load, tiles.multiply
    SUMS = COLUMNS // 2
    EXCHANGE, OWN = schedule.probe != "none", schedule.probe == "own"
    FOURS = SUMS // 4
    AT_ONCE = FOURS // ROUNDS
    SHARE = -(-AT_ONCE // (BLOCKS * STRIDE))
    inner_a, inner_b = 2 + int(not a_across), 2 + int(not b_across)
    write = written(result, bias=bias, gelu=gelu, pairs=pairs)

    @kernel(
        grid=("w.blocks",),
        block=128 * (GROUPS + 1),
        cluster=BLOCKS,
        requires=(
            f"a.shape[{inner_a}] == b.shape[{inner_b}]",
            f"c.shape[2] == a.shape[{5 - inner_a}]",
            f"c.shape[3] == b.shape[{5 - inner_b}]",
            f"a.shape[0] == {parts} and b.shape[0] == {parts}",
            "c.shape[0] == a.shape[1] == b.shape[1] == 1",
        ),
        programmatic=True,
        spills=False,
    )
    def matmul_parts(c: SliceMut[result, D4], a: TensorMap[element, D4], b: TensorMap[element, D4], offsets: Slice[f32], w: Work) -> None:
        """C <- alpha A B (+ C), a tile per cluster; `offsets` are read only with a bias."""
        left = shared_array(A_SHAPE, element, swizzle=128)
        right = shared_array(B_SHAPE, element, swizzle=128)
        partial = shared_array((GROUPS, AT_ONCE, 128), f32x4)
        full = shared_barriers(STAGES)
        empty = shared_barriers(STAGES)
        me = warp_group_index()
        rank = u32(cluster_rank())
        if is_first_thread():
            for s in unroll(STAGES):
                barrier_init(full, s, 1)
                barrier_init(empty, s, 1 if APART else GROUPS)
            fence_barrier_init()
        sync_cluster()
        steps = (a.shape[inner_a] + DEPTH - 1) // DEPTH
        across = u32((c.shape[3] + COLUMNS - 1) // COLUMNS)
        down = u32((c.shape[2] + ROWS - 1) // ROWS)
        _, _, y, x = place(u32(block_idx.x) // BLOCKS, down, across, 1, GROUP)
        sums = local_array(SUMS, f32)
        wait_for_dependencies()
        if me == GROUPS:
            if warp_index() == 4 * GROUPS and elect_one():
                prefetch_map(a)
                prefetch_map(b)
                k = 0
                for step in range(steps):
                    for own in unroll(STRIDE):
                        s = k % STAGES
                        barrier_wait(empty, s, k // STAGES + 1)
                        load(left, right, a, b, full, s, u32(rank * STRIDE + own), 0, y * ROWS, x * COLUMNS, step * DEPTH)
                        k += 1
                launch_dependents()
        else:
            first = shuffle(u32(me if APART else 0), 0)  # so that the assembler knows that all lanes have the same stage
            row = 0 if APART else 64 * me
            for step in range(steps):
                k = first + STRIDE * u32(step)
                barrier_wait(full, k % STAGES, k // STAGES)
                wgmma_fence()
                multiply(sums, left, right, k % STAGES, row)
                wgmma_commit()
                wgmma_wait(1)
                if step >= 1 and thread_idx.x % 128 == 0:
                    barrier_arrive(empty, (k - STRIDE) % STAGES)
            wgmma_wait(0)
        group, t = (me if me < GROUPS else 0), thread_idx.x % 128
        top = y * ROWS + (0 if APART else 64 * u32(group)) + 16 * u32(t // 32) + u32(lane_index()) // 4
        side = x * COLUMNS + 2 * (u32(lane_index()) % 4)
        for turn in unroll(ROUNDS):
            if me < GROUPS:
                for j in unroll(AT_ONCE):
                    i = 4 * (AT_ONCE * turn + j)
                    partial[group, j, t] = f32x4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3])
            sync_cluster()
            if me < GROUPS and EXCHANGE:
                for mine in unroll(SHARE):
                    j = u32(SHARE * STRIDE) * rank + STRIDE * mine + (u32(group) if APART else 0)
                    if j < AT_ONCE:
                        total = f32x4(0.0)
                        for part in unroll(parts):
                            more = remote(partial, rank if OWN else part // STRIDE)[part % STRIDE if APART else group, j, t]
                            total = more if part == 0 else total + more  # type: ignore[assignment]
                        column = u32(side + 8 * (j + AT_ONCE * turn))
                        write(c, 0, 0, top, column, total.x, total.y, w, offsets)
                        write(c, 0, 0, top + 8, column, total.z, total.w, w, offsets)
            sync_cluster()

    return matmul_parts
