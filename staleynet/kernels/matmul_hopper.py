"""The matrix product on Hopper's tensor cores: `wgmma` fed by the copy engine, for bf16, f16 and tf32 operands with f32 sums.

One warp of a block loads tiles of A and B by tensor maps into a ring of stages in shared memory; two warpgroups of 128 threads multiply them. Blocks stay on
their multiprocessor and go from tile to tile, and results leave through a swizzled buffer and the copy engine, so that the next tile's loads and products go
on meanwhile. (The steps that led here, and what each gained: docs/matmul.md.)
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
    barrier_arrive_named,
    barrier_sync,
    barrier_wait,
    block_idx,
    commit_stores,
    decrease_registers,
    elect_one,
    f32,
    fence_async_proxy,
    grid_dim,
    i64,
    increase_registers,
    kernel,
    lane_index,
    local_array,
    shared_array,
    shared_barriers,
    shuffle,
    struct,
    thread_idx,
    u32,
    unroll,
    wait_for_dependencies,
    wait_stores,
    warp_group_index,
    warp_index,
    wgmma_commit,
    wgmma_fence,
    wgmma_wait,
)
from staleynet.kernels.matmul_epilogue import leaving, storing
from staleynet.kernels.matmul_ring import ROW_BYTES, bringing, ring, set_up
from staleynet.kernels.tile_order import order_of, placed

GROUPS = 2
"""Warpgroups that multiply; a third one loads."""


@dataclass(frozen=True)
class Schedule:
    """How a product is laid out on the device. It changes no bit."""

    rows: int
    """Rows of a tile of C: 64 or 128."""
    columns: int
    """Columns of a tile of C, a multiple of 64 up to 256."""
    stages: int
    """Tiles of A and of B that are in shared memory or on their way."""
    in_turn: bool
    """Whether each warpgroup has tiles of its own, one multiplying while the other stores (ping-pong); otherwise both share one tile, half of its rows each."""
    group: int = 8
    """Tiles below each other that are computed before the next column of tiles, so that their rows of A and columns of B stay in the level-2 cache."""
    buffers: int = 1
    """Buffers of a warpgroup for results on their way out."""
    ahead: int = 0
    """Stages whose products a warpgroup leaves under way while it starts those of the next one: 0 or 1."""


@struct
class Work:
    """What a launch has to do."""

    blocks: u32
    """Blocks that are launched, at most one per multiprocessor."""
    alpha: f32
    """Factor of the product."""
    accumulate: u32
    """1 to add the rounded result to C, 0 to overwrite C."""


def product(
    element: Any, result: Any, schedule: Schedule, *, a_across: bool = False, b_across: bool = False, bias: bool = False, gelu: bool = False,
    mapped: bool = True, pairs: bool = False, a_passes: bool = False, c_passes: bool = False,
) -> Kernel:  # fmt: skip
    """The kernel C <- act(alpha A B + bias) (+ C), where a bias and GELU are optional, for batches of operands of `element` (bf16, f16, or f32 for tf32) and
    results of `result` (bf16, f16, f32).

    All arrays have four dimensions, two of the batch and two of the matrix. A is given as m x k, or with `a_across` as its transpose k x m, B as its
    transpose n x k, or with `b_across` as k x n; rows contiguous. Of tf32 no operand lies across. A C whose rows the copy engine cannot write is not `mapped`,
    and never accumulated; with `pairs` its rows consist of whole pairs of elements, and begin at multiples of them. What `passes` (an A that is read once, a
    C) is larger than the level-2 cache, and makes room in it first.
    """
    ROWS, COLUMNS, STAGES, TURNS, GROUP, BUFFERS, AHEAD = (
        schedule.rows, schedule.columns, schedule.stages, schedule.in_turn, schedule.group, schedule.buffers, schedule.ahead,
    )  # fmt: skip
    WIDE = ROW_BYTES // result.itemsize
    PIECES = COLUMNS // WIDE
    OWN_ROWS = ROWS if TURNS else ROWS // GROUPS
    HALVES = OWN_ROWS // 64
    SUMS = COLUMNS // 2
    SHIFTS = COLUMNS // 4 if bias else 1
    tiles = ring(element, ROWS, COLUMNS, STAGES, a_across=a_across, b_across=b_across, a_passes=a_passes)
    DEPTH, A_SHAPE, B_SHAPE, multiply, bring = tiles.depth, tiles.left, tiles.right, tiles.multiply, bringing(tiles, ROWS, COLUMNS)
    inner_a, inner_b = 2 + int(not a_across), 2 + int(not b_across)
    put, send = storing(result, bias=bias, gelu=gelu, passes=c_passes)
    leave = leaving(result, OWN_ROWS, pairs=pairs and result is not f32)
    OUT: Any = TensorMap[result, D4] if mapped else SliceMut[result, D4]

    @kernel(
        grid=("w.blocks",),
        block=128 * (GROUPS + 1),
        requires=(
            f"a.shape[{inner_a}] == b.shape[{inner_b}]",
            f"c.shape[2] == a.shape[{5 - inner_a}]",
            f"c.shape[3] == b.shape[{5 - inner_b}]",
            "c.shape[0] == a.shape[0] == b.shape[0]",
            "c.shape[1] == a.shape[1] == b.shape[1]",
        ),
        programmatic=True,
        spills=False,
    )
    def matmul_hopper(c: OUT, a: TensorMap[element, D4], b: TensorMap[element, D4], offsets: Slice[f32], w: Work) -> None:
        """C <- alpha A B (+ C), tile after tile; `offsets` are read only with a bias."""
        left = shared_array(A_SHAPE, element, swizzle=ROW_BYTES)
        right = shared_array(B_SHAPE, element, swizzle=ROW_BYTES)
        out = shared_array((GROUPS, BUFFERS, OWN_ROWS, WIDE), result, swizzle=ROW_BYTES)
        full = shared_barriers(STAGES)
        empty = shared_barriers(STAGES)
        set_up(full, empty, STAGES, 1 if TURNS else GROUPS)
        me = warp_group_index()
        steps = (a.shape[inner_a] + DEPTH - 1) // DEPTH
        order = order_of(c.shape[0], c.shape[1], c.shape[2], c.shape[3], ROWS, COLUMNS, GROUP)
        wait_for_dependencies()
        if me == GROUPS:
            decrease_registers(40)
            if warp_index() == 4 * GROUPS and elect_one():
                bring(left, right, a, b, full, empty, order, steps)
        else:
            increase_registers(232)
            stride = GROUPS if TURNS else 1
            k = me * steps if TURNS else 0
            if TURNS and me == 1:
                barrier_arrive_named(1, 256)  # the first turn is that of warpgroup 0
            for tile in range(block_idx.x + (me * grid_dim.x if TURNS else 0), order.count, stride * grid_dim.x):
                p, q, y, x = placed(order, tile)
                upper, lower = local_array(SUMS, f32), local_array(SUMS if HALVES == 2 else 1, f32)
                shift = local_array(SHIFTS, f32)
                if bias:
                    for i in unroll(SHIFTS):
                        its_column = i64(x * COLUMNS + 2 * u32(lane_index() % 4) + 8 * (i // 2) + i % 2)
                        shift[i] = offsets[its_column] if its_column < len(offsets) else 0.0
                if TURNS:
                    barrier_sync(1 + me, 256)
                first = shuffle(u32(k), 0)  # so that the assembler knows that all lanes have the same stage
                for step in range(steps):
                    s, turn = (first + u32(step)) % STAGES, (first + u32(step)) // STAGES
                    barrier_wait(full, s, turn)
                    wgmma_fence()
                    if TURNS:
                        multiply(upper, left, s, right, s, 0)
                        if HALVES == 2:
                            multiply(lower, left, s, right, s, 64)
                    else:
                        multiply(upper, left, s, right, s, OWN_ROWS * me)
                    wgmma_commit()
                    wgmma_wait(AHEAD)
                    if step >= AHEAD and thread_idx.x % 128 == 0:
                        barrier_arrive(empty, (first + u32(step) - AHEAD) % STAGES)
                if TURNS:
                    barrier_arrive_named(2 - me, 256)  # its first products queue behind this tile's last ones
                if AHEAD == 1:
                    wgmma_wait(0)
                    if thread_idx.x % 128 == 0:
                        barrier_arrive(empty, (first + u32(steps) - 1) % STAGES)
                k += stride * steps
                top, side = y * ROWS + (0 if TURNS else OWN_ROWS * u32(me)), x * COLUMNS
                if not mapped:
                    for piece in unroll(PIECES):
                        barrier_sync(3 + me, 128)
                        put(out, me, piece % BUFFERS, upper, piece, 0, w.alpha, shift)
                        if HALVES == 2:
                            put(out, me, piece % BUFFERS, lower, piece, 1, w.alpha, shift)
                        barrier_sync(3 + me, 128)
                        leave(c, p, q, top, side + u32(WIDE * piece), out, me, piece % BUFFERS)
                elif BUFFERS == PIECES:
                    if thread_idx.x % 128 == 0:
                        wait_stores()
                    barrier_sync(3 + me, 128)
                    for piece in unroll(PIECES):
                        put(out, me, piece, upper, piece, 0, w.alpha, shift)
                        if HALVES == 2:
                            put(out, me, piece, lower, piece, 1, w.alpha, shift)
                    fence_async_proxy()
                    barrier_sync(3 + me, 128)
                    if thread_idx.x % 128 == 0:
                        for piece in unroll(PIECES):
                            send(c, p, q, top, side + WIDE * piece, out, me, piece, w.accumulate)
                        commit_stores()
                else:
                    for piece in unroll(PIECES):
                        if thread_idx.x % 128 == 0:
                            wait_stores(BUFFERS - 1)
                        barrier_sync(3 + me, 128)
                        put(out, me, piece % BUFFERS, upper, piece, 0, w.alpha, shift)
                        if HALVES == 2:
                            put(out, me, piece % BUFFERS, lower, piece, 1, w.alpha, shift)
                        fence_async_proxy()
                        barrier_sync(3 + me, 128)
                        if thread_idx.x % 128 == 0:
                            send(c, p, q, top, side + WIDE * piece, out, me, piece % BUFFERS, w.accumulate)
                            commit_stores()
            if thread_idx.x % 128 == 0:
                wait_stores()

    return matmul_hopper
