"""Loops in strips, tests that stand before a loop, and hints of what is read soon: taken where they help, and without a trace in results and failures."""

from __future__ import annotations

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
    i64,
    kernel,
    prefetch,
    struct,
    sync_threads,
    thread_idx,
    thread_index,
    tile_index,
    tiles,
    u32,
)
from kdsl.backend.cpu import HostCpu, compile, compile_assembly, compile_ir, compile_object
from kdsl.backend.cpu.object_file import undefined_symbols
from kdsl.backend.cpu.strips import Strips, cut
from kdsl.ir import nodes

HOSTS = ["x86-64-v3", "x86-64-v4", "aarch64"]


@struct
class Sizes:
    """Numbers of a launch."""

    m: u32
    """Rows of C."""
    n: u32
    """Columns of C."""
    k: u32
    """Columns of A."""
    a_row: i64
    """Elements from one row of A to the next."""
    b_row: i64
    """The same for B."""


@kernel(grid=tiles(rows="p.m", columns="p.n", tile=(16, 16)), block=(16, 16))
def product(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Sizes) -> None:
    tile = tile_index()
    row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
    if row < p.m and column < p.n:
        total = f32(0)
        for k in range(p.k):
            total = fma(a[row * p.a_row + k], b[column + k * p.b_row], total)
        c[row * p.n + column] = c[row * p.n + column] + total


@kernel(grid=tiles(rows="p.m", columns="p.n", tile=(16, 16)), block=(16, 16))
def product_without_a_guard(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Sizes) -> None:
    tile = tile_index()
    row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
    total = f32(0)
    for k in range(3, p.k):
        total = fma(a[row * p.a_row + k], b[column + k * p.b_row], total)
    c[row * p.n + column] = total


@kernel(grid=tiles(rows="p.m", columns="p.n", tile=(16, 16)), block=(16, 16))
def sums_of_rows(c: SliceMut[f32], a: Slice[f32], p: Sizes) -> None:
    tile = tile_index()
    row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
    total = f32(0)
    for k in range(p.k):
        total += a[row * p.a_row + k + column]
    if row < p.m and column < p.n:
        c[row * p.n + column] = total


@kernel(grid=tiles(rows="p.m", columns="p.n", tile=(16, 16)), block=(16, 16))
def leaves_early(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Sizes) -> None:
    tile = tile_index()
    row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
    total = f32(0)
    for k in range(p.k):
        if b[k * p.b_row] < 0.0:
            break
        total += a[row * p.a_row] * b[column + k * p.b_row]
    c[row * p.n + column] = total


@pytest.mark.parametrize("k", [0, 1, 63, 64, 65, 130])
@pytest.mark.parametrize(("m", "n"), [(17, 33), (32, 64)])
def test_strips_add_up_to_the_whole(m: int, n: int, k: int) -> None:
    device, rng = kdsl.device("cpu"), np.random.default_rng(5)
    a, b, c = (rng.integers(-99, 99, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    found = device.array(c.ravel())
    product(
        found,
        device.array(np.append(a.ravel(), np.float32(0))),
        device.array(np.append(b.ravel(), np.float32(0))),
        Sizes(m=m, n=n, k=k, a_row=k, b_row=n),
    )
    np.testing.assert_array_equal(found.numpy().reshape(m, n), c + a @ b)


def test_the_loop_of_a_product_is_cut_and_others_are_not() -> None:
    def strips(made: kdsl.Kernel) -> int:
        return sum(isinstance(op, Strips) for op in nodes.walk(cut(made.ir()).body))

    assert strips(product) == strips(product_without_a_guard) == 1
    assert strips(sums_of_rows) == strips(leaves_early) == 0


def test_a_product_with_and_without_strips_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDSL_CACHE", "0")
    device, rng = kdsl.device("cpu"), np.random.default_rng(6)
    a, b = (rng.standard_normal(64 * 100, dtype=np.float32) for _ in range(2))

    def run() -> bytes:
        made = kernel(grid=tiles(rows="p.m", columns="p.n", tile=(16, 16)), block=(16, 16))(product_without_a_guard.__wrapped__)
        c = device.array(np.full(32 * 64, np.nan, np.float32))
        made(c, device.array(a), device.array(b), Sizes(m=32, n=64, k=100, a_row=100, b_row=64))
        return bytes(c.numpy().tobytes())

    wanted = run()
    monkeypatch.setattr(compile, "cut", lambda whole: whole)
    assert run() == wanted


@kernel(grid=tiles(rows="p.m", columns="p.n", tile=(16, 16)), block=(16, 16))
def strided_sums(c: SliceMut[f32], a: Slice[f32], first: i64, step: i64, p: Sizes) -> None:
    tile = tile_index()
    row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
    if row < p.m and column < p.n:
        total = f32(0)
        for k in range(p.k):
            total += a[first + column + k * step]
        c[row * p.n + column] = total


@pytest.mark.parametrize(
    ("first", "step", "k", "is_outside"),
    [
        (0, 10, 9, False),
        (84, -10, 9, False),
        (0, 10, 10, True),  # the last trip
        (-1, 10, 9, True),  # the first one
        (0, -(2**63), 3, True),  # the first and the last are inside, and what lies between is not
        (0, 2**63 - 1, 3, True),
        (5, 0, 0, False),
        (10**6, 1, 0, False),  # no trip reads
    ],
)
def test_a_test_before_the_loop_stands_for_those_of_all_trips(first: int, step: int, k: int, is_outside: bool) -> None:
    device, m, n = kdsl.device("cpu"), 32, 16
    a = np.arange(1, 101, dtype=np.float32)
    c = device.array(np.full(m * n, np.nan, np.float32))
    strided_sums(c, device.array(a), first, step, Sizes(m=m, n=n, k=k, a_row=0, b_row=0))
    if is_outside:
        with pytest.raises(BoundsError, match="array a"):
            device.synchronize()
    wanted = np.zeros(n, np.float32)
    for trip in range(k):
        for column in range(n):
            place = (first + column + trip * step + 2**63) % 2**64 - 2**63
            wanted[column] += a[place] if 0 <= place < len(a) else 0
    np.testing.assert_array_equal(c.numpy().reshape(m, n), np.broadcast_to(wanted, (m, n)))


@kernel(grid=tiles(rows="p.m", columns="p.n", tile=(16, 16)), block=(16, 16))
def sums_of_tiles(c: SliceMut[f32], a: Slice[f32], p: Sizes) -> None:
    tile = tile_index()
    x, y = thread_idx.x, thread_idx.y
    held = kdsl.shared_array((16, 16), f32)
    total = f32(0)
    for step in range(0, p.k, 16):
        held[y, x] = a[(tile.row + y) * p.a_row + (step + x)]
        sync_threads()
        total += held[y, x]
        sync_threads()
    c[(tile.row + y) * p.n + tile.column + x] = total


@kernel(grid=tiles(rows="p.m", columns="p.n", tile=(16, 16)), block=(16, 16))
def asks(c: SliceMut[f32], a: Slice[f32], p: Sizes) -> None:
    tile = tile_index()
    row, column = tile.row + thread_idx.y, tile.column + thread_idx.x
    prefetch(a, row * p.a_row + column)
    prefetch(a, -5)
    if row < p.m and column < p.n:
        c[row * p.n + column] = a[row * p.a_row + column]


HINTS = {"x86-64-v3": "prefetcht1", "x86-64-v4": "prefetcht1", "aarch64": "prfm"}


@pytest.mark.parametrize("host", HOSTS)
def test_hints_for_every_processor(host: str) -> None:
    def hints(made: kdsl.Kernel) -> int:
        return compile_assembly(made.ir(), HostCpu(host)).count(HINTS[host])

    assert hints(product) >= 1
    assert hints(asks) >= 2
    assert hints(sums_of_rows) == 0
    assert undefined_symbols(compile_object(product.ir(), HostCpu(host)).bytes) == []


def test_a_hint_does_nothing_even_far_outside() -> None:
    device = kdsl.device("cpu")
    a = np.arange(32 * 48, dtype=np.float32)
    for far in (48, 2**40):
        c = device.array(np.full(32 * 48, np.nan, np.float32))
        if far == 48:
            asks(c, device.array(a), Sizes(m=32, n=48, k=0, a_row=far, b_row=0))
            np.testing.assert_array_equal(c.numpy(), a)
        else:
            asks(c, device.array(a), Sizes(m=0, n=48, k=0, a_row=far, b_row=0))
    device.synchronize()


def test_a_hint_on_a_gpu_is_left_out_beyond_the_array() -> None:
    ptx = asks.ptx("sm_80")
    assert ptx.count("prefetch.global.L2") == 2
    assert ptx.count("setp.lt.u64 p") == 2


@pytest.mark.parametrize("k", [0, 16, 48])
def test_tiles_that_are_asked_for_ahead_are_the_same(k: int) -> None:
    device = kdsl.device("cpu")
    a = np.random.default_rng(8).integers(-9, 9, (32, 64)).astype(np.float32)
    c = device.array(np.full(32 * 16, np.nan, np.float32))
    sums_of_tiles(c, device.array(a.ravel()), Sizes(m=32, n=16, k=k, a_row=64, b_row=0))
    np.testing.assert_array_equal(c.numpy().reshape(32, 16), a[:, :k].reshape(32, k // 16, 16).sum(1))


# ------------------------------------------------------------------------------------------------------------- kernels without loops


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def update(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    i = thread_index()
    if i in y:
        y[i] = y[i] + x[i]


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def copy(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    i = thread_index()
    if i in y:
        y[i] = x[i]


@kernel(grid=elements("y"), requires=("len(x) >= 3 * len(y)",))
def every_third(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    i = thread_index()
    if i in y:
        y[i] = x[3 * i] + x[0]


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize(("of", "reads", "writes"), [(update, 2, 0), (copy, 1, 1), (every_third, 0, 0)])
def test_what_later_groups_access_is_asked_for_once(name: str, of: kdsl.Kernel, reads: int, writes: int) -> None:
    lines = {"x86-64-v3": 2, "x86-64-v4": 4, "aarch64": 1}[name]  # of a wide group
    text = compile_ir(of.ir(), HostCpu(name))
    assert text.count("prefetch.p0(ptr") - text.count("declare void @llvm.prefetch") == lines * (reads + writes)
    assert text.count("i32 1, i32 3, i32 1)") == lines * writes


@pytest.mark.parametrize("of", [update, copy, every_third])
@pytest.mark.parametrize("size", [1, 63, 64, 1000, 5000])
def test_hints_beyond_the_end_leave_no_trace(of: kdsl.Kernel, size: int) -> None:
    cpu = kdsl.device("cpu")
    x, y = np.arange(3 * size, dtype=np.float32), np.ones(size, np.float32)
    given, found = cpu.array(x if of is every_third else x[:size]), cpu.array(y)
    of(found, given)
    wanted = {update: y + x[:size], copy: x[:size], every_third: x[::3] + x[0]}[of]
    np.testing.assert_array_equal(found.numpy(), wanted)
