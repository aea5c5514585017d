"""The fp32 matrix product on the ordinary cores of any GPU: while a block multiplies the tiles of one step in shared memory, the next ones are on their way
into its registers.

In shared memory both operands lie with k across, so that a thread reads four neighbouring rows (or columns) at once; an operand whose rows run along k is
turned as it is put there. Sums run along k in ascending order, one fused multiply-add after the other: the bits are those of the naive kernel. Left out: the
copy engine (`matmul_wide.py`).
"""

from dataclasses import dataclass
from typing import Any

from kdsl import (
    D4,
    Kernel,
    Slice,
    SliceMut,
    as_vectors,
    block_idx,
    f32,
    f32x4,
    function,
    i64,
    inline_ptx,
    kernel,
    lane_index,
    launch_dependents,
    local_array,
    shared_array,
    sync_threads,
    thread_idx,
    u32,
    unroll,
    wait_for_dependencies,
    warp_index,
)
from staleynet.kernels.convert import Ending
from staleynet.kernels.matmul_tile import LANE_COLUMNS, LANE_ROWS, add_products, write_tile
from staleynet.kernels.tile_order import place_of, place_of_block


@function
def its_block() -> u32:
    return u32(block_idx.x)


@function
def its_thread() -> u32:
    return u32(thread_idx.x)


@function
def block_now() -> u32:
    """The block, read anew: what is computed from it is not kept in registers over the loop of products."""
    block: u32 = inline_ptx("mov.u32 {0}, %ctaid.x;", u32, (), memory=False, cpu=its_block)
    return block


@function
def thread_now() -> i64:
    """Likewise the thread."""
    thread: u32 = inline_ptx("mov.u32 {0}, %tid.x;", u32, (), memory=False, cpu=its_thread)
    return i64(thread % 1024)


SPREAD = 8
"""Vectors of four numbers over all banks of shared memory."""


@dataclass(frozen=True)
class Schedule:
    """How a product is laid out on the device. It changes no bit."""

    rows: int
    """Rows of a tile of C: 8, 16, ... times 4 per warp."""
    columns: int
    """Columns of a tile of C: 8, 16, ... times 4 per warp."""
    warp_rows: int
    """Warps along the rows."""
    warp_columns: int
    """Warps along the columns."""
    depth: int = 16
    """Steps of k per stage: 8, 16 or 32."""
    group: int = 8
    """Tiles below each other that are computed before the next column of tiles."""
    resident: int = 1
    """Blocks for which a multiprocessor shall have registers at a time."""

    def takes(self, across: tuple[bool, bool]) -> bool:
        """Whether it goes with the layouts of A and B: what is turned in shared memory is spread over 32 rows or columns."""
        return (across[0] or self.rows >= 4 * SPREAD) and (across[1] or self.columns >= 4 * SPREAD)

    @property
    def shared_bytes(self) -> int:
        """What a block takes of shared memory."""
        return (self.rows + self.columns) * self.depth * 4 * 2


def product(schedule: Schedule, *, a_across: bool, b_across: bool, each: int = 4, rest: bool = True, early: bool = False) -> Kernel:
    """The kernel C <- alpha A B (+ C) for batches; all arrays have four dimensions, two of the batch and two of the matrix.

    A is given as m x k, or with `a_across` as its transpose k x m, B as its transpose n x k, or with `b_across` as k x n; rows contiguous. Those of an operand
    with k across begin at multiples of 16 bytes. `each` columns of C are written at once: 1, or 2 or 4 if its rows consist of whole vectors of so many. Without
    `rest`, k is a multiple of the depth of a stage. `early` lets blocks begin before the launch in front has ended, on GPUs from compute capability 9.0 on.
    """
    if not schedule.takes((a_across, b_across)):
        raise ValueError(f"tiles of {schedule.rows} x {schedule.columns} are too small to be turned")
    ROWS, COLUMNS, DEPTH, GROUP = schedule.rows, schedule.columns, schedule.depth, schedule.group
    WARP_ROWS, WARP_COLUMNS = schedule.warp_rows, schedule.warp_columns
    THREADS = 32 * WARP_ROWS * WARP_COLUMNS
    CHUNKS = DEPTH // 4
    SHORT = schedule.resident > 1
    UP = ROWS // WARP_ROWS // LANE_ROWS // 4  # vectors of rows of a thread
    SIDE = COLUMNS // WARP_COLUMNS // LANE_COLUMNS // 4
    inner_a, inner_b = 2 + int(not a_across), 2 + int(not b_across)

    @function
    def place_of_thread(warp: i64, lane: i64) -> tuple[i64, i64]:
        """The first vectors of a thread's rows and columns in the tile."""
        row = warp // WARP_COLUMNS * (ROWS // WARP_ROWS // 4) + lane // LANE_COLUMNS
        return row, warp % WARP_COLUMNS * (COLUMNS // WARP_COLUMNS // 4) + lane % LANE_COLUMNS

    @function
    def load(held: Any, fours: Any, p: i64, q: i64, first: i64, k: i64, extent: i64, across: bool) -> None:
        """Read the thread's share of the next tile of an operand, `extent` rows (or columns) from `first` on. What lies outside of the matrix is not used, so
        any number will do."""
        t = thread_idx.x
        for i in unroll(extent * CHUNKS // THREADS):
            unit = t + i * THREADS
            if across:
                line, place = k + unit // (extent // 4), first // 4 + unit % (extent // 4)
            else:
                line, place = first + unit // CHUNKS, k // 4 + unit % CHUNKS
            if rest or not across:
                line = min(line, fours.shape[2] - 1)
            if rest or across:
                place = min(place, fours.shape[3] - 1)
            w = fours.unchecked[p, q, line, place]  # inside since both are less than the extents
            for e in unroll(4):
                held[i, e] = w[e]

    @function
    def put(tile: Any, tiles: Any, s: i64, held: Any, extent: i64, across: bool) -> None:
        """Write it to shared memory with k across. If it is turned, vectors change places so that all banks are written at once."""
        t = thread_idx.x
        for i in unroll(extent * CHUNKS // THREADS):
            unit = t + i * THREADS
            if across:
                tiles[s, unit // (extent // 4), unit % (extent // 4)] = f32x4(held[i, 0], held[i, 1], held[i, 2], held[i, 3])
            else:
                chunk, vector, within = t % CHUNKS, t // CHUNKS // 4 + i * (THREADS // CHUNKS // 4), t // CHUNKS % 4
                for e in unroll(4):
                    tile[s, 4 * chunk + e, 4 * (vector ^ chunk * (SPREAD // CHUNKS)) + within] = held[i, e]

    @function
    def fetch(u: Any, v: Any, lefts: Any, rights: Any, s: i64, k: i64, my_row: i64, my_column: i64) -> None:
        """Read the thread's rows and columns at depth k of a stage."""
        for i in unroll(UP):
            w = lefts[s, k, (my_row if a_across else my_row ^ k // 4 * (SPREAD // CHUNKS)) + LANE_ROWS * i]
            for e in unroll(4):
                u[4 * i + e] = w[e]
        for j in unroll(SIDE):
            w = rights[s, k, my_column + LANE_COLUMNS * j if b_across else (my_column + LANE_COLUMNS * j) ^ k // 4 * (SPREAD // CHUNKS)]
            for e in unroll(4):
                v[4 * j + e] = w[e]

    @kernel(
        grid=(f"((c.shape[2] + {ROWS - 1}) // {ROWS}) * ((c.shape[3] + {COLUMNS - 1}) // {COLUMNS}) * c.shape[0] * c.shape[1]",),
        block=THREADS,
        requires=(
            f"a.shape[{inner_a}] == b.shape[{inner_b}]",
            # of rows that run along k, and of those across it, whole vectors of four are read
            "c.shape[2] <= a.shape[3] // 4 * 4" if a_across else "c.shape[2] <= a.shape[2] and a.shape[3] == a.shape[3] // 4 * 4",
            "c.shape[3] <= b.shape[3] // 4 * 4" if b_across else "c.shape[3] <= b.shape[2] and b.shape[3] == b.shape[3] // 4 * 4",
            "c.shape[0] == a.shape[0] == b.shape[0]",
            "c.shape[1] == a.shape[1] == b.shape[1]",
            f"a.shape[{inner_a}] >= 1",
            *(() if rest else (f"a.shape[{inner_a}] == a.shape[{inner_a}] // {DEPTH} * {DEPTH}",)),
        ),
        programmatic=early,
        resident=schedule.resident,
        spills=False,
    )
    def matmul_pipelined(c: SliceMut[f32, D4], a: Slice[f32, D4], b: Slice[f32, D4], e: Ending) -> None:
        """C <- alpha A B (+ C), a tile per block."""
        left = shared_array((2, DEPTH, ROWS), f32, align=128)
        right = shared_array((2, DEPTH, COLUMNS), f32, align=128)
        its_p, its_q, y, x = place_of_block(c, ROWS, COLUMNS, GROUP)
        p, q, row, column = i64(its_p), i64(its_q), i64(y) * ROWS, i64(x) * COLUMNS
        if early:
            wait_for_dependencies()
        steps = (a.shape[inner_a] + DEPTH - 1) // DEPTH
        sums = local_array((4 * UP, 4 * SIDE), f32)
        lefts, rights = as_vectors(left, 4), as_vectors(right, 4)
        warp, lane = warp_index() % (WARP_ROWS * WARP_COLUMNS), lane_index()
        my_row, my_column = place_of_thread(warp, lane)
        u, v = local_array(4 * UP, f32), local_array(4 * SIDE, f32)
        a_fours, b_fours = as_vectors(a, 4), as_vectors(b, 4)
        a_held, b_held = local_array((ROWS * CHUNKS // THREADS, 4), f32), local_array((COLUMNS * CHUNKS // THREADS, 4), f32)
        load(a_held, a_fours, p, q, row, 0, ROWS, a_across)
        load(b_held, b_fours, p, q, column, 0, COLUMNS, b_across)
        put(left, lefts, 0, a_held, ROWS, a_across)
        put(right, rights, 0, b_held, COLUMNS, b_across)
        sync_threads()
        whole = a.shape[inner_a] // DEPTH if rest else steps
        for step in range(whole):
            if step + 1 < steps:
                load(a_held, a_fours, p, q, row, (step + 1) * DEPTH, ROWS, a_across)
                load(b_held, b_fours, p, q, column, (step + 1) * DEPTH, COLUMNS, b_across)
            for at in unroll(DEPTH):
                fetch(u, v, lefts, rights, step % 2, at, my_row, my_column)
                add_products(sums, u, v, 4 * UP, 4 * SIDE)
            if step + 1 < steps:
                put(left, lefts, (step + 1) % 2, a_held, ROWS, a_across)
                put(right, rights, (step + 1) % 2, b_held, COLUMNS, b_across)
            sync_threads()
        if rest and whole < steps:
            for at in unroll(DEPTH):
                if whole * DEPTH + at < a.shape[inner_a]:
                    fetch(u, v, lefts, rights, whole % 2, at, my_row, my_column)
                    add_products(sums, u, v, 4 * UP, 4 * SIDE)
        if early:
            launch_dependents()
        if SHORT:
            # the place is computed anew, so that the loop of products has its registers
            its_p, its_q, y, x = place_of(c, ROWS, COLUMNS, GROUP, block_now())
            p, q, row, column = i64(its_p), i64(its_q), i64(y) * ROWS, i64(x) * COLUMNS
            t = thread_now()
            my_row, my_column = place_of_thread(t // 32, t % 32)
        write_tile(c, sums, e, p, q, row, column, ROWS, COLUMNS, my_row, my_column, 4 * UP, 4 * SIDE, each)

    return matmul_pipelined
