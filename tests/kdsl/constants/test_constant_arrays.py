"""Constant arrays: what the host makes of values, what kernels read, on every device."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from refusal import refused

import kdsl
from kdsl import (
    BoundsError,
    Const,
    ConstantArray,
    DisjointSlice,
    LaunchError,
    Slice,
    SliceMut,
    as_vectors,
    atomic_add,
    bf16,
    constant_array,
    elements,
    f16,
    f32,
    f64,
    function,
    i8,
    i32,
    i64,
    kernel,
    shared_array,
    thread_index,
    u8,
    u64,
    unroll,
)
from kdsl.ir import nodes
from kdsl.ir.printer import print_kernel
from kdsl.testing import devices
from kdsl.testing.ptx import assemble, filecheck

on_all = pytest.mark.parametrize("device", devices(), ids=str)

SINES = constant_array(np.sin(np.arange(1000) / 7), f32)
GRID = constant_array([[1, -2, 3], [40, 50, -60]], i8)
DEEP = constant_array(np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5), i64)
FLAGS = constant_array(np.array([True, False, True]))
TABLES = (constant_array([10.0, 20.0], f32), constant_array([0.5], f32))


@kernel(grid=elements("y"), block=96, requires=("len(x) == len(y)",))
def looked_up(y: DisjointSlice[f32], x: Slice[i32]) -> None:
    """Elements of a table, by indices that the launch brings."""
    i = thread_index()
    if i in y:
        y[i] = SINES[x[i]] + TABLES[1][0]


@function
def weighted(table: Slice[i8], row: i64) -> i32:
    """A row of the small table, added up."""
    total = i32(0)
    for k in range(table.shape[1]):
        total += table[row, k] if FLAGS[k] else i32(0)
    return total


@kernel(grid=1, block=64)
def every_kind(y: SliceMut[i64], row: i64) -> None:
    """Several tables, dimensions, their lengths, and `in`."""
    i = thread_index()
    if i < 120:
        y[i] = DEEP[i // 60, i // 20 % 3, i // 5 % 4, i % 5] + i64(weighted(GRID, row))
    if i == 63:
        y[120] = len(DEEP) * 1000 + DEEP.shape[3] * 100 + len(TABLES[0])
        y[121] = 1 if i64(2) in TABLES[0] else 0


@kernel(grid=1, block=32)
def unrolled(y: SliceMut[f32], x: Slice[f32]) -> None:
    """A filter whose weights are in the code."""
    i = thread_index()
    total = f32(0.0)
    for k in unroll(2):
        total += TABLES[0][k] * x[i + k]
    y[i] = total


def table_of(of: Any) -> np.ndarray[Any, Any]:
    values = np.linspace(-100, 100, 37) if not (of.is_integer and not of.is_signed) else np.arange(37)
    return (values % 2 > 1) if of.is_bool else values.astype(of.numpy)


@on_all
@pytest.mark.parametrize("n", [0, 1, 33, 1000])
def test_indices_at_run_time(device: Any, n: int) -> None:
    x = np.random.default_rng(n).integers(0, 1000, n).astype(np.int32)
    y = device.full(n, np.nan, f32)
    looked_up(y, device.array(x))
    expected = np.sin(np.arange(1000) / 7).astype(np.float32)[x] + np.float32(0.5)
    np.testing.assert_array_equal(y.numpy(), expected)


@on_all
@pytest.mark.parametrize("row", [0, 1])
def test_dimensions(device: Any, row: int) -> None:
    y = device.full(122, -1, i64)
    every_kind(y, row)
    expected = np.concatenate([np.arange(64) + (4 if row == 0 else -20), np.full(56, -1), [2502, 0]])
    np.testing.assert_array_equal(y.numpy(), expected)


@on_all
@pytest.mark.parametrize(
    "of", [kdsl.dtype(n) for n in ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")], ids=str
)
def test_every_element_type(device: Any, of: Any) -> None:
    host = table_of(of)
    table = constant_array(host)

    @kernel(grid=elements("y"), block=64)
    def copied(y: DisjointSlice[of]) -> None:  # type: ignore[valid-type]  # a type that the test chooses
        i = thread_index()
        if i in y:
            y[i] = of(table[i])

    assert table.dtype is of
    y = device.zeros(37, of)
    copied(y)
    np.testing.assert_array_equal(y.numpy(), host)


@on_all
def test_an_index_outside_is_left_out(device: Any) -> None:
    y = device.full(3, np.nan, f32)
    looked_up(y, device.array(np.array([3, 1000, -1], np.int32)))
    with pytest.raises(BoundsError, match=r"read outside array SINES: index (1000|-1) is out of bounds for 1000 elements"):
        device.synchronize()
    np.testing.assert_array_equal(y.numpy(), [np.float32(np.sin(3 / 7)) + np.float32(0.5), 0.5, 0.5])


@on_all
def test_known_elements_are_constants(device: Any) -> None:
    assert [array.name for array in unrolled.ir().arrays] == []
    assert "20.0" in print_kernel(unrolled.ir())
    x = np.random.default_rng(1).integers(-9, 9, 33).astype(np.float32)
    y = device.full(32, np.nan, f32)
    unrolled(y, device.array(x))
    np.testing.assert_array_equal(y.numpy(), 10 * x[:-1] + 20 * x[1:])


@kernel(grid=1, block=250)
def four_at_a_time(y: SliceMut[f32]) -> None:
    """A table in vectors."""
    i = thread_index()
    v = as_vectors(SINES, 4)[i]
    y[i] = v.x + v.w


@on_all
def test_vectors(device: Any) -> None:
    y = device.full(250, np.nan, f32)
    four_at_a_time(y)
    host = SINES.numpy().reshape(-1, 4)
    np.testing.assert_array_equal(y.numpy(), host[:, 0] + host[:, 3])
    assert "ld.const.v" in four_at_a_time.ptx("sm_80")


@on_all
def test_a_table_stays_as_it_was(device: Any) -> None:
    host = np.arange(4.0)
    table = constant_array(host, f32)

    @kernel(grid=elements("y"), block=32)
    def read(y: DisjointSlice[f32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = table[i]

    host[:] = 7
    y = device.zeros(4, f32)
    read(y)
    np.testing.assert_array_equal(y.numpy(), np.arange(4))
    table.numpy()[:] = 9
    assert table[3] == 3.0
    table = constant_array(np.arange(4), f32)  # another object that holds the same
    read(y)
    table = constant_array(np.arange(4) + 1, f32)
    with pytest.raises(LaunchError, match=r"the captured value table was <constant array of f32, shape \(4,\), \w+> when"):
        read(y)


def test_content_is_part_of_the_key() -> None:
    def reading(values: Any) -> Any:
        table = constant_array(values, f32)

        @kernel(grid=elements("y"), block=32)
        def read(y: DisjointSlice[f32]) -> None:
            i = thread_index()
            if i in y:
                y[i] = table[i]

        return print_kernel(read.ir())

    assert reading([1, 2]) == reading(np.array([1, 2]))
    assert reading([1, 2]) != reading([1, 3])
    assert reading([0.0, 2]) != reading([-0.0, 2])


def test_on_the_host() -> None:
    assert SINES.shape == (1000,)
    assert len(DEEP) == 2
    assert GRID[1, 2] == -60
    assert GRID.numpy().tolist() == [[1, -2, 3], [40, 50, -60]]
    assert constant_array([1, 2], f32) == constant_array(np.array([1, 2]), f32) != constant_array([1, 2], f64)
    assert len({constant_array([1, 2], f32), constant_array([1, 2], f32)}) == 1
    assert isinstance(SINES, ConstantArray)
    assert constant_array([65519.999], f16).numpy()[0] == 65504  # rounded once
    assert constant_array([1 + 2**-8 + 2**-30], bf16).numpy()[0] == ml_dtypes.bfloat16(1 + 2**-7)
    assert constant_array([[2**64 - 1]], u64).numpy()[0, 0] == 2**64 - 1
    assert constant_array(np.zeros(65536, np.uint8)).shape == (65536,)


@pytest.mark.parametrize(
    ("values", "of", "error", "message"),
    [
        ([1, 2], None, TypeError, "needs an element type"),
        ([1, 300], u8, OverflowError, r"the element at \[1\]: u8 holds 0 to 255, not 300"),
        ([[1.0], [2.5]], i32, TypeError, r"the element at \[0, 0\]: a whole number \(i32\) is wanted"),
        ([1, 0], "bool", TypeError, "a bool is wanted"),
        ([1e39], f32, OverflowError, "would become infinite"),
        (["a"], f32, TypeError, "a number"),
        ([[1, 2], [3]], f32, ValueError, "the same length"),
        (3.0, f32, ValueError, r"shape \(\)"),
        ([], f32, ValueError, r"none of them empty; this one has shape \(0,\)"),
        (np.zeros((1, 1, 1, 1, 1)), f32, ValueError, "1 to 4 dimensions"),
        (np.zeros(16385), f32, ValueError, "takes 65,540 bytes; there is constant memory for 65,536"),
        (np.zeros(3, np.complex64), None, TypeError, "complex64"),
    ],
)
def test_what_is_no_table(values: Any, of: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        constant_array(values, of)


def test_errors_in_kernels() -> None:
    @kernel(grid=1, block=32)
    def written(y: SliceMut[f32]) -> None:
        SINES[0] = y[0]

    @kernel(grid=1, block=32)
    def counted(y: SliceMut[i32]) -> None:
        atomic_add(GRID, (0, 0), 1)

    @kernel(grid=1, block=32)
    def outside(y: SliceMut[i32]) -> None:
        y[0] = i32(GRID[2, 0])

    @function
    def change(table: SliceMut[f32]) -> None:
        table[0] = 1.0

    @kernel(grid=1, block=32)
    def passed_on(y: SliceMut[f32]) -> None:
        change(SINES)

    @kernel(grid=1, block=32)
    def alone(y: SliceMut[f32]) -> None:
        y[0] = SINES

    refused(written, "`SINES` is a constant array, which is only read", at="SINES[0]", hint="copy it")
    refused(counted, "a constant array, which is only read", at="GRID", hint="shared_array")
    refused(outside, "index 2 is outside `GRID`", at="2", hint="indices are 0 to 1")
    refused(passed_on, "SliceMut[f32], not a constant array of f32", at="SINES", hint="")
    refused(alone, "must be a number", at="SINES", hint="SINES[i]")


def test_too_many_tables() -> None:
    first, second = constant_array(np.zeros(10_000), f32), constant_array(np.ones(10_000), f32)

    @kernel(grid=1, block=32)
    def wrong(y: SliceMut[f32]) -> None:
        i = thread_index()
        y[0] = first[i] + second[i]

    refused(wrong, "take 80000 bytes up to `second`", at="second", hint="65536 bytes of constant memory")


def test_ptx() -> None:
    ptx = looked_up.ptx("sm_80")
    filecheck(
        ptx,
        """
        CHECK: .const .align 16 .b8 kdsl_constant4000_{{[0-9a-f]+}}[4000] = {
        CHECK: .entry looked_up(
        CHECK: setp.{{..}}.u64
        CHECK: ld.const.b32
        CHECK-NOT: ld.const
        CHECK: // second run
        CHECK: ld.const.b32
        CHECK-NOT: ld.const
        """,
    )
    assert ".local" not in ptx
    for target in ("sm_80", "sm_90", "sm_120"):
        assemble(ptx if target == "sm_80" else looked_up.ptx(target), target)


def test_kernels_of_a_module_share_equal_tables() -> None:
    from kdsl.backend.nvptx import LimitError, compile_module

    large = constant_array(np.arange(8192), f32)
    other, more = constant_array(np.arange(8192) + 1, f32), constant_array([1, 2], u8)

    def reading(table: ConstantArray) -> nodes.Kernel:
        @kernel(grid=elements("y"), block=32)
        def read(y: DisjointSlice[f32]) -> None:
            i = thread_index()
            if i in y:
                y[i] = f32(table[i])

        return read.ir()

    ptx = compile_module([reading(large), reading(large), reading(other)], "sm_90")
    assert ptx.count(".const .align") == 2
    assemble(ptx, "sm_90")
    with pytest.raises(LimitError, match=r"of a module, whose constant arrays up to it take 65552 bytes .* a module has 65536"):
        compile_module([reading(large), reading(other), reading(more)], "sm_90")


def test_an_element_can_be_an_extent() -> None:
    @kernel(grid=1, block=32)
    def sized(y: SliceMut[f32], n: Const[int]) -> None:
        tile = shared_array(DEEP[0, 0, 0, n], f32)
        tile[0] = y[0]

    (array,) = sized.ir(n=4).arrays
    assert array.shape == (4,)
