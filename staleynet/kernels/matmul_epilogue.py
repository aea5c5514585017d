"""What becomes of the sums of a matrix product on Hopper: their factor, a bias and GELU, and the ways into C, by the copy engine and
without it."""

from typing import Any

from kdsl import (
    as_vectors,
    bf16x2,
    bf16x2_bits,
    f16x2,
    f16x2_bits,
    f32,
    f32x2,
    fma,
    function,
    i64,
    inline_ptx,
    lane_index,
    stmatrix,
    tma_reduce,
    tma_store,
    u32,
    unroll,
    warp_index,
)
from staleynet.kernels.elementwise import CUBIC, SLOPE, gelu_gate

TWOS = {"f32": f32x2, "f16": f16x2, "bf16": bf16x2}
"""Vectors of two results."""


@function
def fast_gelu(x: f32) -> f32:
    """The tanh form of GELU with the hardware's tanh, whose error of 2^-11 is below the rounding of a result of 16 bits."""
    u = x * fma(SLOPE * CUBIC, x * x, SLOPE)
    t: f32 = inline_ptx("tanh.approx.f32 {0}, {1};", f32, (u,), volatile=False, memory=False)
    half = 0.5 * x
    gelu: f32 = fma(half, t, half)
    return gelu


def ending(result: Any, *, bias: bool, gelu: bool) -> Any:
    """The function ended(sums, shift, alpha): an element of C before it is rounded to `result`."""
    EXACT = result is f32

    @function
    def ended(sums: f32, shift: f32, alpha: f32) -> f32:
        x = alpha * sums
        if bias:
            x = x + shift
        if gelu and EXACT:
            x = x * gelu_gate(x)
        elif gelu:
            x = fast_gelu(x)
        return x

    return ended


def writing(result: Any, *, bias: bool, gelu: bool, pairs: bool) -> Any:
    """The function write(c, row, column, low, high, alpha, accumulate, offsets): end two neighbouring sums and write them to the first matrix of C, where it
    has them; with `pairs` at once.
    """
    twos = TWOS[result.name]
    ended = ending(result, bias=bias, gelu=gelu)

    @function
    def shift(offsets: Any, column: i64) -> f32:
        if bias:
            found: f32 = offsets[column] if column < len(offsets) else 0.0
            return found
        else:
            return 0.0

    @function
    def write(c: Any, row: u32, column: u32, low: f32, high: f32, alpha: f32, accumulate: u32, offsets: Any) -> None:
        x, y = ended(low, shift(offsets, i64(column)), alpha), ended(high, shift(offsets, i64(column) + 1), alpha)
        if pairs:
            to, pair = as_vectors(c, 2), column // 2
            if to.shape[0] > 0 and to.shape[1] > 0 and row < to.shape[2] and pair < to.shape[3]:
                if accumulate != 0:
                    old = f32x2(to[0, 0, row, pair])
                    x, y = old.x + x, old.y + y
                to[0, 0, row, pair] = twos(x, y)
        else:
            for i in unroll(2):
                if row < c.shape[2] and column + i < c.shape[3]:
                    value = x if i == 0 else y
                    if accumulate != 0:
                        value = f32(c[0, 0, row, column + i]) + value
                    c[0, 0, row, column + i] = result(value)

    return write


def storing(result: Any, *, bias: bool, gelu: bool, passes: bool) -> tuple[Any, Any]:
    """How results leave through buffers in shared memory and the copy engine: put(out, group, buffer, sums, piece, half, alpha, shift) ends the sums of 64 rows
    of a piece of 128 bytes a row, send(c, p, q, row, column, out, group, buffer, accumulate) takes a buffer to C. A C that `passes` is larger than the level-2
    cache, and makes room in it first."""
    PER_PIECE = 64 // result.itemsize
    TO_F32 = result is f32
    TO_F16 = result.name == "f16"
    ended = ending(result, bias=bias, gelu=gelu)
    EVICT = "first" if passes else ""

    @function
    def pack(low: f32, high: f32) -> u32:
        if TO_F16:
            narrow: u32 = f16x2_bits(low, high)
            return narrow
        else:
            wide: u32 = bf16x2_bits(low, high)
            return wide

    @function
    def put(out: Any, group: i64, buffer: i64, sums: Any, piece: i64, half: i64, alpha: f32, shift: Any) -> None:
        """Write 64 rows of a piece of 128 bytes a row to the buffer."""
        warp, lane = warp_index() % 4, lane_index()
        for i in unroll(PER_PIECE * piece, PER_PIECE * (piece + 1)):
            sums[i] = ended(sums[i], shift[i // 4 * 2 + i % 2] if bias else 0.0, alpha)
        if TO_F32:
            row, column = 64 * half + 16 * warp + lane // 4, 2 * (lane % 4)
            for i in unroll(PER_PIECE):
                out[group, buffer, row + 8 * (i // 2 % 2), column + 8 * (i // 4) + i % 2] = sums[PER_PIECE * piece + i]
        else:
            row, column = 64 * half + 16 * warp + lane % 16, 8 * (lane // 16)
            for i in unroll(0, PER_PIECE, 8):
                j = PER_PIECE * piece + i
                packed = (
                    pack(sums[j], sums[j + 1]),
                    pack(sums[j + 2], sums[j + 3]),
                    pack(sums[j + 4], sums[j + 5]),
                    pack(sums[j + 6], sums[j + 7]),
                )
                stmatrix(out, (group, buffer, row, 2 * i + column), packed)

    @function
    def send(c: Any, p: u32, q: u32, row: i64, column: i64, out: Any, group: i64, buffer: i64, accumulate: u32) -> None:
        """Let the copy engine take a buffer to C."""
        if accumulate != 0:
            tma_reduce(c, (p, q, row, column), out, (group, buffer))
        else:
            tma_store(c, (p, q, row, column), out, (group, buffer), evict=EVICT)

    return put, send


def leaving(result: Any, rows: int, *, pairs: bool) -> Any:
    """The function leave(c, p, q, top, side, out, group, buffer): a warpgroup writes `rows` rows of 128 bytes of a buffer in shared memory to
    matrix (p, q) of C, where it has them, a row per warp at a time; with `pairs` two elements of 16 bits at a time.
    """
    WIDE = 128 // result.itemsize

    @function
    def leave(c: Any, p: u32, q: u32, top: u32, side: u32, out: Any, group: i64, buffer: i64) -> None:
        to, of = (as_vectors(c, 2), as_vectors(out, 2)) if pairs else (c, out)
        lane = u32(lane_index())
        for row in range(u32(warp_index() % 4), u32(rows), u32(4)):
            for j in unroll(1 if pairs else WIDE // 32):
                place = lane + u32(32 * j)
                column = (side // 2 if pairs else side) + place
                if p < to.shape[0] and q < to.shape[1] and top + row < to.shape[2] and column < to.shape[3]:
                    to[p, q, top + row, column] = of[group, buffer, row, place]

    return leave
