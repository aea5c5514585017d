"""What the fp32 matrix products with large tiles share: how the threads of a warp divide its part of a tile of C, how they add the products of one step of k,
and how they write C. Left out: how the operands reach shared memory (`matmul_wide.py`, `matmul_pipelined.py`).

A thread has vectors of four neighbouring rows and columns; lanes that lie side by side have the vectors that lie side by side.
"""

from typing import Any

from kdsl import as_vectors, f32x4, fma, function, i64, unroll

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


@function
def write_tile(
    c: Any, sums: Any, e: Any, p: i64, q: i64, row: i64, column: i64, tile_rows: i64, tile_columns: i64, my_row: i64, my_column: i64,
    rows: i64, columns: i64, vectors: bool,
) -> None:  # fmt: skip
    """Write, or add to C, what a thread has of the tile of `tile_rows` x `tile_columns` that begins at `row` and `column`; `my_row` and `my_column` count
    vectors from there. `vectors` writes four columns at once."""
    fours = as_vectors(c, 4) if vectors else c
    if p < c.shape[0] and q < c.shape[1]:
        if vectors and e.accumulate == 0 and row + tile_rows <= c.shape[2] and column + tile_columns <= c.shape[3]:
            for i in unroll(rows):
                for j in unroll(columns // 4):
                    # the tile lies inside
                    fours.unchecked[p, q, row + 4 * (my_row + LANE_ROWS * (i // 4)) + i % 4, column // 4 + my_column + LANE_COLUMNS * j] = (
                        e.alpha * f32x4(sums[i, 4 * j], sums[i, 4 * j + 1], sums[i, 4 * j + 2], sums[i, 4 * j + 3])
                    )
        else:
            for i in unroll(rows):
                to = row + 4 * (my_row + LANE_ROWS * (i // 4)) + i % 4
                if to < c.shape[2]:
                    for j in unroll(columns // 4):
                        first = column // 4 + my_column + LANE_COLUMNS * j
                        if vectors:
                            if first < fours.shape[3]:
                                value = e.alpha * f32x4(sums[i, 4 * j], sums[i, 4 * j + 1], sums[i, 4 * j + 2], sums[i, 4 * j + 3])
                                if e.accumulate != 0:
                                    old = fours[p, q, to, first]
                                    fours[p, q, to, first] = old + value
                                else:
                                    fours[p, q, to, first] = value
                        else:
                            for of in unroll(4):
                                if 4 * first + of < c.shape[3]:
                                    single = e.alpha * sums[i, 4 * j + of]
                                    if e.accumulate != 0:
                                        before = c[p, q, to, 4 * first + of]
                                        c[p, q, to, 4 * first + of] = before + single
                                    else:
                                        c[p, q, to, 4 * first + of] = single
