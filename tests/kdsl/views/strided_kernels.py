"""Kernels on views of several dimensions that the tests of this folder share."""

from __future__ import annotations

from typing import TypeVar

from kdsl import (
    D2,
    D3,
    D4,
    D5,
    Slice,
    SliceMut,
    atomic_add,
    block_idx,
    elements,
    f32,
    f64,
    function,
    i32,
    i64,
    kernel,
    sweep,
    thread_idx,
    thread_index,
    tiles,
)

TILE = (8, 32)
T = TypeVar("T", f32, f64, i32)


@kernel(grid=tiles(rows="y.shape[0]", columns="y.shape[1]", tile=TILE))
def copy2(x: Slice[f32, D2], y: SliceMut[f32, D2]) -> None:
    row = block_idx.y * 8 + thread_idx.y
    column = block_idx.x * 32 + thread_idx.x
    if row < y.shape[0] and column < y.shape[1]:
        y[row, column] = x[row, column]


@kernel(grid=tiles(rows="y.shape[0]", columns="y.shape[1]", tile=(16, 4)))
def copy_narrow(x: Slice[f32, D2], y: SliceMut[f32, D2]) -> None:
    """Groups of lanes span several rows."""
    row = block_idx.y * 16 + thread_idx.y
    column = block_idx.x * 4 + thread_idx.x
    if row < y.shape[0] and column < y.shape[1]:
        y[row, column] = x.unchecked[row, column]


@kernel(grid=tiles(rows="y.shape[0]", columns="y.shape[1]", tile=TILE))
def doubled(x: Slice[T, D2], y: SliceMut[T, D2]) -> None:
    row = block_idx.y * 8 + thread_idx.y
    column = block_idx.x * 32 + thread_idx.x
    if row < y.shape[0] and column < y.shape[1]:
        y[row, column] = x[row, column] + x[row, column]


@kernel(grid=sweep(blocks=2), block=64)
def picked(x: Slice[f32, D2], rows: Slice[i32], y: SliceMut[f32, D2]) -> None:
    """y[i, j] = x[rows[i], j], where each lane has its own row."""
    for i in range(thread_index(), y.shape[0], 128):
        for j in range(y.shape[1]):
            y[i, j] = x[rows[i], j]


@kernel(
    grid=tiles(rows="c.shape[0]", columns="c.shape[1]", tile=TILE),
    requires=("a.shape[1] == b.shape[0]", "len(a) == len(c)", "b.shape[1] == c.shape[1]"),
)
def product(a: Slice[f32, D2], b: Slice[f32, D2], c: SliceMut[f32, D2]) -> None:
    row = block_idx.y * 8 + thread_idx.y
    column = block_idx.x * 32 + thread_idx.x
    if row < c.shape[0] and column < c.shape[1]:
        total = f32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


@kernel(grid=sweep(blocks=3), block=64)
def scale3(x: Slice[f64, D3], y: SliceMut[f64, D3]) -> None:
    planes, rows, columns = y.shape
    for n in range(thread_index(), planes * rows * columns, 3 * 64):
        i = n // (rows * columns)
        j = n // columns % rows
        k = n % columns
        y[i, j, k] = 2 * x[i, j, k] + y[i, j, k]


@function
def element(x: Slice[i32, D4], i: i64, j: i64, k: i64, m: i64) -> i32:
    return x[i, j, k, m]


@kernel(grid=sweep(blocks=2), block=96)
def copy4(x: Slice[i32, D4], y: SliceMut[i32, D4]) -> None:
    for n in range(thread_index(), y.shape[0] * y.shape[1] * y.shape[2] * y.shape[3], 2 * 96):
        m = n % y.shape[3]
        k = n // y.shape[3] % y.shape[2]
        j = n // (y.shape[3] * y.shape[2]) % y.shape[1]
        i = n // (y.shape[3] * y.shape[2] * y.shape[1])
        y[i, j, k, m] = element(x, i, j, k, m)


@kernel(grid=("y.shape[0]", "y.shape[1]", "y.shape[2]"), block=32)
def copy5(x: Slice[i32, D5], y: SliceMut[i32, D5]) -> None:
    i, j, k = block_idx.x, block_idx.y, block_idx.z
    for m in range(y.shape[3]):
        for n in range(thread_idx.x, y.shape[4], 32):
            y[i, j, k, m, n] = x[i, j, k, m, n]


@kernel(grid=elements("out"))
def at2(x: Slice[f32, D2], out: SliceMut[f32], row: i32, column: i32) -> None:
    i = thread_index()
    if i < 1:
        out[i] = x[row, column]


@kernel(grid=elements("out"))
def at4(x: SliceMut[i32, D4], out: SliceMut[f32], i: i32, j: i32, k: i32, m: i32) -> None:
    n = thread_index()
    if n < 1:
        x[i, j, k, m] = 7


@kernel(grid=elements("out"))
def at5(x: SliceMut[i32, D5], out: SliceMut[f32], i: i32, j: i32, k: i32, m: i32, last: i32) -> None:
    n = thread_index()
    if n < 1:
        x[i, j, k, m, last] = 7


@kernel(grid=elements("rows"))
def lengths(x: Slice[f32, D3], rows: SliceMut[i32]) -> None:
    i = thread_index()
    if i < 1:
        rows[0] = i32(len(x))
        rows[1] = i32(x.shape[1])
        rows[2] = i32(x.shape[2])


@kernel(grid=elements("which"))
def count(which: Slice[i32], totals: SliceMut[i32, D2]) -> None:
    i = thread_index()
    if i in which:
        atomic_add(totals, (which[i] % 3, which[i] // 3), 1)
