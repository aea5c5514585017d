"""Masks of wide groups, a register at a time; columns turned in registers; loops in parts whose loads are checked."""

from typing import Any, TypeVar

import numpy as np
import pytest

import kdsl
from kdsl import (
    BoundsError,
    Slice,
    SliceMut,
    f32,
    f64,
    fma,
    i16,
    kernel,
    local_array,
    shared_array,
    struct,
    sync_threads,
    thread_idx,
    tile_index,
    tiles,
    u32,
    unroll,
)
from kdsl.backend.cpu import HostCpu, compile_assembly
from kdsl.backend.cpu.compile import compile_ir

T = TypeVar("T", f32, f64, i16)


@struct
class Shape:
    """The shape of a matrix."""

    rows: u32
    """Its rows."""
    columns: u32
    """Its columns."""


@kernel(grid=tiles(rows="p.rows", columns="p.columns", tile=(16, 16)), block=(16, 16))
def filled_up(y: SliceMut[f32], x: Slice[f32], p: Shape) -> None:
    """Copies a matrix by way of shared memory, where what is beyond its edges is 7; then elements above 2 are halved."""
    shared = shared_array((16, 16), f32)
    tile = tile_index()
    row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
    shared[thread_idx.y, thread_idx.x] = x[row * p.columns + column] if row < p.rows and column < p.columns else 7.0
    sync_threads()
    value = shared[thread_idx.y, thread_idx.x]
    halved = value * 0.5 if value > 2.0 and row < p.rows else value
    if row < p.rows and column < p.columns:
        y[row * p.columns + column] = halved


@kernel(grid=1, block=(16, 16))
def turned(y: SliceMut[T], x: Slice[T], count: u32) -> None:
    """`count` times the transposed of a matrix of 16 x 16 elements, by way of shared memory with longer rows."""
    shared = shared_array((16, 20), x.dtype)
    shared[thread_idx.x, thread_idx.y] = x[thread_idx.y * 16 + thread_idx.x]
    sync_threads()
    total = x.dtype(0)
    for _ in range(count):
        total += shared[thread_idx.y, thread_idx.x]
    y[thread_idx.y * 16 + thread_idx.x] = total


@kernel(grid=1, block=(8, 8))
def turned_by_eights(y: SliceMut[T], x: Slice[T], count: u32) -> None:
    """The same for 8 x 8 elements, whose columns are stores of eight."""
    shared = shared_array((8, 12), x.dtype)
    shared[thread_idx.x, thread_idx.y] = x[thread_idx.y * 8 + thread_idx.x]
    sync_threads()
    total = x.dtype(0)
    for _ in range(count):
        total += shared[thread_idx.y, thread_idx.x]
    y[thread_idx.y * 8 + thread_idx.x] = total


@kernel(grid=1, block=(16, 16))
def products(y: SliceMut[f32], a: Slice[f32], b: Slice[f32], count: u32) -> None:
    """Four sums per thread, more than fit the registers of AVX2, of elements of which none was shown to be inside."""
    total = local_array(4, f32)
    for j in unroll(4):
        total[j] = 0.0
    for k in range(count):
        left = a[thread_idx.y * count + k]
        for j in unroll(4):
            total[j] = fma(left, b[k * 64 + j * 16 + thread_idx.x], total[j])
    for j in unroll(4):
        y[thread_idx.y * 64 + j * 16 + thread_idx.x] = total[j]


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 17), (16, 16), (17, 9), (33, 40)])
def test_what_is_beyond_the_edges_of_a_tile_is_neither_read_nor_written(rows: int, columns: int) -> None:
    device = kdsl.device("cpu")
    x = np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float32) * 3
    y = device.array(np.full(rows * columns, np.nan, np.float32))
    filled_up(y, device.array(x.ravel()), Shape(rows=rows, columns=columns))
    assert np.array_equal(y.numpy().reshape(rows, columns), np.where(x > 2, x * np.float32(0.5), x))


def test_masks_without_registers_are_not_taken_apart() -> None:
    text = compile_ir(filled_up.ir(), HostCpu("x86-64-v3"))
    assert "@llvm.masked.load.v8f32" in text
    assert "shufflevector <64 x i1>" not in text


@pytest.mark.parametrize(("turn", "side"), [(turned, 16), (turned_by_eights, 8)])
@pytest.mark.parametrize("of", [f32, f64, i16])
def test_columns_are_turned_in_registers(of: Any, turn: Any, side: int) -> None:
    device = kdsl.device("cpu")
    x = np.arange(side * side).astype(of.numpy)
    y = device.array(np.zeros(side * side, of.numpy))
    turn(y, device.array(x), 3)
    assert np.array_equal(y.numpy().reshape(side, side), 3 * x.reshape(side, side).T)


@pytest.mark.parametrize(("host", "most"), [("x86-64-v3", 24), ("x86-64-v4", 100)])
def test_turning_takes_few_shuffles(host: str, most: int) -> None:
    text = compile_assembly(turned.ir(T=f32), HostCpu(host))
    assert "vunpcklps" in text
    assert sum(text.count(name) for name in ("vperm", "vblend", "vshuf", "vunpck", "vmovlhps")) <= most


@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_loop_in_parts_may_load_what_is_checked(count: int) -> None:
    device = kdsl.device("cpu")
    rng = np.random.default_rng(2)
    a, b = rng.integers(-9, 9, (16, count)).astype(np.float32), rng.integers(-9, 9, (count, 64)).astype(np.float32)
    y = device.array(np.full(1024, np.nan, np.float32))
    arrays = [device.array(np.append(x.ravel(), np.float32(0))) for x in (a, b)]
    products(y, *arrays, count)
    assert np.array_equal(y.numpy().reshape(16, 64), a @ b)


def test_a_loop_in_parts_records_what_is_outside() -> None:
    device = kdsl.device("cpu")
    a, b, y = (device.array(np.ones(n, np.float32)) for n in (16 * 5, 5 * 64 - 1, 1024))
    products(y, a, b, 5)
    with pytest.raises(BoundsError, match=r"index 319 .* b"):
        device.synchronize()
