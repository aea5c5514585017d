"""The matrix product on Hopper's tensor cores where k is short: a block keeps its rows of A, all of k, in shared memory, and goes through tiles of them.

So of two operands only B is brought for each tile but the first one. The rest is as in `matmul_hopper.py` with tiles in turn: one warp loads, two warpgroups
have tiles of their own, and one of them multiplies while the other one stores.
"""

from dataclasses import dataclass
from typing import Any

from kdsl import (
    D4,
    Kernel,
    Slice,
    TensorMap,
    barrier_arrive,
    barrier_arrive_expect,
    barrier_arrive_named,
    barrier_init,
    barrier_sync,
    barrier_wait,
    block_idx,
    commit_stores,
    decrease_registers,
    elect_one,
    f32,
    fence_async_proxy,
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
from staleynet.kernels.matmul_epilogue import storing
from staleynet.kernels.matmul_hopper import GROUPS, Work
from staleynet.kernels.matmul_ring import ROW_BYTES, ring, set_up

ROWS, COLUMNS = 128, 128
"""Of a tile of C."""
STEPS = 8
"""Stages of k, of 128 bytes of each row, that find room beside four stages of B."""
ROOM = 12
"""Stages of A and of B together."""


@dataclass(frozen=True)
class Schedule:
    """The only one. It changes no bit."""

    rows: int = ROWS
    """Rows of a tile of C."""
    columns: int = COLUMNS
    """Columns of a tile of C."""
    in_turn: bool = True
    """Each warpgroup has tiles of its own."""


def blocks_of(m: int, n: int, multiprocessors: int) -> int:
    """The blocks for a C of m x n: for each row of tiles as many as the multiprocessors have room for, of two tiles or more. 0 where they would take more
    rounds of tiles than blocks, one on each multiprocessor, that share all tiles evenly."""
    down, across = -(-m // ROWS), -(-n // COLUMNS)
    shares = min(across // 2, max(multiprocessors // down, 1))
    if shares == 0:
        return 0
    rounds = -(-down * shares // multiprocessors) * -(-across // shares)
    return down * shares if rounds <= -(-down * across // multiprocessors) else 0


def product(
    element: Any, result: Any, steps: int, *, a_across: bool = False, b_across: bool = False, bias: bool = False, gelu: bool = False,
    c_passes: bool = False,
) -> Kernel:  # fmt: skip
    """The kernel C <- act(alpha A B + bias) (+ C), where a bias and GELU are optional, for operands of `element` (bf16, f16) with `steps` stages of k, at most
    `STEPS`, and results of `result` (bf16, f16, f32).

    All arrays have four dimensions, of which the first two are 1. A is given as m x k, or with `a_across` as its transpose k x m, B as its transpose n x k, or
    with `b_across` as k x n; rows contiguous. A C that `passes` takes so much of the level-2 cache that it makes room there first.
    """
    STAGES, SUMS = ROOM - steps, COLUMNS // 2
    WIDE = ROW_BYTES // result.itemsize
    SHIFTS = COLUMNS // 4 if bias else 1
    tiles = ring(element, ROWS, COLUMNS, STAGES, a_across=a_across, b_across=b_across, held=steps)
    DEPTH, A_SHAPE, B_SHAPE = tiles.depth, tiles.left, tiles.right
    load_left, load_right, multiply = tiles.load_left, tiles.load_right, tiles.multiply
    INNER, inner_b = 2 + int(not a_across), 2 + int(not b_across)
    put, send = storing(result, bias=bias, gelu=gelu, passes=c_passes)

    @kernel(
        grid=("w.blocks",),
        block=128 * (GROUPS + 1),
        requires=(
            f"a.shape[{INNER}] == b.shape[{inner_b}]",
            f"a.shape[{INNER}] <= {steps * DEPTH}",
            f"c.shape[2] == a.shape[{5 - INNER}]",
            f"c.shape[3] == b.shape[{5 - inner_b}]",
            "c.shape[0] == a.shape[0] == b.shape[0] == 1",
            "c.shape[1] == a.shape[1] == b.shape[1] == 1",
        ),
        programmatic=True,
        spills=False,
    )
    def matmul_held(c: TensorMap[result, D4], a: TensorMap[element, D4], b: TensorMap[element, D4], offsets: Slice[f32], w: Work) -> None:
        """C <- alpha A B (+ C), tile after tile of a row of them, which blocks share evenly; `offsets` are read only with a bias."""
        left = shared_array(A_SHAPE, element, swizzle=ROW_BYTES)
        right = shared_array(B_SHAPE, element, swizzle=ROW_BYTES)
        out = shared_array((GROUPS, 1, ROWS, WIDE), result, swizzle=ROW_BYTES)
        held, full, empty = shared_barriers(steps), shared_barriers(STAGES), shared_barriers(STAGES)
        if is_first_thread():
            for s in unroll(steps):
                barrier_init(held, s, 1)
        set_up(full, empty, STAGES, 1)
        me = warp_group_index()
        down, across = u32((c.shape[2] + ROWS - 1) // ROWS), u32((c.shape[3] + COLUMNS - 1) // COLUMNS)
        shares = max(w.blocks // down, u32(1))
        each = (across + shares - 1) // shares
        y, begin = u32(block_idx.x) // shares, u32(block_idx.x) % shares * each
        end = min(across, begin + each)
        depth = (a.shape[INNER] + DEPTH - 1) // DEPTH  # `steps`; were it a constant, LLVM would take short loops apart, and ptxas add waits
        wait_for_dependencies()
        if me == GROUPS:
            decrease_registers(40)
            if warp_index() == 4 * GROUPS and elect_one():
                prefetch_map(a)
                prefetch_map(b)
                k = 0
                for x in range(begin, end):
                    for step in range(depth):
                        s = k % STAGES
                        barrier_wait(empty, s, k // STAGES + 1)
                        if x == begin:
                            h = step % steps  # which it is
                            barrier_arrive_expect(held, h, ROWS * ROW_BYTES)
                            load_left(left, a, held, h, 0, 0, y * ROWS, step * DEPTH)
                        barrier_arrive_expect(full, s, COLUMNS * ROW_BYTES)
                        load_right(right, b, full, s, 0, 0, u32(x * COLUMNS), step * DEPTH)
                        k += 1
                launch_dependents()
        else:
            increase_registers(232)
            k = me * depth
            if me == 1:
                barrier_arrive_named(1, 256)  # the first turn is that of warpgroup 0
            for x in range(begin + u32(me), end, u32(GROUPS)):
                upper, lower = local_array(SUMS, f32), local_array(SUMS, f32)
                shift = local_array(SHIFTS, f32)
                if bias:
                    for i in unroll(SHIFTS):
                        its_column = i64(x * COLUMNS + 2 * u32(lane_index() % 4) + 8 * (i // 2) + i % 2)
                        shift[i] = offsets[its_column] if its_column < len(offsets) else 0.0
                barrier_sync(1 + me, 256)
                first = shuffle(u32(k), 0)  # so that the assembler knows that all lanes have the same stage
                for step in range(depth):
                    h, s, turn = u32(step) % steps, (first + u32(step)) % STAGES, (first + u32(step)) // STAGES
                    if x < begin + u32(GROUPS):
                        barrier_wait(held, h, 0)
                    barrier_wait(full, s, turn)
                    wgmma_fence()
                    multiply(upper, left, h, right, s, 0)
                    multiply(lower, left, h, right, s, 64)
                    wgmma_commit()
                    wgmma_wait(1)
                    if step >= 1 and thread_idx.x % 128 == 0:
                        barrier_arrive(empty, (first + u32(step) - 1) % STAGES)
                barrier_arrive_named(2 - me, 256)  # its first products queue behind this tile's last ones
                wgmma_wait(0)
                if thread_idx.x % 128 == 0:
                    barrier_arrive(empty, (first + u32(depth) - 1) % STAGES)
                k += GROUPS * depth
                for piece in unroll(COLUMNS // WIDE):
                    if thread_idx.x % 128 == 0:
                        wait_stores()
                    barrier_sync(3 + me, 128)
                    put(out, me, 0, upper, piece, 0, w.alpha, shift)
                    put(out, me, 0, lower, piece, 1, w.alpha, shift)
                    fence_async_proxy()
                    barrier_sync(3 + me, 128)
                    if thread_idx.x % 128 == 0:
                        send(c, 0, 0, y * ROWS, u32(x * COLUMNS) + WIDE * piece, out, me, 0, w.accumulate)
                        commit_stores()
            if thread_idx.x % 128 == 0:
                wait_stores()

    return matmul_held
