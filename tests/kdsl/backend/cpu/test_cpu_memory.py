"""Forms of access on the CPU target: strides, runs, gathers, local and shared arrays, and what a failed one records."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_builder import Builder
from cpu_reference import Interpreter
from cpu_run import Runner

from kdsl.lang.types import BOOL, F32, I32, I64


@pytest.mark.parametrize("block", [(16, 16, 1), (5, 7, 1), (8, 4, 2), (48, 2, 1), (1, 40, 1), (32, 8, 1)])
@pytest.mark.parametrize("exchanges", [False, True])
def test_transpose_through_shared_memory(block: tuple[int, int, int], exchanges: bool) -> None:
    x, y, z = block
    k = Builder("transpose", block)
    out, source = k.view("out"), k.view("source", kind="Slice")
    tile = k.array("tile", (z, y, x + 1))
    tx, ty, tz = (k.special(f"thread_idx.{axis}") for axis in "xyz")
    first = (k.special("block_idx.x") * k.kernel.threads).within(0, 1 << 40)
    k.store(tile, tz, ty, tx, k.load(source, first + (tz * y + ty) * x + tx))
    k.barrier()
    value = k.load(tile, tz, ty, tx)
    if exchanges:  # groups of 32 lanes
        value = k.exchange("shuffle_xor", value, k.lift(0, I64))
    k.store(out, first + (tz * x + tx) * y + ty, value)
    data = np.arange(3 * x * y * z, dtype=np.float32)
    found = np.zeros_like(data)
    Runner(k.kernel)(3, out=found, source=data)
    np.testing.assert_array_equal(found, data.reshape(3, z, y, x).swapaxes(2, 3).ravel())


@pytest.mark.parametrize("stride", [1, 3, -1, 0])
@pytest.mark.parametrize("checked", [False, True])
def test_run_time_strides(stride: int, checked: bool) -> None:
    k = Builder("strided", (33, 1, 1))
    y, x = k.view("y"), k.view("x", kind="Slice")
    s, first = k.scalar("stride", I64), k.scalar("first", I64)
    i = k.thread_index()
    with k.if_(i < k.length(y)):
        k.store(y, i, k.load(x, first + i * s, checked=checked))
    n = 100
    x_values = np.arange(300, dtype=np.float32)
    found = np.zeros(n, np.float32)
    start = 299 if stride < 0 else 0
    run = Runner(k.kernel)
    run(4, y=found, x=x_values, stride=stride, first=start)
    np.testing.assert_array_equal(found, x_values[start + stride * np.arange(n)])
    assert run.failure() is None
    # writing with the same strides
    k = Builder("scatter", (33, 1, 1))
    y, x = k.view("y"), k.view("x", kind="Slice")
    s, first = k.scalar("stride", I64), k.scalar("first", I64)
    i = k.thread_index()
    with k.if_(i < k.length(x)):
        k.store(y, first + i * s, k.load(x, i), checked=checked)
    if stride:
        target = np.zeros(300, np.float32)
        Runner(k.kernel)(4, y=target, x=found, stride=stride, first=start)
        np.testing.assert_array_equal(target[start + stride * np.arange(n)], found)
        assert np.count_nonzero(target) == np.count_nonzero(found)


def test_bools_are_bytes() -> None:
    k = Builder("bools", (32, 1, 1))
    y, x = k.view("y", BOOL), k.view("x", BOOL, kind="Slice")
    i = k.thread_index()
    k.store(y, i, k.unary("not", k.load(x, i)))
    raw = np.arange(32, dtype=np.uint8)  # any byte but 0 is True
    found = np.full(32, 9, np.uint8)
    Runner(k.kernel)(1, y=found.view(np.bool_), x=raw.view(np.bool_))
    np.testing.assert_array_equal(found, raw == 0)


def test_one_element_for_all_lanes() -> None:
    """A uniform place: read once and shared; of the lanes that write it, the one that is active writes."""
    k = Builder("uniform", (48, 1, 1))
    y, x = k.view("y"), k.view("x", kind="Slice")
    block, thread = k.special("block_idx.x"), k.special("thread_rank")
    value = k.load(x, block, checked=True)
    with k.if_(thread.equal(37)):
        k.store(y, block, value * thread.to(F32))
    with k.if_(thread > 100):  # no lane at all: nothing is read or recorded
        k.store(y, block, k.load(x, block + 1000, checked=True), checked=True)
    x_values, found = np.arange(1, 6, dtype=np.float32), np.zeros(5, np.float32)
    run = Runner(k.kernel)
    run(5, y=found, x=x_values)
    np.testing.assert_array_equal(found, 37 * x_values)
    assert run.failure() is None
    run(6, y=np.zeros(6, np.float32), x=x_values)
    failure = run.failure()
    assert failure is not None
    assert (failure["index"], failure["extent"], failure["block_x"]) == (5, 5, 5)


def test_failure_names_the_dimension() -> None:
    k = Builder("dimensions", (8, 4, 1))
    y = k.view("y")
    array = k.array("array", (6, 10))
    tx, ty = k.special("thread_idx.x"), k.special("thread_idx.y")
    k.store(array, ty, tx, 1.0)
    k.barrier()
    shift = k.scalar("shift", I64)
    k.store(y, k.special("thread_rank"), k.load(array, ty + 2, tx + shift, checked=True))
    for shift, dimension in ((0, None), (2, None), (-3, 1), (7, 1), (1 << 62, 1), (-(1 << 63), 1)):
        run = Runner(k.kernel)
        found = np.full(32, -1, np.float32)
        run(1, y=found, shift=shift)
        failure = run.failure()
        assert (failure is None) == (dimension is None)
        if failure is not None:
            assert (failure["dimension"], failure["extent"], failure["block_y"]) == (1, 10, 0)
            column = failure["thread_x"] + shift
            assert failure["index"] == (column + (1 << 63)) % (1 << 64) - (1 << 63)
            assert found[failure["thread_x"] + 8 * failure["thread_y"]] == 0


def test_assertion() -> None:
    k = Builder("asserting", (32, 1, 1))
    y = k.view("y", I32)
    i = k.thread_index()
    value = k.load(y, i)
    with k.if_(i > 3):
        k.assertion(value >= 0)
    k.store(y, i, value + 1)
    run = Runner(k.kernel)
    values = np.arange(64, dtype=np.int32)
    values[0] = values[45] = -5
    run(2, y=values)
    failure = run.failure()
    assert failure is not None
    assert (failure["block_x"], failure["thread_x"], failure["site"]) == (1, 13, 0)
    assert values[45] == -4
    run(1, y=values)  # the thread that fails there does not come by
    assert run.failure() is None


def test_local_arrays() -> None:
    k = Builder("histogram", (40, 1, 1))
    y, x = k.view("y", I32), k.view("x", I32, kind="Slice")
    bins = k.array("bins", (3, 2), I32, space="local")
    i = k.thread_index()
    with k.for_(0, 6, range=(0, 5)) as (n, _):
        k.store(bins, n // 2, n % 2, 0)
    with k.for_(0, 20, range=(0, 19)) as (n, _):
        bin = k.load(x, i * 20 + n).to(I64)
        k.store(bins, bin // 2, bin % 2, k.load(bins, bin // 2, bin % 2, checked=True) + 1, checked=True)
        with k.if_(n.equal(10)):
            k.barrier()
    with k.for_(0, 6, range=(0, 5)) as (n, _):
        k.store(y, i * 6 + n, k.load(bins, n // 2, n % 2))
    x_values = np.random.default_rng(1).integers(0, 6, (80, 20)).astype(np.int32)
    found = np.zeros((80, 6), np.int32)
    Runner(k.kernel)(2, y=found.reshape(-1), x=x_values.reshape(-1))
    np.testing.assert_array_equal(found, np.stack([np.bincount(row, minlength=6) for row in x_values]))


def test_in_place_with_one_witness() -> None:
    """Two views that may be the same array: each thread reads before it writes."""
    k = Builder("in_place", (32, 1, 1))
    y, x = k.view("y", witness="thread_index"), k.view("x", kind="Slice", witness="thread_index")
    i = k.thread_index()
    k.store(y, i, k.load(x, i) + 1.0)
    k.store(y, i, k.load(x, i) * 2.0)
    values = np.arange(64, dtype=np.float32)
    Runner(k.kernel)(2, y=values, x=values)
    np.testing.assert_array_equal(values, 2 * (np.arange(64) + 1))


@pytest.mark.parametrize("grid", [(3, 1, 1), (3, 4, 1), (2, 3, 5)])
def test_grids(grid: tuple[int, int, int]) -> None:
    for rank in (1, 2, 3):
        if any(extent > 1 for extent in grid[rank:]):
            continue
        k = Builder("grid", (4, 1, 1))
        k.kernel.grid_rank = rank
        y = k.view("y", I64)
        block = [k.special(f"block_idx.{axis}") for axis in "xyz"]
        extents = [k.special(f"grid_dim.{axis}") for axis in "xyz"]
        number = block[0] + extents[0] * (block[1] + extents[1] * block[2])
        k.store(y, number * 4 + k.special("thread_idx.x"), (block[2] * 100 + block[1] * 10 + block[0]) * extents[2])
        count = 4 * int(np.prod(grid))
        expected, found = np.zeros(count, np.int64), np.zeros(count, np.int64)
        Interpreter(k.kernel)(grid, y=expected)
        Runner(k.kernel)(grid, y=found)
        np.testing.assert_array_equal(found, expected)


def test_rows_shared_by_part_of_a_group() -> None:
    """In groups of 32 lanes, 16 read one element each time, and the half that is not active reads nothing at all."""
    k = Builder("rows", (16, 4, 1))
    y, x = k.view("y"), k.view("x", kind="Slice")
    scale = k.scalar("scale", I64)
    tx, ty, rank = k.special("thread_idx.x"), k.special("thread_idx.y"), k.special("thread_rank")
    value = k.variable("value", 0.0)
    with k.if_(ty < 2 + (tx < 3).to(I64)), k.if_(ty.differs(1)):
        k.set(value, k.load(x, ty * scale) + k.load(x, ty))
        with k.if_(tx.equal(2)):
            k.set(value, k.exchange("warp_sum", k.get(value)))
    k.store(y, rank, k.get(value))
    n = 1 << 44  # what inactive lanes would read is nowhere near any memory
    for scale, data in ((1, np.arange(8.0, dtype=np.float32)), (0, np.arange(8.0, dtype=np.float32))):
        expected, found = np.zeros(64, np.float32), np.zeros(64, np.float32)
        Interpreter(k.kernel)(1, y=expected, x=data, scale=scale)
        Runner(k.kernel)(1, y=found, x=data, scale=scale)
        np.testing.assert_array_equal(found, expected)
    k = Builder("nowhere", (16, 2, 1))
    y, x = k.view("y"), k.view("x", kind="Slice")
    scale = k.scalar("scale", I64)
    ty, rank = k.special("thread_idx.y"), k.special("thread_rank")
    with k.if_(ty.equal(0)):
        k.store(y, rank, k.exchange("warp_max", k.load(x, ty * scale)))
    found = np.zeros(32, np.float32)
    Runner(k.kernel)(1, y=found, x=np.full(1, 5, np.float32), scale=n)
    np.testing.assert_array_equal(found, np.repeat(np.array([5, 0], np.float32), 16))
