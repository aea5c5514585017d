"""Wide groups, split loops and trips without masks: the fast ways give what the general one gives, also where they must not be taken."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kdsl
from kdsl import (
    BoundsError,
    DisjointSlice,
    Slice,
    SliceMut,
    elements,
    f32,
    fma,
    i32,
    kernel,
    lane_index,
    row_index,
    rows,
    shared_array,
    struct,
    sync_threads,
    thread_idx,
    thread_index,
    tile_index,
    tiles,
    u32,
    unroll,
    warp_sum,
)
from kdsl.backend.cpu import HostCpu, compile_ir, compile_object
from kdsl.backend.cpu.object_file import undefined_symbols

HOSTS = ["x86-64-v3", "x86-64-v4", "aarch64"]
SIZES = [1, 31, 33, 255, 256, 257, 1000]


@struct
class Sizes:
    """Numbers of a launch."""

    n: u32
    """A size or a bound."""
    m: u32
    """Another."""
    k: u32
    """A third."""


# ------------------------------------------------------------------------------------------------------------- what must not run twice


@kernel(grid=elements("count"))
def counts_then_fails(count: SliceMut[f32], other: SliceMut[f32], p: Sizes) -> None:
    i = thread_index()
    if i < len(count):
        count[i] = count[i] + 1.0
        other[i + p.n] = 2.0


@kernel(grid=elements("count"))
def counts_in_a_loop(count: SliceMut[f32], other: SliceMut[f32], p: Sizes) -> None:
    i = thread_index()
    if i < len(count):
        for k in range(3):
            count[i] = count[i] + 1.0
            other[i + k * p.n] = 2.0


@kernel(grid=elements("count"))
def counts_behind_a_check(count: SliceMut[f32], other: SliceMut[f32], p: Sizes) -> None:
    i = thread_index()
    if i < len(count):
        for k in range(3):
            other[i + k * p.n] = 2.0
            count[i] = count[i] + 1.0


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("kernel", "times"), [(counts_then_fails, 1), (counts_in_a_loop, 3), (counts_behind_a_check, 3)])
def test_an_update_before_a_failing_check_is_done_once(kernel: kdsl.Kernel, times: int, n: int) -> None:
    device = kdsl.device("cpu")
    count, other = device.zeros(n, f32), device.zeros(n + 5, f32)
    kernel(count, other, Sizes(n=9, m=0, k=0))
    with pytest.raises(BoundsError, match="other"):
        device.synchronize()
    np.testing.assert_array_equal(count.numpy(), np.full(n, times, np.float32))


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def twice_in_place(y: DisjointSlice[f32], x: Slice[f32], p: Sizes) -> None:
    i = thread_index()
    if i in y:
        y[i] = x[i] + 1.0
        if i < p.n:
            y[i] = x[i] * 3.0


@pytest.mark.parametrize("bound", [0, 1, 40, 64, 100, 256])
def test_in_place_a_second_look_sees_the_first_store(bound: int) -> None:
    device = kdsl.device("cpu")
    x = np.arange(300, dtype=np.float32)
    y = device.array(x)
    twice_in_place(y, y, Sizes(n=bound, m=0, k=0))
    np.testing.assert_array_equal(y.numpy(), np.where(np.arange(300) < bound, (x + 1) * 3, x + 1))


# ---------------------------------------------------------------------------------------------------------------------------- branches


@kernel(grid=elements("y"))
def compares(y: DisjointSlice[i32], p: Sizes) -> None:
    i = thread_index()
    if i in y:
        found = i32(0)
        if i < p.n:
            found += 1
        if i <= p.n:
            found += 2
        if i > p.n:
            found += 4
        if i >= p.n:
            found += 8
        if i == p.n:
            found += 16
        if i != p.n:
            found += 32
        if not (i < p.n) and (i < p.m or i > p.k):
            found += 64
        else:
            found += 128
        y[i] = found


@pytest.mark.parametrize("n", [0, 1, 7, 63, 64, 65, 200, 299, 300, 2**32 - 1])
def test_comparisons_with_a_bound_inside_and_outside_a_group(n: int) -> None:
    device = kdsl.device("cpu")
    y = device.full(300, -1, i32)
    m, k = 100, 170
    compares(y, Sizes(n=n, m=m, k=k))
    i = np.arange(300)
    terms = [(i < n, 1), (i <= n, 2), (i > n, 4), (i >= n, 8), (i == n, 16), (i != n, 32), (True, 0)]
    expected = sum(np.where(condition, value, 0) for condition, value in terms)
    np.testing.assert_array_equal(y.numpy(), expected + np.where((i >= n) & ((i < m) | (i > k)), 64, 128))


@kernel(grid=elements("y"))
def row_and_column(y: DisjointSlice[i32], p: Sizes) -> None:
    i = thread_index()
    if i in y:
        y[i] = i32(i // p.n * 1000 + i % p.n * 3 + i % 24)


@pytest.mark.parametrize("width", [0, 1, 7, 32, 64, 96, 100, 256, 5000])
def test_division_with_and_without_a_carry(width: int) -> None:
    device = kdsl.device("cpu")
    y = device.full(1000, -1, i32)
    row_and_column(y, Sizes(n=width, m=0, k=0))
    i = np.arange(1000)
    quotient, remainder = (i // width, i % width) if width else (0, 0)
    np.testing.assert_array_equal(y.numpy(), quotient * 1000 + remainder * 3 + i % 24)


# ------------------------------------------------------------------------------------------------------------- loops and shared tiles


@kernel(grid=tiles(rows="p.n", columns="p.m", tile=(16, 16)), block=(16, 16), requires=("len(y) == p.n * p.m", "len(x) == len(y)"))
def transpose(y: SliceMut[f32], x: Slice[f32], p: Sizes) -> None:
    tile = shared_array((16, 20), f32)
    flags = shared_array(256, f32)
    u, v = thread_idx.x, thread_idx.y
    at = tile_index()
    row, column = at.row + v, at.column + u
    inside = row < p.n and column < p.m
    odd = (u + v) % 2 == 1
    tile[u, v] = x[row * p.m + column] if inside else -1.0
    flags[v * 16 + u] = 1.0 if odd else 0.0
    sync_threads()
    down, right = at.row + u, at.column + v
    if down < p.n and right < p.m:
        y[right * p.n + down] = tile[v, u] + (100.0 if odd else flags[v * 16 + u])


@pytest.mark.parametrize(("n", "m"), [(1, 1), (16, 16), (17, 33), (64, 48), (5, 100), (100, 5)])
def test_transpose_through_a_shared_tile(n: int, m: int) -> None:
    device = kdsl.device("cpu")
    x = np.random.default_rng(n * m).standard_normal((n, m), dtype=np.float32)
    y = device.full(n * m, float("nan"), f32)
    transpose(y, device.array(x.ravel()), Sizes(n=n, m=m, k=0))
    row, column = np.indices((n, m))
    expected = x + np.where((row % 16 + column % 16) % 2 == 1, np.float32(100), np.float32(0))
    np.testing.assert_array_equal(y.numpy().reshape(m, n), expected.T)


def grid_of_sums(high: int, wide: int) -> kdsl.Kernel:
    """A kernel whose inner loop carries high * wide sums, and beside them two numbers that need one another."""

    @kernel(grid=tiles(rows="16 * p.n", columns="16 * p.n", tile=(16, 16)), block=(16, 16), requires=("len(y) == 256 * p.n * p.n * 4",))
    def sums(y: SliceMut[f32], p: Sizes) -> None:
        left = shared_array((16, 8), f32)
        total = kdsl.local_array((high, wide), f32)
        u, v = thread_idx.x, thread_idx.y
        if u < 8:
            left[v, u] = f32(v * 8 + u) * 0.37
        sync_threads()
        a, b, last = f32(u) * 0.1, f32(v) * 0.2, f32(0)
        for i in unroll(high):
            for j in unroll(wide):
                total[i, j] = 0.1
        for k in range(8):
            for i in unroll(high):
                for j in unroll(wide):
                    total[i, j] = fma(left[(v + i) % 16, k], left[(u + j) % 16, k], total[i, j])
            a, b = b, a * 0.5 + b
            last = left[u, k]
        sync_threads()
        at = tile_index()
        first = ((at.row + v) * (16 * p.n) + at.column + u) * 4
        y[first], y[first + 1], y[first + 2] = a, b, last
        whole = f32(0)
        for i in unroll(high):
            for j in unroll(wide):
                whole = whole * 0.5 + total[i, j]
        y[first + 3] = whole

    return sums


@pytest.mark.parametrize(("high", "wide"), [(1, 1), (4, 4), (3, 5), (7, 1), (1, 19)])
def test_a_loop_of_many_sums(high: int, wide: int) -> None:
    device = kdsl.device("cpu")
    n = 2
    y = device.full(256 * n * n * 4, float("nan"), f32)
    grid_of_sums(high, wide)(y, Sizes(n=n, m=0, k=0))
    left = (np.arange(128, dtype=np.float32) * np.float32(0.37)).reshape(16, 8)
    v, u = np.indices((16, 16))
    a, b = u.astype(np.float32) * np.float32(0.1), v.astype(np.float32) * np.float32(0.2)
    whole = np.zeros((16, 16), np.float32)
    for _ in range(8):
        a, b = b, (a.astype(np.float64) * 0.5 + b).astype(np.float32)
    for i in range(high):
        for j in range(wide):
            total = np.full((16, 16), 0.1, np.float32)
            for k in range(8):  # float64 holds a product of float32 exactly, so that this rounds nearly always like the fused one
                product = left[(v + i) % 16, k].astype(np.float64) * left[(u + j) % 16, k]
                total = (product + total).astype(np.float32)
            whole = (whole.astype(np.float64) * 0.5 + total).astype(np.float32)
    found = y.numpy().reshape(n, 16, n, 16, 4)[0, :, 0]
    np.testing.assert_array_equal(found[..., 0], a)
    np.testing.assert_array_equal(found[..., 1], b)
    np.testing.assert_array_equal(found[..., 2], np.broadcast_to(left[:, 7], (16, 16)))
    np.testing.assert_allclose(found[..., 3], whole, rtol=1e-6)


@kernel(grid=rows("p.n"), requires=("len(y) == p.n", "len(x) == p.n * p.m"))
def row_sums(y: DisjointSlice[f32], x: Slice[f32], p: Sizes) -> None:
    row = row_index()
    if row < p.n:
        total = f32(0)
        for column in range(lane_index(), p.m, 32):
            value = x[row * p.m + column]
            if value > 0.0:
                total += value
        total = f32(warp_sum(total))
        if lane_index() == 0:
            y[row] = total


@pytest.mark.parametrize("columns", [0, 1, 31, 32, 33, 64, 100])
def test_rows_of_every_length(columns: int) -> None:
    device = kdsl.device("cpu")
    x = np.random.default_rng(columns).integers(-9, 9, (5, columns)).astype(np.float32)
    y = device.full(5, float("nan"), f32)
    row_sums(y, device.array(x.ravel()), Sizes(n=5, m=columns, k=0))
    np.testing.assert_array_equal(y.numpy(), np.where(x > 0, x, 0).sum(axis=1))


# ------------------------------------------------------------------------------------------------------------------------------- code


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("kernel", [transpose, compares, row_and_column, counts_in_a_loop, grid_of_sums(4, 4), row_sums])
def test_wide_code_for_every_processor(name: str, kernel: kdsl.Kernel) -> None:
    assert undefined_symbols(compile_object(kernel.ir(), HostCpu(name)).bytes) == []


def test_sums_that_do_not_fit_the_registers_run_in_parts() -> None:
    text = compile_ir(grid_of_sums(4, 4).ir(), HostCpu("x86-64-v3"))
    loops = re.findall(r"llvm\.loop !\d+", text)
    assert len(loops) >= 2
    assert "llvm.loop.unroll.disable" in text
