"""How the sums of the matrix product by `mma` leave a warp: through shared memory, so that they are written in lines, 16 bytes per lane, or as they lie in its
lanes.
"""

from typing import Any

from kdsl import as_vectors, bf16x2, f16x2, f32, f32x2, function, i64, lane_index, mma_column, mma_row, sync_warp, u32, unroll
from staleynet.kernels.matmul_hopper import Work

PAIRS = {"f32": f32x2, "f16": f16x2, "bf16": bf16x2}
"""Vectors of two results."""
LINES = 16
"""Rows of results of a warp that are in shared memory on their way out."""
GAP = 16
"""Bytes between two of them, so that rows begin in different banks."""


def room(result: Any, warps: int, columns: int) -> tuple[int, int, int]:
    """The shape of the shared array for the results of warps with so many columns each."""
    return warps, LINES, columns + GAP // result.itemsize


def room_bytes(warps: int, columns: int) -> int:
    """Its size, with results of 32 bits."""
    return warps * LINES * (4 * columns + GAP)


def leaving(result: Any, down: int, side: int, *, each: int, edges: bool) -> Any:
    """The function leave(c, p, q, row, column, total, out, warp, w): end the `down` x `side` fragments of a warp and write them to matrix (p, q) of C from
    there on; `each` columns at once, for which it takes the room of the warp in `out`. Without `edges` all are inside.
    """
    DOWN, SIDE, WIDE, STAGED, EXACT = down, side, each, each > 1, result is f32
    PER_LINE = 8 * SIDE // each
    pair = PAIRS[result.name]

    @function
    def leave(c: Any, p: u32, q: u32, row: i64, column: i64, total: Any, out: Any, warp: i64, w: Work) -> None:
        if STAGED and EXACT:
            by_lines(c, p, q, row, column, total, out, warp, w)
        elif STAGED:
            if w.accumulate == 0:
                by_lines(c, p, q, row, column, total, out, warp, w)
            else:  # a narrow result would be rounded before it is added
                one_by_one(c, p, q, row, column, total, w)
        else:
            one_by_one(c, p, q, row, column, total, w)

    @function
    def by_lines(c: Any, p: u32, q: u32, row: i64, column: i64, total: Any, out: Any, warp: i64, w: Work) -> None:
        to, of, pairs = as_vectors(c, WIDE), as_vectors(out, WIDE), as_vectors(out, 2)
        lane = lane_index()
        for i in unroll(DOWN):
            for half in unroll(2):
                for j in unroll(SIDE):
                    low, high = w.alpha * total[i, j, 2 * half], w.alpha * total[i, j, 2 * half + 1]
                    pairs[warp, mma_row(2 * half), 4 * j + mma_column(0) // 2] = pair(low, high)
            sync_warp()
            left = to.shape[2] - (row + 16 * i)
            for t in unroll(LINES * PER_LINE // 32):
                line, place = (32 * t + lane) // PER_LINE, (32 * t + lane) % PER_LINE
                y, x = row + 16 * i + line, column // WIDE + place
                if not edges or (p < to.shape[0] and q < to.shape[1] and line < left and x < to.shape[3]):
                    # inside by the test, or since the whole tile is
                    if EXACT and w.accumulate != 0:
                        to.unchecked[p, q, y, x] = to.unchecked[p, q, y, x] + of[warp, line, place]
                    else:
                        to.unchecked[p, q, y, x] = of[warp, line, place]
            sync_warp()

    @function
    def one_by_one(c: Any, p: u32, q: u32, row: i64, column: i64, total: Any, w: Work) -> None:
        twos = as_vectors(c, 2) if STAGED else c
        if p < c.shape[0] and q < c.shape[1]:
            for i in unroll(DOWN):
                for half in unroll(2):
                    y = row + 16 * i + mma_row(2 * half)
                    if y < c.shape[2]:
                        for j in unroll(SIDE):
                            x = column + 8 * j + mma_column(0)
                            low, high = w.alpha * total[i, j, 2 * half], w.alpha * total[i, j, 2 * half + 1]
                            if STAGED:
                                if x // 2 < twos.shape[3]:
                                    if w.accumulate != 0:
                                        old = twos[p, q, y, x // 2]
                                        twos[p, q, y, x // 2] = pair(f32(old.x) + low, f32(old.y) + high)
                                    else:
                                        twos[p, q, y, x // 2] = pair(low, high)
                            else:
                                put(c, p, q, y, x, low, w.accumulate)
                                put(c, p, q, y, x + 1, high, w.accumulate)

    @function
    def put(c: Any, p: u32, q: u32, row: i64, column: i64, value: f32, accumulate: u32) -> None:
        """Write an element, if there is one."""
        if column < c.shape[3]:
            if accumulate != 0:
                before = f32(c[p, q, row, column])
                c[p, q, row, column] = result(before + value)
            else:
                c[p, q, row, column] = result(value)

    return leave
