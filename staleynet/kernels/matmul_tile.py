"""What the fp32 matrix products with large tiles share: how the threads of a warp divide its part of a tile of C, how they add the products of one step of k,
and how they write C. Left out: how the operands reach shared memory (`matmul_wide.py`, `matmul_pipelined.py`).

A thread has vectors of four neighbouring rows and columns; lanes that lie side by side have the vectors that lie side by side.
"""

from typing import Any

from kdsl import as_vectors, f32, f32x2, f32x4, fma, function, i64, lane_index, sync_warp, unroll

LANE_ROWS, LANE_COLUMNS = 8, 4
"""How the lanes of a warp lie over its part of a tile."""


@function
def add_products(sums: Any, u: Any, v: Any, rows: i64, columns: i64) -> None:
    """Add the products of a thread's rows and columns at one k, down one column and up the next: each product shares a factor with the one before it, and so
    reads only two more registers, which the assembler puts into different banks."""
    for j in unroll(columns):
        for i in unroll(rows):
            if j % 2 == 0:
                sums[i, j] = fma(u[i], v[j], sums[i, j])
            else:
                sums[rows - 1 - i, j] = fma(u[rows - 1 - i], v[j], sums[rows - 1 - i, j])


GAP = 4
"""Numbers between two lines of results in shared memory, so that lines begin in different banks."""


def room(warps: int, columns: int) -> tuple[int, int, int]:
    """The shape of the shared array in which warps with so many columns of C each put results in lines."""
    return warps, 4 * LANE_ROWS, columns + GAP


@function
def taken(sums: Any, alpha: f32, i: i64, j: i64, each: i64) -> Any:
    """`each` neighbouring results of a thread, from column j of its sums on."""
    if each == 4:
        return alpha * f32x4(sums[i, j], sums[i, j + 1], sums[i, j + 2], sums[i, j + 3])
    elif each == 2:
        return alpha * f32x2(sums[i, j], sums[i, j + 1])
    else:
        return alpha * sums[i, j]


@function
def write_tile(
    c: Any, sums: Any, e: Any, p: i64, q: i64, row: i64, column: i64, tile_rows: i64, tile_columns: i64, my_row: i64, my_column: i64,
    rows: i64, columns: i64, each: i64,
) -> None:  # fmt: skip
    """Write, or add to C, what a thread has of the tile of `tile_rows` x `tile_columns` that begins at `row` and `column`; `my_row` and `my_column` count
    vectors of four from there. `each` columns are written at once: 1, 2 or 4."""
    to = as_vectors(c, each) if each > 1 else c
    if p < c.shape[0] and q < c.shape[1]:
        if each > 1 and e.accumulate == 0 and row + tile_rows <= c.shape[2] and column + tile_columns <= c.shape[3]:
            for i in unroll(rows):
                for j in unroll(0, columns, each):
                    # the tile lies inside
                    place = column // each + (my_column + LANE_COLUMNS * (j // 4)) * (4 // each) + j % 4 // each
                    to.unchecked[p, q, row + 4 * (my_row + LANE_ROWS * (i // 4)) + i % 4, place] = taken(sums, e.alpha, i, j, each)
        else:
            for i in unroll(rows):
                line = row + 4 * (my_row + LANE_ROWS * (i // 4)) + i % 4
                if line < c.shape[2]:
                    for j in unroll(0, columns, each):
                        place = column // each + (my_column + LANE_COLUMNS * (j // 4)) * (4 // each) + j % 4 // each
                        if place < to.shape[3]:
                            value = taken(sums, e.alpha, i, j, each)
                            if e.accumulate != 0:
                                before = to[p, q, line, place]
                                to[p, q, line, place] = before + value
                            else:
                                to[p, q, line, place] = value


@function
def write_lines(
    c: Any, sums: Any, e: Any, out: Any, warp: i64, p: i64, q: i64, row: i64, column: i64, rows: i64, columns: i64, each: i64
) -> None:
    """The same for the part of a tile that a warp has, which begins at `row` and `column`: through its room in `out`, so that whole lines of it are written at
    once, also where a lane cannot write all four of its neighbouring columns."""
    lane = lane_index()
    to, of, fours = as_vectors(c, each) if each > 1 else c, as_vectors(out, each) if each > 1 else out, as_vectors(out, 4)
    per_line = LANE_COLUMNS * columns // each
    if p < c.shape[0] and q < c.shape[1]:
        for i in unroll(rows // 4):
            for line in unroll(4):
                for j in unroll(columns // 4):
                    fours[warp, 4 * (lane // LANE_COLUMNS) + line, lane % LANE_COLUMNS + LANE_COLUMNS * j] = taken(
                        sums, e.alpha, 4 * i + line, 4 * j, 4
                    )
            sync_warp()
            top = row + 4 * LANE_ROWS * i
            if e.accumulate == 0 and row + LANE_ROWS * rows <= to.shape[2] and column // each + per_line <= to.shape[3]:
                for t in unroll(per_line):
                    line, place = (32 * t + lane) // per_line, (32 * t + lane) % per_line
                    to.unchecked[p, q, top + line, column // each + place] = of[warp, line, place]  # all of the warp's part lies inside
            else:
                for t in range(per_line):
                    line, place = (32 * t + lane) // per_line, (32 * t + lane) % per_line
                    y, x = top + line, column // each + place
                    if y < to.shape[2] and x < to.shape[3]:
                        value = of[warp, line, place]
                        if e.accumulate != 0:
                            before = to[p, q, y, x]
                            to[p, q, y, x] = before + value
                        else:
                            to[p, q, y, x] = value
            sync_warp()
