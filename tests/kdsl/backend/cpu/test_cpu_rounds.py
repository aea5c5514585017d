"""Blocks of a column of tiles that make the trips of their loop in turns: each keeps its own sums and shared arrays, and no bit changes."""

from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import (
    Const,
    Slice,
    SliceMut,
    f32,
    fma,
    kernel,
    local_array,
    shared_array,
    struct,
    sync_threads,
    thread_idx,
    tile_index,
    tiles,
    u32,
)
from kdsl.backend.cpu import HostCpu, compile_assembly, compile_ir, compile_object
from kdsl.backend.cpu.compile import build_module

BLOCK = 8


@struct
class Sizes:
    """C is m x n, A m x k, B k x n, each row by row; a batch of C with the same A and B."""

    batch: u32
    """Matrices C."""
    m: u32
    """Rows of A and C."""
    n: u32
    """Columns of B and C."""
    k: u32
    """Columns of A, rows of B."""


GRID = tiles(rows="p.m", columns="p.n", batch="p.batch", tile=(BLOCK, BLOCK))
FITS = ("p.batch * p.m * p.n <= len(c)", "p.m * p.k <= len(a)", "p.k * p.n <= len(b)")


@kernel(grid=GRID, block=(BLOCK, BLOCK), requires=FITS)
def tiled(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Sizes) -> None:
    a_tile, b_tile = shared_array((BLOCK, BLOCK), f32), shared_array((BLOCK, BLOCK), f32)
    bias = shared_array(BLOCK, f32)
    tile = tile_index()
    x, y = thread_idx.x, thread_idx.y
    row, column = tile.row + y, tile.column + x
    if y == 0:
        bias[x] = f32(column + 100 * tile.batch)  # a block's own, read behind the loop
    total = f32(row)
    for step in range(0, p.k, BLOCK):
        a_tile[y, x] = a[row * p.k + (step + x)] if row < p.m and step + x < p.k else 0.0
        b_tile[y, x] = b[(step + y) * p.n + column] if step + y < p.k and column < p.n else 0.0
        sync_threads()
        for k in range(BLOCK):
            total = fma(a_tile[y, k], b_tile[k, x], total)
        sync_threads()
    if row < p.m and column < p.n:
        c[(tile.batch * p.m + row) * p.n + column] = total + bias[x]


@kernel(grid=GRID, block=(BLOCK, BLOCK), requires=FITS)
def naive(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Sizes) -> None:
    tile = tile_index()
    row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
    if row < p.m and column < p.n:
        total = f32(row)
        for k in range(p.k):
            total = fma(a[row * p.k + k], b[k * p.n + column], total)
        c[(tile.batch * p.m + row) * p.n + column] = total + f32(column + 100 * tile.batch)


@kernel(grid=GRID, block=(BLOCK, BLOCK), requires=FITS)
def with_local_arrays(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Sizes) -> None:
    b_tile = shared_array((BLOCK, BLOCK), f32)
    total = local_array(2, f32)
    tile = tile_index()
    x, y = thread_idx.x, thread_idx.y
    row, column = tile.row + y, tile.column + x
    total[0], total[1] = f32(row), f32(column + 100 * tile.batch)
    for step in range(0, p.k, BLOCK):
        b_tile[y, x] = b[(step + y) * p.n + column] if step + y < p.k and column < p.n else 0.0
        sync_threads()
        for k in range(BLOCK):
            left = a[row * p.k + (step + k)] if row < p.m and step + k < p.k else 0.0
            total[k % 2] = fma(left, b_tile[k, x], total[k % 2])
        sync_threads()
    if row < p.m and column < p.n:
        c[(tile.batch * p.m + row) * p.n + column] = total[0] + total[1]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("sizes", [(1, 32, 8, 300), (1, 75, 13, 129), (2, 9, 33, 128), (3, 40, 20, 0), (1, 5, 70, 513)], ids=str)
def test_each_block_keeps_its_own(sizes: tuple[int, int, int, int], threads: int) -> None:
    batch, m, n, k = sizes
    device, rng = kdsl.device("cpu"), np.random.default_rng(k)
    a, b = rng.integers(-4, 5, (m, k)).astype(np.float32), rng.integers(-4, 5, (k, n)).astype(np.float32)
    row, column, place = np.arange(m)[:, None], np.arange(n), np.arange(batch)[:, None, None]
    expected = (a @ b + row + column + 100 * place).astype(np.float32)
    left, right = (device.array(x.reshape(-1) if x.size else np.zeros(1, np.float32)) for x in (a, b))
    before = kdsl.runtime.pool.threads()
    kdsl.runtime.pool.set_threads(threads)
    try:
        for product in (tiled, naive, with_local_arrays):
            c = device.array(np.full(batch * m * n, np.nan, np.float32))
            product(c, left, right, Sizes(batch=batch, m=m, n=n, k=k))
            np.testing.assert_array_equal(c.numpy().reshape(batch, m, n), expected)
    finally:
        kdsl.runtime.pool.set_threads(before)


def test_a_loop_may_start_anywhere() -> None:
    @kernel(grid=GRID, block=(BLOCK, BLOCK), requires=("p.batch * p.m * p.n <= len(c)",))
    def windows(c: SliceMut[f32], p: Sizes) -> None:
        table = shared_array((BLOCK, 256), f32)
        tile = tile_index()
        x, y = thread_idx.x, thread_idx.y
        row, column = tile.row + y, tile.column + x
        for i in range(256 // BLOCK):
            table[y, BLOCK * i + x] = f32(tile.row + BLOCK * i + x)
        sync_threads()
        total = f32(0)
        for step in range(4, p.k, BLOCK):  # not a multiple of the step, which tells how an access is aligned
            total += table[y, step + x] if step + x < 256 else 0.0
            sync_threads()
        if row < p.m and column < p.n:
            c[(tile.batch * p.m + row) * p.n + column] = total

    assert blocks_at_once(windows)
    m, n, k = 40, 8, 230
    c = kdsl.device("cpu").zeros(m * n, f32)
    windows(c, Sizes(batch=1, m=m, n=n, k=k))
    row, column = np.arange(m)[:, None] // BLOCK * BLOCK, np.arange(n)
    expected = sum(row + step + column for step in range(4, k, BLOCK))
    np.testing.assert_array_equal(c.numpy().reshape(m, n), expected)


TILE = 16


@kernel(grid=tiles(rows="p.m", columns="p.n", batch="p.batch", tile=(TILE, TILE)), block=(TILE, TILE), requires=FITS)
def some_columns(
    c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Sizes, *, start: Const[int], stop: Const[int], step: Const[int]
) -> None:
    """Of each tile of A only some columns count."""
    a_tile, b_tile = shared_array((TILE, TILE), f32), shared_array((TILE, TILE), f32)
    tile = tile_index()
    x, y = thread_idx.x, thread_idx.y
    row, column = tile.row + y, tile.column + x
    total = f32(0)
    for begin in range(0, p.k, TILE):
        a_tile[y, x] = a[row * p.k + (begin + x)] if row < p.m and begin + x < p.k else 0.0
        b_tile[y, x] = b[(begin + y) * p.n + column] if begin + y < p.k and column < p.n else 0.0
        sync_threads()
        for k in range(start, stop, step):
            total = fma(a_tile[y, k], b_tile[k, x], total)
        sync_threads()
    if row < p.m and column < p.n:
        c[(tile.batch * p.m + row) * p.n + column] = total


COLUMNS = [(0, 16, 1), (0, 14, 1), (3, 11, 2), (15, -1, -1), (15, 3, -3), (0, 4, 1)]


@pytest.mark.parametrize("columns", COLUMNS, ids=str)
@pytest.mark.parametrize("sizes", [(144, 48, 160), (70, 33, 150)], ids=str)
def test_trips_that_run_together_are_all_made_in_order(sizes: tuple[int, int, int], columns: tuple[int, int, int]) -> None:
    m, n, k = sizes
    start, stop, step = columns
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    expected = np.zeros((m, n), np.float32)
    for begin in range(0, k, TILE):
        for i in range(begin + start, begin + stop, step):
            if i < k:  # beyond it a tile holds zeros
                product = a[:, i, None].astype(np.float64) * b[i].astype(np.float64)  # exact
                total = product + expected
                error = np.where(abs(product) > abs(expected), (product - total) + expected, (expected - total) + product)
                # to odd where a bit was lost, so that what comes next rounds once, as `fma` does
                lost = (error != 0) & (total.view(np.int64) % 2 == 0)
                towards = np.where(error > 0, np.inf, -np.inf)
                expected = np.where(lost, np.nextafter(total, towards), total).astype(np.float32)
    device = kdsl.device("cpu")
    c = device.array(np.full(m * n, np.nan, np.float32))
    sizes_of = Sizes(batch=1, m=m, n=n, k=k)
    some_columns(c, device.array(a.reshape(-1)), device.array(b.reshape(-1)), sizes_of, start=start, stop=stop, step=step)
    np.testing.assert_array_equal(c.numpy().reshape(m, n), expected)


def test_multiplications_read_at_constant_distances() -> None:
    host = HostCpu("x86-64-v4")

    def multiplications(start: int, stop: int, step: int) -> list[str]:
        text = compile_assembly(some_columns.ir(start=start, stop=stop, step=step), host)
        return [line.split("\t")[2] for line in text.splitlines() if "vfmadd" in line and "{1to16}" in line]

    for columns, trips in (((0, 16, 1), 4), ((3, 11, 2), 4), ((15, -1, -1), 4), ((0, 14, 1), 1)):
        found = multiplications(*columns)
        assert len(found) == trips * TILE
        assert not any("," in operand.partition(")")[0] for operand in found) or trips == 1, found


def test_rows_of_tiles_are_read_one_from_the_other() -> None:
    @kernel(grid=GRID, block=(BLOCK, BLOCK), requires=FITS)
    def one_row(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Sizes) -> None:
        own = shared_array((BLOCK, BLOCK), f32)
        tile = tile_index()
        x, y = thread_idx.x, thread_idx.y
        row, column = tile.row + y, tile.column + x
        total = f32(0)
        for step in range(0, p.k, BLOCK):
            own[y, x] = b[step * p.n + column] if step < p.k and column < p.n else 0.0  # what all rows of threads read
            sync_threads()
            total += own[x, y]
            sync_threads()
        if row < p.m and column < p.n:
            c[(tile.batch * p.m + row) * p.n + column] = total

    def pointers(made: Any) -> int:
        return str(build_module(made.ir(), HostCpu("x86-64-v3"))[0]).count('call ptr @"llvm.launder')

    assert pointers(one_row) == 0
    assert pointers(tiled) == 2 * (BLOCK - 1) + 2  # from row to row of two tiles, and from where the trips of the inner loop read them


def blocks_at_once(made: Any) -> bool:
    """Whether the scratch memory has room for several blocks."""
    ir = made.ir()
    arrays: int = sum(array.size * array.type.itemsize for array in ir.arrays)
    scratch: int = compile_object(ir, HostCpu("x86-64-v3")).scratch_bytes
    return scratch >= 8 * (arrays + 4 * BLOCK * BLOCK)


def test_blocks_take_turns_where_nothing_shows_it() -> None:
    assert blocks_at_once(tiled)
    assert blocks_at_once(naive)
    assert blocks_at_once(with_local_arrays)

    @kernel(grid=GRID, block=(BLOCK, BLOCK))
    def may_fail(c: SliceMut[f32], a: Slice[f32], p: Sizes) -> None:
        own = shared_array((BLOCK, BLOCK), f32)
        tile = tile_index()
        x, y = thread_idx.x, thread_idx.y
        total = f32(0)
        for step in range(0, p.k, BLOCK):
            own[y, x] = a[(tile.row + y) * p.k + step + x]  # which failure comes first would show the order
            sync_threads()
            total += own[x, y]
            sync_threads()
        c[(tile.row + y) * p.n + tile.column + x] = total

    @kernel(grid=GRID, block=(BLOCK, BLOCK), requires=FITS)
    def own_bounds(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Sizes) -> None:
        own = shared_array((BLOCK, BLOCK), f32)
        tile = tile_index()
        x, y = thread_idx.x, thread_idx.y
        total = f32(0)
        for step in range(0, tile.row, BLOCK):  # not the same for all blocks
            own[y, x] = f32(step)
            sync_threads()
            total += own[x, y]
            sync_threads()
        if tile.row + y < p.m and tile.column + x < p.n:
            c[(tile.batch * p.m + tile.row + y) * p.n + tile.column + x] = total

    assert not blocks_at_once(may_fail)
    assert not blocks_at_once(own_bounds)


@pytest.mark.parametrize("host", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_blocks_of_a_round_share_what_they_ask_for(host: str) -> None:
    def hints(made: Any) -> int:
        text = compile_ir(made.ir(), HostCpu(host))
        return text.count("prefetch.p0(ptr") - text.count("declare void @llvm.prefetch")

    assert hints(naive) == 1  # in a loop before a strip
    assert hints(tiled) == BLOCK + 1  # a row of a tile each for a block that is alone, and in a loop
