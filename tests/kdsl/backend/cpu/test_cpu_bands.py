"""Blocks that are tiles run in bands: each of them once, and with its own number where something fails."""

import numpy as np
import pytest

import kdsl
from kdsl import BoundsError, Slice, SliceMut, f32, i32, kernel, struct, thread_idx, tile_index, tiles, u32
from kdsl.backend.cpu import HostCpu, compile_assembly


@struct
class Sizes:
    """A batch of matrices."""

    batch: u32
    """Matrices."""
    rows: u32
    """Rows of each."""
    columns: u32
    """Columns of each."""
    bad: u32
    """The first element that reads beyond the end."""


@kernel(grid=tiles(rows="p.rows", columns="p.columns", batch="p.batch", tile=(2, 4)), block=(4, 2))
def visit(y: SliceMut[i32], order: SliceMut[i32], x: Slice[f32], p: Sizes) -> None:
    tile = tile_index()
    row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
    if row < p.rows and column < p.columns:
        place = (tile.batch * p.rows + row) * p.columns + column
        total = f32(0)
        for k in range(3):
            total += x[place + k if place < p.bad else 10**6]
        y[place] += i32(total)
        order[place] = order[len(order) - 1]
        order[len(order) - 1] += 1


@pytest.mark.parametrize(("batch", "rows", "columns"), [(1, 2, 4), (2, 7, 9), (1, 17, 3), (3, 10, 12), (1, 1, 40)])
def test_each_block_runs_once(batch: int, rows: int, columns: int) -> None:
    device = kdsl.device("cpu")
    count = batch * rows * columns
    y, order = device.zeros(count, i32), device.zeros(count + 1, i32)
    x = device.array(np.ones(count + 3, np.float32))
    visit(y, order, x, Sizes(batch=batch, rows=rows, columns=columns, bad=count))
    assert np.array_equal(y.numpy(), np.full(count, 3))


def test_a_column_of_four_blocks_runs_before_the_next_one() -> None:
    device = kdsl.device("cpu")
    rows, columns = 12, 8  # 6 x 2 blocks
    y, order = device.zeros(rows * columns, i32), device.zeros(rows * columns + 1, i32)
    x = device.array(np.ones(rows * columns + 3, np.float32))
    threads = kdsl.runtime.pool.threads()
    kdsl.runtime.pool.set_threads(1)
    try:
        visit(y, order, x, Sizes(batch=1, rows=rows, columns=columns, bad=rows * columns))
    finally:
        kdsl.runtime.pool.set_threads(threads)
    first = order.numpy()[:-1].reshape(rows, columns)[::2, ::4]
    assert np.argsort(first.ravel()).tolist() == [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 9, 11]


def test_what_fails_is_told_with_the_number_of_its_block() -> None:
    device = kdsl.device("cpu")
    y, order, x = device.zeros(96, i32), device.zeros(97, i32), device.array(np.ones(99, np.float32))
    visit(y, order, x, Sizes(batch=1, rows=12, columns=8, bad=95))  # the last element: block (1, 5)
    with pytest.raises(BoundsError, match=r"block \(1, 5, 0\)"):
        device.synchronize()


def test_dividing_a_place_is_left_out_where_blocks_are_no_tiles() -> None:
    @kernel(grid=tiles(rows="p.rows", columns="p.columns", batch="p.batch", tile=(1, 4)), block=(4, 1))
    def rows_only(y: SliceMut[i32], p: Sizes) -> None:
        tile = tile_index()
        if tile.column + thread_idx.x < p.columns and tile.row < p.rows:
            y[(tile.batch * p.rows + tile.row) * p.columns + tile.column + thread_idx.x] = 1

    host = HostCpu("x86-64-v3")
    assert compile_assembly(rows_only.ir(), host).count("div") < compile_assembly(visit.ir(), host).count("div")
