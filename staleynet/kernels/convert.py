"""What surrounds a matrix product on tensor cores: operands brought into the form that the cores read, and partial products summed up.

Arrays have four dimensions: two of the batch, rows, and k (or columns). Left out: the products themselves.
"""

from typing import Any

from kdsl import (
    D4,
    Kernel,
    Slice,
    SliceMut,
    as_vectors,
    bf16x4,
    bits_float,
    block_idx,
    decrease_registers,
    f16x4,
    f32,
    f32x4,
    float_bits,
    function,
    i64,
    kernel,
    launch_dependents,
    local_array,
    shared_array,
    struct,
    sync_threads,
    thread_idx,
    tile_index,
    tiles,
    u32,
    unroll,
    wait_for_dependencies,
)
from staleynet.kernels.elementwise import gelu_gate

FOURS = {"f32": f32x4, "f16": f16x4, "bf16": bf16x4}
"""Vectors of four results."""
TILE = 32
"""Rows and columns of a tile that is turned."""
LINES = 8
"""Rows of a block's threads."""
SPREAD = 6
"""Blocks of what adds parts that find room on a multiprocessor where they are spread."""
SPREAD_ELEMENTS = 4 * TILE * LINES
"""Elements of C of such a block."""
SPREAD_PARTS = 5
"""The most parts for which its registers suffice."""
TURNED = (
    "x.shape[0] == y.shape[0] and x.shape[1] == y.shape[1]",
    "x.shape[2] == y.shape[3] and x.shape[3] == y.shape[2]",
)
"""What holds of the shapes of x and its transposes y."""


@struct
class Ending:
    """What becomes of a product."""

    alpha: f32
    """Its factor."""
    accumulate: u32
    """1 to add it to C, 0 to overwrite C."""


@function
def to_nearest_tf32(x: f32) -> f32:
    """The number rounded to the 10 bits of tf32, ties to even, as the copy engine rounds; infinities and NaNs stay what they are."""
    bits = float_bits(x)
    rounded = (bits + 0x0FFF + ((bits >> 13) & 1)) & -8192
    nearest: f32 = bits_float(rounded if bits & 0x7F800000 != 0x7F800000 else bits)
    return nearest


def pack(source: Any, target: Any, *, turned: bool, round_to_tf32: bool = False, early: bool = False) -> Kernel:
    """The kernel y <- x for arrays of `source` and `target` elements, y contiguous.

    `turned` says that neighbouring rows of x are closer together than neighbouring columns; `early` lets blocks begin before the launch in front has
    ended, on GPUs from compute capability 9.0 on.
    """

    @function
    def converted(x: Any) -> Any:
        if round_to_tf32:
            return to_nearest_tf32(f32(x))
        else:
            return target(x)

    @function
    def put(y: Any, p: i64, q: i64, row: i64, k: i64, value: Any) -> None:
        """Write an element, if there is one."""
        if row < y.shape[2] and k < y.shape[3]:
            y[p, q, row, k] = value

    @kernel(
        grid=tiles(rows="y.shape[2]", columns="y.shape[3]", batch="y.shape[0] * y.shape[1]", tile=(TILE, TILE)),
        block=(TILE, LINES),
        requires=(
            "x.shape[0] == y.shape[0] and x.shape[1] == y.shape[1]",
            "x.shape[2] <= y.shape[2] and x.shape[3] <= y.shape[3]",
        ),
        programmatic=early,
    )
    def matmul_pack(y: SliceMut[target, D4], x: Slice[source, D4]) -> None:
        """A block per tile; what x lacks is 0."""
        buffer = shared_array((TILE, TILE + 1), target)
        tile = tile_index()
        p, q = tile.batch // y.shape[1], tile.batch % y.shape[1]
        column, line = thread_idx.x, thread_idx.y
        if early:
            wait_for_dependencies()
            launch_dependents()
        if p < y.shape[0] and p < x.shape[0] and q < x.shape[1]:
            if turned:
                for i in unroll(0, TILE, LINES):
                    row, k = tile.row + column, tile.column + line + i
                    buffer[column, line + i] = converted(x[p, q, row, k]) if row < x.shape[2] and k < x.shape[3] else target(0)
                sync_threads()
                for i in unroll(0, TILE, LINES):
                    put(y, p, q, tile.row + line + i, tile.column + column, buffer[line + i, column])
            else:
                for i in unroll(0, TILE, LINES):
                    row, k = tile.row + line + i, tile.column + column
                    put(y, p, q, row, k, converted(x[p, q, row, k]) if row < x.shape[2] and k < x.shape[3] else target(0))

    return matmul_pack


@function
def read_turned(found: Any, x: Any, p: i64, q: i64, n: i64, k: i64) -> None:
    """Read what a warp turns: of matrix (p, q) of x, k x n with n in fours, 16 rows of 32 columns from row k and column n on, into `found`, 4 x 4 per lane.

    What is outside of x leaves `found` as it is.
    """
    lane, of = thread_idx.x % 32, as_vectors(x, 4)
    column = n // 4 + lane % 8
    for i in unroll(4):
        row = k + 4 * (lane // 8) + i
        if row < of.shape[2] and column < of.shape[3]:
            four = of[p, q, row, column]
            for e in unroll(4):
                found[i, e] = four[e]


@function
def write_turned(y: Any, found: Any, p: i64, q: i64, n: i64, k: i64) -> None:
    """Write what a warp has read with `read_turned` as 32 rows of 16 columns of matrix (p, q) of y, n x k with k in fours; what is outside of y is left out."""
    lane, to = thread_idx.x % 32, as_vectors(y, 4)
    column = k // 4 + lane // 8
    for e in unroll(4):
        row = n + 4 * (lane % 8) + e
        if p < to.shape[0] and q < to.shape[1] and row < to.shape[2] and column < to.shape[3]:
            to[p, q, row, column] = f32x4(found[0, e], found[1, e], found[2, e], found[3, e])


def turn(*, early: bool = False) -> Kernel:
    """The kernel y <- x^T for matrices of f32 whose rows consist of whole vectors of four: x is given as (p, q, k, n), y as (p, q, n, k). `early` as above."""

    @kernel(
        grid=tiles(rows="y.shape[2]", columns="y.shape[3]", batch="y.shape[0] * y.shape[1]", tile=(2 * TILE, 2 * TILE)),
        block=256,
        requires=TURNED,
        programmatic=early,
        spills=False,
    )
    def matmul_turn(y: SliceMut[f32, D4], x: Slice[f32, D4]) -> None:
        """4 x 4 elements per thread, turned in registers: the lanes of a warp read 128 bytes of each of 4 rows at once, and write 64 bytes of each of 8."""
        tile = tile_index()
        p, q = tile.batch // y.shape[1], tile.batch % y.shape[1]
        warp = thread_idx.x // 32
        if early:
            wait_for_dependencies()
            launch_dependents()
        if p < x.shape[0] and q < x.shape[1]:
            found = local_array((4, 4), f32)
            read_turned(found, x, p, q, tile.row + 32 * (warp % 2), tile.column + 16 * (warp // 2))
            write_turned(y, found, p, q, tile.row + 32 * (warp % 2), tile.column + 16 * (warp // 2))

    return matmul_turn


@struct
class Heads:
    """What of a matrix is turned ahead of the rest."""

    part: u32
    """Steps of k of a part."""
    head: u32
    """So many of them, a multiple of 64."""
    blocks: u32
    """Blocks of 64 steps of all heads, and 64 columns."""


def turn_heads() -> Kernel:
    """The kernel of `turn` for the first steps of k of several parts of one matrix, on Hopper, which also rounds to tf32 and sets counters to 0."""

    @kernel(grid=("h.blocks",), block=256, requires=TURNED, programmatic=True, spills=False)
    def matmul_turn_heads(y: SliceMut[f32, D4], x: Slice[f32, D4], progress: SliceMut[u32], h: Heads) -> None:
        """A block turns 64 x 64 elements."""
        launch_dependents()
        warp = thread_idx.x // 32
        across = u32((y.shape[2] + 63) // 64)
        n, piece = i64(u32(block_idx.x) % across * 64), u32(block_idx.x) // across
        each = h.head // 64
        k = i64(piece // each * h.part + piece % each * 64)
        i = i64(block_idx.x) * 256 + i64(thread_idx.x)
        wait_for_dependencies()
        if i < len(progress):
            progress[i] = u32(0)
        if x.shape[0] > 0 and x.shape[1] > 0:
            found = local_array((4, 4), f32)
            read_turned(found, x, 0, 0, n + 32 * (warp % 2), k + 16 * (warp // 2))
            for a in unroll(4):
                for b in unroll(4):
                    found[a, b] = to_nearest_tf32(found[a, b])
            write_turned(y, found, 0, 0, n + 32 * (warp % 2), k + 16 * (warp // 2))

    return matmul_turn_heads


def turn_small(*, early: bool = False) -> Kernel:
    """The kernel of `turn` for matrices that have few of its blocks: four times as many, of threads with four elements each."""

    @kernel(
        grid=tiles(rows="y.shape[2]", columns="y.shape[3]", batch="y.shape[0] * y.shape[1]", tile=(TILE, TILE)),
        block=256,
        requires=TURNED,
        programmatic=early,
        spills=False,
    )
    def matmul_turn_small(y: SliceMut[f32, D4], x: Slice[f32, D4]) -> None:
        """A tile of 32 x 32 per block, turned in shared memory: a warp reads, and writes, 128 bytes of each of 4 rows at once."""
        tile = tile_index()
        buffer = shared_array((TILE, TILE + 1), f32)
        p, q = tile.batch // y.shape[1], tile.batch % y.shape[1]
        line, four = thread_idx.x // 8, thread_idx.x % 8
        of, to = as_vectors(x, 4), as_vectors(y, 4)
        read, written = tile.row // 4 + four, tile.column // 4 + four
        if early:
            launch_dependents()  # before the wait: what follows waits for the end of this launch, which comes after the end of those in front of it
            wait_for_dependencies()
        if p < of.shape[0] and q < of.shape[1] and tile.column + line < of.shape[2] and read < of.shape[3]:
            found = of[p, q, tile.column + line, read]
            for e in unroll(4):
                buffer[4 * four + e, line] = found[e]
        sync_threads()
        if p < to.shape[0] and q < to.shape[1] and tile.row + line < to.shape[2] and written < to.shape[3]:
            n = 4 * four
            to[p, q, tile.row + line, written] = f32x4(buffer[line, n], buffer[line, n + 1], buffer[line, n + 2], buffer[line, n + 3])

    return matmul_turn_small


def combine(
    result: Any, parts: int, *, bias: bool = False, gelu: bool = False, each: int = 1, early: bool = False, spread: bool = False
) -> Kernel:
    """The kernel C <- act(alpha (sum of `parts` parts) + bias) (+ C), where a bias per column and GELU are optional, for C of `result` elements.

    A thread has `each` neighbouring columns: 1, or 4 where rows of C begin at multiples of four elements and have a multiple of four. `early` lets blocks
    begin before the launch in front has ended, on GPUs from compute capability 9.0 on. `spread`, for four columns and 2 to
    `SPREAD_PARTS` parts on `sm_90a`, has no more than `SPREAD` blocks on a multiprocessor, of twice as many threads: if there are about as many for each,
    they would otherwise gather on those that are free first.
    """
    fours = FOURS[result.name]
    PARTS = parts
    # with one part several rows per thread keep more reads under way; with several the parts do, and small blocks reach all multiprocessors for a small C
    DOWN, HIGH = (4, LINES) if PARTS == 1 else (1, LINES if spread else LINES // 2)

    @function
    def ended(sums: f32, column: i64, alpha: f32, offsets: Slice[f32]) -> f32:
        """An element but for what is in C."""
        value = alpha * sums
        if bias:
            value = value + (offsets[column] if column < len(offsets) else 0.0)
        if gelu:
            value = value * gelu_gate(value)
        return value

    @function
    def put(to: Any, p: i64, q: i64, row: i64, column: i64, sums: Any, e: Ending, offsets: Slice[f32]) -> None:
        """End a thread's sums, `each` of neighbouring columns, and write them to matrix (p, q) of C; with four columns `to` and `column` count in fours."""
        if each == 4:
            x, y = ended(sums[0], 4 * column, e.alpha, offsets), ended(sums[1], 4 * column + 1, e.alpha, offsets)
            z, w = ended(sums[2], 4 * column + 2, e.alpha, offsets), ended(sums[3], 4 * column + 3, e.alpha, offsets)
            if e.accumulate != 0:
                old = f32x4(to[p, q, row, column])
                to[p, q, row, column] = fours(old.x + x, old.y + y, old.z + z, old.w + w)
            else:
                to[p, q, row, column] = fours(x, y, z, w)
        else:
            value = ended(sums[0], column, e.alpha, offsets)
            if e.accumulate != 0:
                before = f32(to[p, q, row, column])
                to[p, q, row, column] = result(before + value)
            else:
                to[p, q, row, column] = result(value)

    @kernel(
        grid=tiles(rows="c.shape[2]", columns="c.shape[3]", batch="c.shape[0] * c.shape[1]", tile=(DOWN * HIGH, TILE * each)),
        block=(TILE, HIGH),
        requires=(
            f"parts.shape[0] == {PARTS} and parts.shape[1] == c.shape[0] * c.shape[1]",
            "parts.shape[2] == c.shape[2] and parts.shape[3] == c.shape[3]",
        ),
        programmatic=early,
        spills=False,
        resident=SPREAD if spread else 1,
    )
    def matmul_combine(c: SliceMut[result, D4], parts: Slice[f32, D4], offsets: Slice[f32], e: Ending) -> None:
        """Parts are added in ascending order. `offsets` are read only with a bias."""
        tile = tile_index()
        p, q = tile.batch // c.shape[1], tile.batch % c.shape[1]
        to = as_vectors(c, 4) if each == 4 else c
        of = as_vectors(parts, 4) if each == 4 else parts
        column = tile.column // each + thread_idx.x
        if spread:
            # 32 are enough; but a kernel that hands registers back begins with all that `resident` leaves it, 40 per thread for six blocks, so that a
            # seventh finds no room
            decrease_registers(32)
        if early:
            wait_for_dependencies()
            launch_dependents()
        if of.shape[0] == PARTS and tile.batch < of.shape[1] and column < of.shape[3]:
            for i in unroll(DOWN):
                row = tile.row + thread_idx.y + HIGH * i
                if row < of.shape[2]:
                    every = local_array((PARTS, each), f32)  # all reads are under way before the first addition
                    for part in unroll(PARTS):
                        if each == 4:
                            four = f32x4(of[part, tile.batch, row, column])
                            every[part, 0], every[part, 1], every[part, 2], every[part, 3] = four.x, four.y, four.z, four.w
                        else:
                            every[part, 0] = of[part, tile.batch, row, column]
                    if p < to.shape[0] and q < to.shape[1] and row < to.shape[2] and column < to.shape[3]:
                        for part in unroll(1, PARTS):
                            for j in unroll(each):
                                every[0, j] += every[part, j]
                        put(to, p, q, row, column, every[0, :], e, offsets)

    return matmul_combine
