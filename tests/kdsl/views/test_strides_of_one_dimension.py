"""Views of one dimension with any stride (`Slice[f32, D1]`), on every device, against NumPy; and contiguous ones, which have none."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest

import kdsl
from kdsl import (
    D1,
    D2,
    DisjointSlice,
    Slice,
    SliceMut,
    as_vectors,
    atomic_add,
    elements,
    f32,
    f32x4,
    f64,
    function,
    i32,
    kernel,
    sweep,
    thread_index,
)
from kdsl.backend.nvptx import compile_ptx
from kdsl.ir import nodes
from kdsl.ir.printer import print_kernel
from kdsl.testing import devices
from kdsl.testing.ptx import assemble

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
RANDOM = np.random.default_rng(4)
T = TypeVar("T", f32, f64, i32)
COUNTS = (1, 0, 31, 33, 17 * 33 * 9)

LINES: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda a: a,
    "every second": lambda a: a[::2],
    "backwards": lambda a: a[::-1],
    "every third, backwards": lambda a: a[::-3],
    "a part": lambda a: a[1:-1:2],
}


@kernel(grid=elements("y"), requires="len(x) == len(y)")
def copy(x: Slice[T, D1], y: DisjointSlice[T, D1]) -> None:
    i = thread_index()
    if i in y:
        y[i] = x[i]


@kernel(grid=elements("y"), requires="len(x) == len(y)")
def copy_flat(x: Slice[f32], y: DisjointSlice[f32]) -> None:
    i = thread_index()
    if i in y:
        y[i] = x[i]


@kernel(grid=elements("y"))
def checked(x: Slice[f32, D1], y: SliceMut[f32, D1], shift: i32) -> None:
    i = thread_index()
    if i < len(y):
        y[len(y) - 1 - i] = x[i + shift]


@function
def total(line: Slice[T]) -> T:
    """Takes lines with a stride and without."""
    sum_of_all = line.dtype(0)
    for i in range(len(line)):
        sum_of_all += line[i]
    return sum_of_all


@function
def strided_total(line: Slice[T, D1]) -> T:
    return total(line)


@kernel(grid=sweep(blocks=1), block=32)
def totals(x: Slice[T, D1], y: Slice[T], z: SliceMut[T, D1]) -> None:
    if thread_index() == 0:
        z[0] = total(x)
        z[1] = strided_total(y) + strided_total(x)


@kernel(grid=elements("which"))
def counted(which: Slice[i32, D1], y: SliceMut[i32, D1]) -> None:
    i = thread_index()
    if i in which:
        atomic_add(y, which[i], 1)


@DEVICES
@pytest.mark.parametrize("source", LINES)
@pytest.mark.parametrize("target", LINES)
def test_copies_through_any_strides(device: Any, source: str, target: str) -> None:
    for count in COUNTS[: 5 if source == target or target == "as it is" else 4]:
        host, place = RANDOM.random(3 * count + 2, np.float32), np.full(3 * count + 2, np.nan, np.float32)
        x, y = LINES[source](host)[:count], LINES[target](place)[:count]
        on_device, whole = device.array(host), device.array(place)
        y[...] = x
        copy(LINES[source](on_device)[:count], LINES[target](whole)[:count])
        assert np.array_equal(whole.numpy(), place, equal_nan=True)


@DEVICES
@pytest.mark.parametrize("of", ["f32", "f64", "i32"])
def test_columns_of_matrices(device: Any, of: str) -> None:
    host = RANDOM.integers(-99, 99, (57, 9)).astype(kdsl.dtype(of).numpy)
    matrix, y = device.array(host), device.zeros((9, 57), host.dtype)
    for column in range(9):
        copy(matrix[:, column], y[column, ::-1])
    assert np.array_equal(y.numpy(), host.T[:, ::-1])


@DEVICES
def test_one_number_for_all(device: Any) -> None:
    x, y = device.full(1, 3.5, f32), device.zeros(77, f32)
    copy(x.broadcast_to(77), y)
    assert np.array_equal(y.numpy(), np.full(77, 3.5))
    with pytest.raises(
        kdsl.LaunchError, match=r"y is DisjointSlice\[T, D1\], whose elements may be written; the argument repeats elements"
    ):
        copy(y, x.broadcast_to(77))
    copy(x, x.broadcast_to(1))  # one element is not repeated


@DEVICES
def test_functions_take_both(device: Any) -> None:
    host = np.arange(50, dtype=np.float64)
    z = device.zeros(4, f64)
    totals(device.array(host)[::-3], device.array(host), z[::2])
    assert z.numpy().tolist() == [host[::3].sum() + 17.0, 0, host[::-3].sum() + host.sum(), 0]


@DEVICES
def test_atomic_operations(device: Any) -> None:
    which = RANDOM.integers(0, 9, 600).astype(np.int32)
    y = device.zeros(18, i32)
    counted(device.array(which)[::-2], y[::-2])
    assert np.array_equal(y.numpy()[::-2], np.bincount(which[::-2], minlength=9))


@DEVICES
def test_checks(device: Any) -> None:
    x, whole = device.array(np.arange(40, dtype=np.float32)), device.full(40, -1.0, f32)
    checked(x[::2], whole[::-2], 5)
    with pytest.raises(kdsl.BoundsError, match=r"read outside array x: index 2\d is out of bounds for 20 elements"):
        device.synchronize()
    wanted = np.full(40, -1.0)
    wanted[::-2] = np.concatenate([np.arange(10, 40, 2), np.zeros(5)])[::-1]
    assert np.array_equal(whole.numpy(), wanted)


@DEVICES
def test_in_place_and_overlap(device: Any) -> None:
    a = device.array(np.arange(64, dtype=np.float32))
    copy(a[::2], a[::2])
    copy(a[::2], a[1::2])  # interleaved, with no element in common
    assert np.array_equal(a.numpy(), np.repeat(np.arange(0, 64, 2), 2))
    with pytest.raises(kdsl.LaunchError, match="They are not the same elements"):
        copy(a, a[::-1])
    for x, y in ((a[:40:2], a[2:42:2]), (a[31:1:-1], a[:30]), (a[:30], a[31:1:-1])):
        with pytest.raises(kdsl.LaunchError, match="overlap"):
            copy(x, y)


@DEVICES
def test_graphs(device: Any) -> None:
    host = RANDOM.random(60, np.float32)
    x, y = device.array(host), device.zeros(20, f32)
    with kdsl.Graph(device) as graph:
        node = copy(x[::3], y)
    graph.launch()
    assert np.array_equal(y.numpy(), host[::3])
    graph.update(node, x=x[40:20:-1])
    graph.launch()
    assert np.array_equal(y.numpy(), host[40:20:-1])


@DEVICES
def test_a_view_without_strides_names_the_one_with_them(device: Any) -> None:
    a, y = device.zeros(64, f32), device.zeros(32, f32)
    words = (
        "copy_flat: parameter x is Slice[f32], which has 1 dimension and elements side by side; the argument has a stride of 2 elements; "
    )
    with pytest.raises(kdsl.LaunchError, match=re.escape(words + "declare it as Slice[f32, D1], or pass a copy: device.array(x.numpy())")):
        copy_flat(a[::2], y)
    with pytest.raises(kdsl.LaunchError, match=re.escape("declare it as DisjointSlice[f32, D1]")):
        copy_flat(y, a[::2])
    with pytest.raises(kdsl.LaunchError, match="a stride of -1 elements"):
        copy_flat(a[::-1], device.zeros(64, f32))
    with pytest.raises(kdsl.LaunchError, match=r"x is Slice\[T, D1\], which has 1 dimension; the argument has 2"):
        copy(a.reshape(8, 8), y)


@DEVICES
def test_vectors_of_a_line_need_its_elements_side_by_side(device: Any) -> None:
    @kernel(grid=sweep(blocks=1), block=32)
    def first(x: Slice[f32, D1], y: SliceMut[f32x4]) -> None:
        y[0] = as_vectors(x, f32x4)[1]

    x, y = device.array(np.arange(16, dtype=np.float32)), device.zeros(4, f32)
    first(x, y)
    assert y.numpy().tolist() == [4, 5, 6, 7]
    with pytest.raises(kdsl.LaunchError, match="the argument has a stride of 2; pass a copy"):
        first(x[::2], y)


# ---------------------------------------------------------------------------------------------------------------------------------- code


def test_a_line_without_stride_has_no_slot_for_one() -> None:
    def slots(of: Any, **settings: Any) -> int:
        return len(set(re.findall(r"_param_\d+", of.ptx("sm_90", **settings))))

    assert slots(copy, T=f32) == slots(copy_flat) + 2
    assert "_stride_" not in copy_flat.launcher_source
    assert "x_stride_0, = x.strides" in copy.launcher_source


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_ptx_assembles(target: str) -> None:
    for of in (copy.ir(T=f64), totals.ir(T=f32), checked.ir(), counted.ir()):
        for level in (0, 3):
            assemble(compile_ptx(of, target, optimise=level), target)


def test_annotation_and_ir() -> None:
    assert str(Slice[f32, D1]) == "Slice[f32, D1]"
    assert str(Slice[f32]) == "Slice[f32]"
    assert Slice[f32, D1] != Slice[f32]
    assert "x: Slice[i32, D1] r by thread_index, y: DisjointSlice[i32, D1] w by thread_index" in print_kernel(copy.ir(T=i32))
    assert [op.checked for op in nodes.walk(copy.ir(T=f32).body) if isinstance(op, nodes.Load | nodes.Store)] == [False, False]
    with pytest.raises(kdsl.KernelError, match=r"`x` of of_rows is Slice\[f32, D2\], not Slice\[f32, D1\]"):
        wrong.ir()


@function
def of_rows(x: Slice[f32, D2]) -> f32:
    return x[0, 0]


@kernel(grid=sweep(blocks=1))
def wrong(x: Slice[f32, D1], y: SliceMut[f32]) -> None:
    y[0] = of_rows(x)
