"""Shared arrays whose extents the launch decides, on every device."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest
from refusal import refused

import kdsl
from kdsl import (
    D2,
    BoundsError,
    Const,
    DisjointSlice,
    LaunchError,
    Slice,
    SliceMut,
    atomic_add,
    bf16,
    block_index,
    copy_async,
    elements,
    f32,
    f64,
    function,
    i8,
    i16,
    i32,
    i64,
    kernel,
    local_array,
    shared_array,
    struct,
    sync_threads,
    thread_idx,
    thread_index,
    u8,
    wgmma,
)
from kdsl.ir.printer import print_kernel
from kdsl.testing import devices

on_all = pytest.mark.parametrize("device", devices(), ids=str)


@struct
class Window:
    """A window."""

    rows: i32
    """Its rows."""
    columns: i64
    """Its columns."""


@kernel(grid="len(y) // n", block=96, requires=("len(x) == len(y)",))
def reverse(y: SliceMut[f32], x: Slice[f32], n: i32) -> None:
    """Reverse pieces of `n` elements."""
    tile = shared_array(n, f32)
    first = block_index() * n
    for i in range(thread_idx.x, n, 96):
        tile[i] = x[first + i]
    sync_threads()
    for i in range(thread_idx.x, n, 96):
        y[first + i] = tile[n - 1 - i]


@kernel(grid=1, block=128)
def transpose(y: SliceMut[f64, D2], x: Slice[f64, D2]) -> None:
    """Through an array with a column more than the matrix has, beside one of fixed shape and one of bytes."""
    tile = shared_array((x.shape[0], x.shape[1] + 1), f64, align=256)
    seen = shared_array(x.shape[0] * x.shape[1], u8)
    counts = shared_array(1, i32)
    t, columns = thread_idx.x, x.shape[1]
    if t == 0:
        counts[0] = 0
    for i in range(t, len(seen), 128):
        seen[i] = 0
    sync_threads()
    for i in range(t, len(seen), 128):
        tile[i // columns, i % columns] = x[i // columns, i % columns]
        seen[i] = 1
    sync_threads()
    for i in range(t, len(seen), 128):
        atomic_add(counts, 0, i32(seen[i]))
    sync_threads()
    for i in range(t, len(seen), 128):
        y[i % columns, i // columns] = tile[i // columns, i % columns] * f64(counts[0])


@kernel(grid=1, block=33)
def several(y: SliceMut[f32], p: Window, n: i8, depth: Const[int]) -> None:
    """Fill three arrays of awkward sizes with their own numbers, and add up what is in each."""
    a = shared_array((p.rows, p.columns, depth), f32)
    b = shared_array(-(-n // 2), i16)
    c = shared_array((3, p.rows * 2 - 1), f32, align=1024)
    t = thread_idx.x
    for i in range(t, len(a), 33):
        for j in range(a.shape[1]):
            for k in range(a.shape[2]):
                a[i, j, k] = 1.0
    for i in range(t, len(b), 33):
        b[i] = i16(2)
    for i in range(t, 3 * c.shape[1], 33):
        c[i // c.shape[1], i % c.shape[1]] = 4.0
    sync_threads()
    if t == 0:
        for i in range(len(a)):
            for j in range(a.shape[1]):
                for k in range(depth):
                    y[0] += a[i, j, k]
        for i in range(len(b)):
            y[1] += f32(b[i])
        for i in range(3):
            for j in range(c.shape[1]):
                y[2] += c[i, j]


@kernel(grid=1, block=32)
def outside(y: SliceMut[f32], n: i64, index: i64) -> None:
    """Read and write at an index that may not exist, behind an array that does."""
    first = shared_array(n, f32)
    second = shared_array((2, n), f32)
    t = thread_idx.x
    for i in range(t, n, 32):
        first[i] = 1.0
        second[0, i] = 2.0
        second[1, i] = 3.0
    sync_threads()
    if t == 0:
        first[index] = 7.0
    sync_threads()
    y[t] = second[1, index] if index in first else second[0, 0]


T = TypeVar("T", f32, bf16)


@function
def sum_of(array: Slice[T], n: i64) -> f32:
    """The sum of the first elements."""
    total = f32(0.0)
    for i in range(n):
        total += f32(array[i])
    return total


@kernel(grid=elements("y"), block=64)
def generic(y: DisjointSlice[T]) -> None:
    """The sum over the block, of a type that the launch chooses."""
    tile = shared_array(len(y), y.dtype)
    i = thread_index()
    if i in tile:
        tile[i] = y[i]
    sync_threads()
    if i in y:
        y[i] = y.dtype(sum_of(tile, min(len(y), 64)))


@on_all
@pytest.mark.parametrize(("n", "pieces"), [(1, 3), (31, 1), (97, 5), (96, 0), (20_000, 2)])
def test_one_array(device: Any, n: int, pieces: int) -> None:
    x = np.random.default_rng(n).standard_normal(n * pieces).astype(np.float32)
    y = device.full(x.size, np.nan, f32)
    reverse(y, device.array(x), n)
    np.testing.assert_array_equal(y.numpy(), x.reshape(pieces, n)[:, ::-1].reshape(-1))


@on_all
@pytest.mark.parametrize("shape", [(1, 1), (17, 33), (64, 5), (3, 200)])
def test_a_matrix(device: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(shape[0]).standard_normal(shape)
    y = device.full(shape[::-1], np.nan, f64)
    transpose(y, device.array(x))
    np.testing.assert_array_equal(y.numpy(), x.T * x.size)


@on_all
@pytest.mark.parametrize(("rows", "columns", "n", "depth"), [(1, 1, 0, 1), (5, 7, 9, 3), (17, 9, 1, 2), (1, 0, 127, 1)])
def test_several_arrays(device: Any, rows: int, columns: int, n: int, depth: int) -> None:
    y = device.zeros(3, f32)
    several(y, Window(rows=rows, columns=columns), n, depth=depth)
    np.testing.assert_array_equal(y.numpy(), [rows * columns * depth, 2 * -(-n // 2), 4 * 3 * (2 * rows - 1)])


@on_all
def test_what_is_outside_is_left_out(device: Any) -> None:
    y = device.full(32, np.nan, f32)
    outside(y, 10, 10)
    with pytest.raises(BoundsError, match="write outside array first: index 10 is out of bounds for 10 elements"):
        device.synchronize()
    np.testing.assert_array_equal(y.numpy(), np.full(32, 2.0))  # nothing was written into the second array
    outside(y, 11, 10)
    device.synchronize()
    np.testing.assert_array_equal(y.numpy(), np.full(32, 3.0))
    outside(y, 11, -1)
    with pytest.raises(BoundsError, match="index -1 is out of bounds for 11 elements"):
        device.synchronize()


@on_all
@pytest.mark.parametrize("of", [f32, bf16], ids=str)
def test_an_element_type_that_the_launch_chooses(device: Any, of: Any) -> None:
    y = device.full(50, 0.5, of)
    generic(y)
    np.testing.assert_array_equal(y.numpy().astype(np.float32), np.full(50, 25.0))


@on_all
def test_launches_that_make_no_sense(device: Any) -> None:
    x = device.zeros(8, f32)
    with pytest.raises(LaunchError, match=r"outside: the shared array first of shape \(n,\) would have a negative extent: \(-1,\)"):
        outside(device.zeros(32, f32), -1, 0)
    most = device.shared_limit
    message = rf"outside: the shared array second of shape \(2, n\), here \(2, {most // 8}\), takes {most} bytes; up to it the shared arrays take \d+"
    with pytest.raises(LaunchError, match=message):
        outside(device.zeros(32, f32), most // 8, 0)
    with pytest.raises(LaunchError, match="takes 40000000000 bytes"):
        outside(device.zeros(32, f32), 10**10, 0)
    with pytest.raises(LaunchError, match="cannot be evaluated"):
        halved(x, 0)
    for columns in (most + 1, 2**62):
        with pytest.raises(LaunchError, match=rf"of shape \(n, m \* m\), here \(0, \d+\), has an extent above {most}"):
            empty(x, 0, columns)
    empty(x, 0, 3)
    device.synchronize()


@kernel(grid=1, block=32)
def halved(x: SliceMut[f32], n: i32) -> None:
    """A shape with a division."""
    tile = shared_array(len(x) // n, f32)
    if thread_idx.x in tile:
        tile[thread_idx.x] = x[thread_idx.x]


@kernel(grid=1, block=32)
def empty(y: SliceMut[f32], n: i64, m: i64) -> None:
    """An array that may have no elements."""
    tile = shared_array((n, m * m), f32)
    for i in range(n):
        tile[i, 0] = 1.0
    y[0] = f32(tile.shape[1])


@kernel(grid=1, block=32)
def wrapping(y: SliceMut[i64], n: i32) -> None:
    """The launcher computes in exact integers, so that this array has the room of 3 elements and not of what 32 bits would say."""
    tile = shared_array(n * 65536 // 65536, i64)
    for i in range(thread_idx.x, len(tile), 32):
        tile[i] = i
    sync_threads()
    y[0] = tile[len(tile) - 1]
    y[1] = len(tile)


@on_all
def test_extents_are_exact(device: Any) -> None:
    y = device.zeros(2, i64)
    wrapping(y, 100_000 % 65536 - 34461)
    np.testing.assert_array_equal(y.numpy(), [2, 3])
    with pytest.raises(LaunchError, match=r"takes 800000 bytes"):
        wrapping(y, 100_000)


@on_all
def test_a_graph_follows_its_arguments(device: Any) -> None:
    x = np.arange(60, dtype=np.float32)
    given, y = device.array(x), device.full(60, np.nan, f32)
    with kdsl.Graph(device) as graph:
        node = reverse(y, given, 20)
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), x.reshape(3, 20)[:, ::-1].reshape(-1))
    graph.update(node, n=60)
    graph.launch(device.stream())
    np.testing.assert_array_equal(y.numpy(), x[::-1])
    with pytest.raises(LaunchError, match=r"negative size|negative extent"):
        graph.update(node, n=-1)
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), x[::-1])


def test_checks_that_follow_from_the_extents_are_left_out() -> None:
    text = print_kernel(reverse.ir())
    assert "shared tile: f32[n]" in text
    assert "store tile[%" in text
    assert " checked" not in next(line for line in text.splitlines() if "store tile" in line)
    assert " checked" in next(line for line in text.splitlines() if "load tile" in line)  # n - 1 - i: nobody has looked


def test_an_extent_that_may_wrap_proves_nothing() -> None:
    @kernel(grid=1, block=32)
    def doubled(y: SliceMut[f32], n: i32) -> None:
        tile = shared_array(n * 2, f32)
        for i in range(n * 2):
            tile[i] = 1.0
        y[0] = tile[0]

    assert "store tile[%" in print_kernel(doubled.ir())
    assert " checked" in next(line for line in print_kernel(doubled.ir()).splitlines() if "store tile" in line)


@function
def last_of(n: i64) -> f32:
    """An array with the name of a parameter of the kernel below."""
    x = shared_array(n, f32)
    x[thread_idx.x] = 1.0
    return x[999]


@kernel(grid=1, block=1, requires=("len(x) >= 1000",))
def shadow(y: SliceMut[f32], x: Slice[f32]) -> None:
    """What the contract says of `x` holds for the parameter only."""
    y[0] = last_of(len(y)) + x[999]


@on_all
def test_an_array_called_like_a_parameter(device: Any) -> None:
    y = device.zeros(5, f32)
    shadow(y, device.full(1000, 3.0, f32))
    with pytest.raises(BoundsError, match=r"array x \(2\): index 999 is out of bounds for 5 elements"):
        device.synchronize()
    assert y.numpy()[0] == 3.0


def test_shapes_that_no_launch_knows() -> None:
    @kernel(grid=1, block=32)
    def of_memory(y: SliceMut[f32], x: Slice[i32]) -> None:
        tile = shared_array(x[0], f32)
        y[0] = tile[0]

    @kernel(grid=1, block=32)
    def of_the_thread(y: SliceMut[f32]) -> None:
        tile = shared_array((4, thread_idx.x + 1), f32)
        y[0] = tile[0, 0]

    @kernel(grid=1, block=32)
    def of_a_remainder(y: SliceMut[f32], n: i32) -> None:
        tile = shared_array(n % 4, f32)
        y[0] = tile[0]

    @kernel(grid=1, block=32)
    def narrowed(y: SliceMut[f32], n: i64) -> None:
        tile = shared_array(i32(n), f32)
        y[0] = tile[0]

    @kernel(grid=1, block=32)
    def assigned_twice(y: SliceMut[f32], n: i64, wide: i32) -> None:
        size = n
        if wide > 0:
            size = n * 2
        tile = shared_array(size, f32)
        y[0] = tile[0]

    @kernel(grid=1, block=32)
    def of_a_float(y: SliceMut[f32], a: f32) -> None:
        tile = shared_array(a, f32)
        y[0] = tile[0]

    @kernel(grid=1, block=32)
    def fixed_and_wrong(y: SliceMut[f32], n: i32) -> None:
        tile = shared_array((n, 0), f32)
        y[0] = tile[0, 0]

    @kernel(grid=1, block=32)
    def of_five_dimensions(y: SliceMut[f32], n: i32) -> None:
        tile = shared_array((n, 1, 1, 1, 1), f32)
        y[0] = tile[0, 0, 0, 0, 0]

    for wrong, at in (
        (of_memory, "x[0]"),
        (of_the_thread, "thread_idx.x + 1"),
        (of_a_remainder, "n % 4"),
        (narrowed, "i32(n)"),
        (assigned_twice, "size"),
    ):
        refused(wrong, "must be known when the kernel is launched", at=at, hint="+ - * //")
    refused(of_a_float, "an extent of shared_array()", at="a", hint="")
    refused(fixed_and_wrong, "an extent of 0", at="shared_array((n, 0), f32)", hint="at least 1")
    refused(of_five_dimensions, "at most 4 dimensions", at="shared_array((n, 1, 1, 1, 1), f32)", hint="join")


def test_indices_are_looked_at() -> None:
    @kernel(grid=1, block=32)
    def negative(y: SliceMut[f32], n: i32) -> None:
        tile = shared_array(n, f32)
        y[0] = tile[-1]

    @kernel(grid=1, block=32)
    def too_many(y: SliceMut[f32], n: i32) -> None:
        tile = shared_array(n, f32)
        y[0] = tile[0, 1]

    refused(negative, "index -1 of `tile` is negative", at="-1", hint="len(tile) - 1")
    refused(too_many, "`tile` has one dimension, not 2", at="0, 1", hint="compute the index")


def test_what_is_refused_of_an_array_whose_shape_the_launch_decides() -> None:
    @kernel(grid=1, block=32)
    def source(y: SliceMut[f32], n: i64) -> None:
        tile, other = shared_array(n, f32), shared_array(32, f32)
        copy_async(other, thread_idx.x, tile, thread_idx.x, 1)
        y[0] = other[0]

    @kernel(grid=1, block=128)
    def product(y: SliceMut[f32], n: i64) -> None:
        tile = shared_array((n, 64, 8), bf16)
        wgmma(local_array(32, f32), tile, (0, 0, 0), tile, (0, 0, 0))

    refused(source, "copies from an array parameter", at="tile", hint="")
    refused(product, "the compiler cannot see that this tile is inside `tile`", at="(0, 0, 0)", hint="stage % n, or write tile.unchecked")
