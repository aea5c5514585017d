"""Copies that a strip makes of what it reads for each row of threads: they are made where they help, and leave no trace in the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import Slice, SliceMut, elements, f32, f64, fma, i64, kernel, struct, thread_idx, tile_index, tiles, u8, u32
from kdsl.backend.cpu import HostCpu, compile_ir
from kdsl.backend.cpu.packed import Source

HOSTS = ["x86-64-v3", "x86-64-v4", "aarch64"]


@struct
class Sizes:
    """C is m x n, A m x k with strides, B k x n."""

    m: u32
    """Rows of A and C."""
    n: u32
    """Columns of B and C."""
    k: u32
    """Columns of A, rows of B."""
    start: u32
    """The first column of A, and row of B, that counts."""
    a_row: i64
    """Elements from one row of A to the next."""
    a_column: i64
    """Elements from one column of A to the next."""


GRID = tiles(rows="p.m", columns="p.n", tile=(16, 16))


def product_of(element: Any) -> kdsl.Kernel:
    """C = A B of floats, whatever type they have."""

    @kernel(grid=GRID, block=(16, 16))
    def product(c: SliceMut[element], a: Slice[element], b: Slice[element], p: Sizes) -> None:
        tile = tile_index()
        row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
        if row < p.m and column < p.n:
            total = element(0)
            for k in range(p.start, p.k):
                total = fma(a[row * p.a_row + k * p.a_column], b[k * p.n + column], total)
            c[row * p.n + column] = total

    return product


product, product_of_f64 = product_of(f32), product_of(f64)


@kernel(grid=GRID, block=(16, 16))
def product_of_bytes(c: SliceMut[u32], a: Slice[u8], b: Slice[u8], p: Sizes) -> None:
    tile = tile_index()
    row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
    if row < p.m and column < p.n:
        total = u32(0)
        for k in range(p.start, p.k):
            total += u32(a[row * p.a_row + k * p.a_column]) * u32(b[k * p.n + column])
        c[row * p.n + column] = total


@kernel(grid=GRID, block=(16, 16))
def two_rows(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Sizes) -> None:
    """Two loads whose elements are copied."""
    tile = tile_index()
    row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
    if row < p.m and column < p.n:
        total = f32(0)
        for k in range(p.start, p.k):
            right = b[k * p.n + column]
            total = fma(a[row * p.a_row + k * p.a_column], right, total)
            total = fma(a[(p.m - 1 - row) * p.a_row + k * p.a_column], right, total)
        c[row * p.n + column] = total


@kernel(grid=elements("c"), block=256)
def without_rows(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Sizes) -> None:
    i = kdsl.thread_index()
    if i < p.n:
        total = f32(0)
        for k in range(p.k):
            total = fma(a[k], b[k * p.n + i], total)
        c[i] = total


KERNELS = {product: np.float32, product_of_f64: np.float64, product_of_bytes: np.uint8, two_rows: np.float32}


def result(made: kdsl.Kernel, m: int, n: int, k: int, *, start: int = 0, is_transposed: bool = False) -> Any:
    """What a kernel computes from numbers that are the same each time."""
    device, kind, rng = kdsl.device("cpu"), KERNELS[made], np.random.default_rng(m + k)
    a, b = (rng.standard_normal(size) * 99 for size in (m * k, k * n))
    left, right = (device.array(np.append(x.astype(np.int64) if kind is np.uint8 else x, 0).astype(kind)) for x in (a, b))
    c = device.array(np.full(m * n, 7, np.uint32 if kind is np.uint8 else kind))
    strides = (1, m) if is_transposed else (k, 1)
    made(c, left, right, Sizes(m=m, n=n, k=k, start=start, a_row=strides[0], a_column=strides[1]))
    return c.numpy()


@pytest.mark.parametrize("made", list(KERNELS))
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(("m", "n", "k", "start"), [(32, 32, 0, 0), (48, 16, 9, 0), (32, 48, 64, 3), (33, 35, 81, 0), (160, 32, 207, 5)])
def test_copies_change_no_bit(made: Any, m: int, n: int, k: int, start: int, is_transposed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with_copies = result(made, m, n, k, start=start, is_transposed=is_transposed)
    monkeypatch.setenv("KDSL_CACHE", "0")
    monkeypatch.setattr(Source, "is_worth_a_copy", False)
    fresh = kernel(grid=GRID, block=(16, 16))(made.__wrapped__)
    monkeypatch.setitem(KERNELS, fresh, KERNELS[made])
    assert result(fresh, m, n, k, start=start, is_transposed=is_transposed).tobytes() == with_copies.tobytes()


@pytest.mark.parametrize("host", HOSTS)
def test_copies_are_made_where_rows_of_threads_share_elements(host: str) -> None:
    def copies(made: kdsl.Kernel) -> int:
        return compile_ir(made.ir(), HostCpu(host)).count("alloca [")

    fills_lines = host == "x86-64-v4"  # the elements of a trip, where a wide group has sixteen rows
    assert copies(product) == copies(product_of_f64) == 1 + fills_lines  # row by row, and trip by trip
    assert copies(product_of_bytes) == 1
    assert copies(two_rows) == 2  # row by row: the second load goes through them the other way
    assert copies(without_rows) == 0
