"""What products of tf32 do with tiles in shared memory on Hopper: which numbers a lane reads where k lies across the rows, and how a box is turned in place.

`wgmma` reads tf32 from shared memory only with k along the rows of a tile. All tiles here consist of boxes of 32 x 32 numbers in a swizzled array, (stage, box,
row, column).
"""

from typing import Any

from kdsl import as_vectors, barrier_arrive_expect, function, i64, inline_ptx, tma_load, u32, unroll
from staleynet.kernels.matmul_ring import Ring

BOX = 32
"""Rows and columns of a box that the copy engine brings or takes: 128 bytes."""
DEPTH = BOX
"""Steps of k per stage."""
STEP = 8
"""Steps of k per instruction."""
HALF = 16
"""Steps of k whose fragments are in registers at once."""


@function
def lane_now() -> i64:
    """The lane, read anew: what is computed from it is not kept in registers over the loop of products."""
    lane: u32 = inline_ptx("mov.u32 {0}, %laneid;", u32, (), memory=False)
    return i64(lane % 32)


@function
def rows_of(lane: i64, warp: i64, each: i64) -> i64:
    """The first of the `each` neighbouring rows of A, 4 or 2, that are those of a lane in a box with k across: so that lanes which read at once, four k of
    two chunks of 16 bytes, meet all banks. A box is that of one warp, or of two."""
    if each == 4:
        return 4 * (lane // 8 + lane // 4 % 2 * 4)
    else:
        return 4 * (warp % 2 * 2 + lane // 8 % 2 * 4 + lane // 16) + 2 * (lane // 4 % 2)


@function
def block_of(lane: i64, number: i64) -> tuple[i64, i64]:
    """Which two of the 8 x 8 blocks of 4 x 4 of a box a lane turns, row and column. The lanes that read or write at once have blocks of a diagonal, which
    lie in different banks before and after."""
    column = lane % 8
    return column ^ (lane // 8 + 4 * number), column


@function
def read_blocks(found: Any, tile: Any, s: i64, box: i64, lane: i64) -> None:
    """Read the two blocks of a lane of a box."""
    fours = as_vectors(tile, 4)
    for i in unroll(2):
        row, column = block_of(lane, i)
        for j in unroll(4):
            x = fours[s, box, 4 * row + j, column]
            for e in unroll(4):
                found[i, j, e] = x[e]


def boxes(rows: int, columns: int, stages: int, *, a_across: bool, b_across: bool) -> Ring:
    """A ring of `stages` tiles of `rows` rows of A and `columns` columns of B in boxes.

    A is given as m x k, or with `a_across` as its transpose k x m, B as its transpose n x k, or with `b_across` as k x n.
    """
    ROWS, COLUMNS = rows, columns

    @function
    def load(left: Any, right: Any, a: Any, b: Any, full: Any, s: i64, p: u32, q: u32, row: u32, column: u32, k: i64) -> None:
        barrier_arrive_expect(full, s, (ROWS + COLUMNS) * DEPTH * 4)
        for piece in unroll(ROWS // BOX):
            if a_across:
                tma_load(left, (s, piece), a, (p, q, k, row + BOX * piece), full, s)
            else:
                tma_load(left, (s, piece), a, (p, q, row + BOX * piece, k), full, s)
        for piece in unroll(COLUMNS // BOX):
            if b_across:
                tma_load(right, (s, piece), b, (p, q, k, column + BOX * piece), full, s)
            else:
                tma_load(right, (s, piece), b, (p, q, column + BOX * piece, k), full, s)

    return Ring((stages, ROWS // BOX, BOX, DEPTH), (stages, COLUMNS // BOX, BOX, DEPTH), DEPTH, load)
