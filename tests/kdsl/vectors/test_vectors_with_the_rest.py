"""Vectors together with the rest of the language: products in tiles, shared arrays whose shape the launch decides, clusters, swizzles, slices, print."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from refusal import refused

import kdsl
from kdsl import (
    D2,
    FixedArray,
    Slice,
    SliceMut,
    as_vectors,
    block_idx,
    cluster_rank,
    constant_array,
    copy_async,
    elements,
    f32,
    f32x2,
    f32x4,
    f64x2,
    i32,
    kernel,
    local_array,
    remote,
    shared_array,
    struct,
    sync_cluster,
    sync_threads,
    thread_idx,
    thread_index,
    tiles,
    unroll,
)
from kdsl.backend.cpu import HostCpu, compile_object
from kdsl.testing import devices
from kdsl.testing.ptx import assemble, filecheck

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
WITH_CLUSTERS = [d for d in devices() if d.name != "cpu" and d.capability >= (9, 0)]  # type: ignore[attr-defined]  # GPUs have one
RANDOM = np.random.default_rng(13)
TILE = 32
DEPTH = 8


@kernel(
    grid=tiles(rows="c.shape[0]", columns="4 * c.shape[1]", tile=(TILE, 4 * TILE)),
    block=(TILE, 8),
    requires=("a.shape[0] == c.shape[0]", "b.shape[1] == c.shape[1]", "a.shape[1] == b.shape[0]"),
)
def product(a: Slice[f32, D2], b: Slice[f32x4, D2], c: SliceMut[f32x4, D2]) -> None:
    """Each thread has four rows of a vector: 16 sums."""
    left, right = shared_array((TILE, DEPTH), f32), shared_array((DEPTH, TILE), f32x4)
    sums = local_array(4, f32x4)
    u, v = thread_idx.x, thread_idx.y
    column = block_idx.x * TILE + u
    for i in unroll(4):
        sums[i] = f32x4(0)
    for start in range(0, a.shape[1], DEPTH):
        for i in unroll(4):
            row = block_idx.y * TILE + v * 4 + i
            if u < DEPTH:
                left[v * 4 + i, u] = a[row, start + u] if row < a.shape[0] and start + u < a.shape[1] else 0.0
        right[v, u] = b[start + v, column] if start + v < b.shape[0] and column < b.shape[1] else f32x4(0)
        sync_threads()
        for k in range(DEPTH):
            across = right[k, u]
            for i in unroll(4):
                sums[i] += left[v * 4 + i, k] * across
        sync_threads()
    for i in unroll(4):
        row = block_idx.y * TILE + v * 4 + i
        if row < c.shape[0] and column < c.shape[1]:
            c[row, column] = sums[i]


@DEVICES
@pytest.mark.parametrize(("m", "n", "k"), [(1, 4, 1), (33, 68, 17), (32, 128, 8), (70, 260, 31)])
def test_a_product_of_matrices(device: Any, m: int, n: int, k: int) -> None:
    a, b = (RANDOM.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    c = device.full((m, n), np.nan, f32)
    product(device.array(a), device.array(b), c)
    assert np.array_equal(c.numpy(), a @ b)  # exact: small whole numbers
    if n > 4:  # parts of wider arrays
        wide, target = np.full((k, n + 12), np.nan, np.float32), np.full((m, n + 4), np.nan, np.float32)
        wide[:, 8 : 8 + n] = b
        c = device.array(target)
        product(device.array(a), device.array(wide)[:, 8 : 8 + n], c[:, 4:])
        assert np.array_equal(c.numpy()[:, 4:], a @ b)
        assert np.isnan(c.numpy()[:, :4]).all()


@pytest.mark.parametrize("generation", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_every_processor_has_code_for_products(generation: str) -> None:
    assert compile_object(product.ir(), HostCpu(generation)).bytes


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_products_load_whole_vectors(target: str) -> None:
    ptx = product.ptx(target)
    assert assemble(ptx, target).spills == 0
    assert "ld.shared.v4.b32" in ptx
    assert re.search(r"ld\.global(\.nc)?\.v4\.b32", ptx)
    assert "st.global.v4.b32" in ptx


# --------------------------------------------------------------------------------------------------- shared arrays sized by the launch


@kernel(grid="(len(y) + n - 1) // n", block=64)
def turned(x: Slice[f32x4], y: SliceMut[f32x4], n: i32) -> None:
    """y = x, turned around in pieces of n vectors."""
    piece = shared_array(n, f32x4)
    first = block_idx.x * n
    for t in range(thread_idx.x, len(piece), 64):
        if first + t < len(x):
            piece[t] = x[first + t]
    sync_threads()
    for t in range(thread_idx.x, n, 64):
        if first + t < len(y):
            y[first + t] = piece[min(n, len(x) - first) - 1 - t]


@kernel(grid=1, block=32)
def columns(x: Slice[f32, D2], y: SliceMut[f32x2, D2], more: i32) -> None:
    """y = x, through an array of numbers whose rows are read as vectors."""
    table = shared_array((x.shape[0], 2 * (x.shape[1] // 2 + more)), f32)
    for i in range(x.shape[0]):
        for j in range(thread_idx.x, x.shape[1], 32):
            table[i, j] = x[i, j]
    sync_threads()
    pairs = as_vectors(table, f32x2)
    for i in range(y.shape[0]):
        for j in range(thread_idx.x, y.shape[1], 32):
            y[i, j] = pairs[i, j]


@DEVICES
@pytest.mark.parametrize("n", [1, 5, 64, 100, 3000])
def test_an_array_of_vectors_sized_by_the_launch(device: Any, n: int) -> None:
    x = RANDOM.random((333, 4), np.float32)
    y = device.full(4 * 333, np.nan, f32)
    turned(device.array(x.reshape(-1)), y, n)
    wanted = np.concatenate([x[i : i + n][::-1] for i in range(0, 333, n)])
    assert np.array_equal(y.numpy(), wanted.reshape(-1))


@DEVICES
def test_too_few_elements(device: Any) -> None:
    @kernel(grid=1, block=32)
    def outside(y: SliceMut[f32x4], n: i32) -> None:
        piece = shared_array((2, n), f32x4)
        piece[1, thread_idx.x] = f32x4(1)
        sync_threads()
        y[0] = piece[1, n]

    y = device.full(4, 9.0, f32)
    outside(y, 5)
    with pytest.raises(kdsl.BoundsError, match=r"array piece: index \d+ of dimension 1 is out of bounds for 5 elements"):
        device.synchronize()
    assert not y.numpy().any()


@DEVICES
def test_rows_of_a_sized_array_as_vectors(device: Any) -> None:
    x = RANDOM.random((7, 34), np.float32)
    y = device.full((7, 34), np.nan, f32)
    columns(device.array(x), y, 1)
    assert np.array_equal(y.numpy(), x)


def test_rows_that_may_begin_within_a_vector() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: SliceMut[f32x2], n: i32) -> None:
        table = shared_array((4, n), f32)
        y[0] = as_vectors(table, f32x2)[0, 0]

    refused(
        wrong, "`table` cannot be taken as f32x2: its last extent, n, is not known to be a multiple of 2",
        at="as_vectors(table, f32x2)", hint="2 * n",
    )  # fmt: skip

    @kernel(grid=1, block=32, requires="n == 4 * m")
    def right(y: SliceMut[f32x4], n: i32, m: i32) -> None:
        table = shared_array((4, n), f32)
        y[0] = as_vectors(table, f32x4)[0, 0]

    assert right.ir()


def test_sized_arrays_in_ptx() -> None:
    for of, words in ((turned, r"(ld|st)\.shared\.v4\.b32"), (columns, r"ld\.shared\.v2\.b32")):
        for target in ("sm_80", "sm_90a"):
            ptx = of.ptx(target)
            assert re.search(words, ptx)
            assemble(ptx, target)


# ------------------------------------------------------------------------------------------------------------------- clusters, swizzles


@kernel(grid="len(y) // 64", block=64, cluster=2, requires=("len(x) == len(y)", "len(y) // 128 * 128 == len(y)"))
def passed_on(y: SliceMut[f32x4], x: Slice[f32x4], n: i32) -> None:
    """Each block gives its vectors to the other one: by writing, by reading, and through an array that the launch sizes."""
    mine, theirs, sized = shared_array(64, f32x4), shared_array((4, 64), f32), shared_array(n, f32x4)
    t = thread_idx.x
    i = block_idx.x * 64 + t
    mine[t] = x[i]
    sized[t] = x[i] * 2
    sync_cluster()
    other = 1 - cluster_rank()
    as_vectors(remote(theirs, other), f32x4)[t // 16, t % 16] = x[i] * 4
    sync_cluster()
    y[i] = remote(mine, other)[t] + remote(sized, other)[t] + as_vectors(theirs, f32x4)[t // 16, t % 16]
    sync_cluster()


@pytest.mark.parametrize("device", WITH_CLUSTERS, ids=str)
def test_vectors_of_another_block(device: Any) -> None:
    x = RANDOM.integers(-9, 9, (6, 64, 4)).astype(np.float32)
    y = device.full(x.size, np.nan, f32)
    passed_on(y, device.array(x.reshape(-1)), 64)
    assert np.array_equal(y.numpy(), 7 * x.reshape(3, 2, -1)[:, ::-1].reshape(-1))


def test_vectors_of_another_block_in_ptx() -> None:
    ptx = passed_on.ptx("sm_90a")
    assemble(ptx, "sm_90a")
    assert len(re.findall(r"ld\.shared::cluster\.v4\.b32", ptx)) == 2
    assert len(re.findall(r"st\.shared::cluster\.v4\.b32", ptx)) == 1


def test_another_block_is_touched_between_barriers_of_the_cluster() -> None:
    @kernel(grid=2, block=32, cluster=2)
    def wrong(y: SliceMut[f32x4]) -> None:
        tile = shared_array(32, f32x4)
        tile[thread_idx.x] = f32x4(1)
        y[thread_idx.x] = remote(tile, 0)[thread_idx.x]
        sync_cluster()

    refused(wrong, "no sync_cluster() comes before", at="remote(tile, 0)[thread_idx.x]", hint="before")


@kernel(grid=elements("y"), block=64)
def exchanged(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
    """Through an array whose chunks of 16 bytes lie exchanged, as vectors and as numbers."""
    tile = shared_array((8, 32), f32, swizzle=128)
    chunks, t, i = as_vectors(tile, f32x4), thread_idx.x, thread_index()
    chunks[t // 8, t % 8] = x[i]
    sync_threads()
    row, column = t % 8, t // 8
    other = chunks[row, column]
    y[i] = f32x4(other.x, tile[row, 4 * column + 1], as_vectors(tile, f32x2)[row, 2 * column + 1].x, other.w)


@DEVICES
def test_swizzled_arrays(device: Any) -> None:
    x = RANDOM.random((3, 8, 8, 4), np.float32)
    y = device.full(x.size, np.nan, f32)
    exchanged(device.array(x.reshape(-1)), y)
    assert np.array_equal(y.numpy(), x.transpose(0, 2, 1, 3).reshape(-1))


def test_swizzled_arrays_in_ptx() -> None:
    filecheck(
        exchanged.ptx("sm_90a"),
        """
        CHECK: xor.b
        CHECK: st.shared.v4.b32
        CHECK: bar.sync
        CHECK: ld.shared.v4.b32
        CHECK: st.global.v4.b32
        """,
    )


# ------------------------------------------------------------------------------------------------------------- constant arrays, structs


TABLE = constant_array(np.arange(40).reshape(5, 8) ** 2, f32)


@struct
class Filter:
    """A filter."""

    taps: FixedArray[f32, 8]
    """Its coefficients."""


@struct
class Point:
    """A place."""

    x: f32
    """Along."""
    y: f32
    """Across."""


@kernel(grid=elements("y"))
def looked_up(which: Slice[i32], y: SliceMut[f32x4]) -> None:
    i = thread_index()
    if i in y and i in which:
        rows = as_vectors(TABLE, f32x4)
        y[i] = rows[which[i], i % 2] + rows[4, 1] + as_vectors(TABLE, 2)[1, 0].y


@DEVICES
def test_constant_arrays(device: Any) -> None:
    which = RANDOM.integers(0, 5, 70).astype(np.int32)
    y = device.full(280, np.nan, f32)
    looked_up(device.array(which), y)
    table = np.arange(40, dtype=np.float32).reshape(5, 2, 4) ** 2
    assert np.array_equal(y.numpy().reshape(70, 4), table[which, np.arange(70) % 2] + table[4, 1] + table[1, 0, 1])
    looked_up(device.array(np.array([5], np.int32)), y)
    with pytest.raises(kdsl.BoundsError, match="array TABLE: index 5 of dimension 0 is out of bounds for 5 elements"):
        device.synchronize()


def test_constant_arrays_in_ptx() -> None:
    ptx = looked_up.ptx("sm_80")
    assemble(ptx, "sm_80")
    assert "ld.const.v4.b32" in ptx


def test_arrays_in_structs_and_of_structs() -> None:
    @kernel(grid=1, block=32)
    def member(p: Filter, y: SliceMut[f32x4]) -> None:
        y[0] = as_vectors(p.taps, f32x4)[0]

    refused(member, "`p.taps` is an array in a struct", at="p.taps", hint="copy it")

    @kernel(grid=1, block=32)
    def of_structs(p: Slice[Point], y: SliceMut[f32x4]) -> None:
        y[0] = as_vectors(p, f32x4)[0]

    refused(of_structs, "`p` has elements of Point", at="as_vectors(p, f32x4)", hint="another element type")

    @kernel(grid=1, block=32)
    def by_number(p: Slice[Point], y: SliceMut[f32x4]) -> None:
        y[0] = as_vectors(p, 4)[0]

    refused(by_number, "the vectors of Point are none; this is 4", at="4", hint="another element type")


# ------------------------------------------------------------------------------------------------------- slices, instructions, printing


@kernel(grid=elements("y"))
def sliced(x: Slice[f64x2], y: SliceMut[f64x2]) -> None:
    i = thread_index()
    table = local_array((2, 3), f64x2)
    if i in y:
        table[0, :] = x[i], x[i] + 1, x[i] + 2
        table[1, 0:2] = table[0, 1:3]
        a, b = table[1, :2]
        y[i] = a * b


@DEVICES
def test_slices_of_local_arrays(device: Any) -> None:
    x = RANDOM.random(66)
    y = device.zeros(66, kdsl.f64)
    sliced(device.array(x), y)
    assert np.array_equal(y.numpy(), (x + 1) * (x + 2))


def test_instructions_take_arrays_of_numbers() -> None:
    @kernel(grid=1, block=32)
    def to_vectors(x: Slice[f32], y: SliceMut[f32x4]) -> None:
        tile = shared_array(32, f32x4)
        copy_async(tile, thread_idx.x, x, 4 * thread_idx.x, 4)
        y[0] = tile[0]

    refused(to_vectors, "`tile` is a shared array of f32x4 here, and this is for numbers", at="tile", hint="an array of f32")

    @kernel(grid=1, block=32)
    def of_vectors(x: Slice[f32x4], y: SliceMut[f32]) -> None:
        tile = shared_array(32, f32)
        copy_async(tile, 4 * thread_idx.x, x, thread_idx.x, 4)
        y[0] = tile[0]

    refused(of_vectors, "`x` is Slice[f32x4] here, and this is for numbers", at="x", hint="an array of f32")

    @kernel(grid=2, block=32, cluster=2)
    def counted(y: SliceMut[f32x4]) -> None:
        tile = shared_array(32, f32x4)
        sync_cluster()
        kdsl.atomic_add(remote(tile, 0), 1, 1.0)
        sync_cluster()

    refused(counted, "atomic_add() of f32x4 elements", at="remote(tile, 0)", hint="f32")


@kernel(grid=1, block=1)
def said(x: Slice[f32x2]) -> None:
    print("x:", x[0], f"{x[1]:.1f}")


@DEVICES
def test_printing(device: Any, capfd: Any) -> None:
    said(device.array(np.array([1, 2.5, 3, 4], np.float32)))
    device.synchronize()
    assert capfd.readouterr().out == "x: (1.0, 2.5) (3.0, 4.0)\n"
