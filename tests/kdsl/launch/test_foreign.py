"""Launches that are given arrays of other libraries, on the CPU: all checks, what changes in place, what lies ready."""

from __future__ import annotations

import gc
import weakref
from typing import Any, TypeVar

import numpy as np
import pytest

import kdsl
from kdsl import D2, DisjointSlice, Slice, SliceMut, elements, f32, f32x4, f64, kernel, thread_index
from kdsl.errors import ArgumentError, LaunchError

CPU = kdsl.device("cpu")
T = TypeVar("T", f32, f64)


@kernel(grid=elements("y"), block=32, requires=("len(x) == len(y)",))
def add_scaled(y: DisjointSlice[f32], x: Slice[f32], a: f32) -> None:
    """y += a x."""
    i = thread_index()
    if i in y:
        y[i] += a * x[i]


@kernel(grid=elements("y"), block=32)
def scaled(y: DisjointSlice[T], a: T) -> None:
    """y *= a; the type of a number follows that of an array, so that nothing lies ready."""
    i = thread_index()
    if i in y:
        y[i] = y[i] * a


@kernel(grid=1, block=32)
def transposed(y: SliceMut[f32, D2], x: Slice[f32, D2]) -> None:
    """y = x.T"""
    i = thread_index()
    rows, columns = y.shape
    if i < rows * columns:
        y[i // columns, i % columns] = x[i % columns, i // columns]


@kernel(grid=1, block=32)
def doubled(y: SliceMut[f32x4]) -> None:
    """y *= 2"""
    i = thread_index()
    if i < len(y):
        y[i] = y[i] + y[i]


class Stranger:
    """NumPy behind DLPack only."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.asked = 0

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked += 1
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("count", [0, 1, 31, 33, 1000])
@pytest.mark.parametrize("wrap", [lambda x: x, Stranger, kdsl.from_dlpack, CPU.array], ids=["numpy", "dlpack", "ours", "copy"])
def test_results(wrap: Any, count: int) -> None:
    y, x = np.full(count, 0.5, np.float32), wrap(np.arange(count, dtype=np.float32))
    for a in range(4):
        add_scaled(y, x, float(a))
    np.testing.assert_array_equal(y, 0.5 + 6 * np.arange(count))


def test_what_lies_ready_is_found_by_place() -> None:
    y, x = np.zeros(10, np.float32), np.ones(10, np.float32)
    ready = add_scaled._launcher.plans.ready_launches
    ready.clear()
    for _ in range(3):
        add_scaled(y, x, 1.0)
    assert len(ready) == 1
    add_scaled(y[:], x[:], 1.0)  # other objects
    assert len(ready) == 1
    np.testing.assert_array_equal(y, np.full(10, 4))


def test_an_array_that_changes_in_place() -> None:
    y, x = np.zeros(12, np.float32), np.ones(12, np.float32)
    for _ in range(3):
        add_scaled(y, x, 1.0)
    y.resize((3, 4), refcheck=False)
    with pytest.raises(ArgumentError, match="which has 1 dimension; the argument has 2"):
        add_scaled(y, x, 1.0)
    y.resize((12,), refcheck=False)
    y.flags.writeable = False
    with pytest.raises(ArgumentError, match="the argument is read-only"):
        add_scaled(y, x, 1.0)
    y.flags.writeable = True
    with pytest.raises(ArgumentError, match="the argument is an array of i32"):
        add_scaled(y, x.view(np.int32), 1.0)
    add_scaled(y, x, 1.0)
    y.resize(10, refcheck=False)
    with pytest.raises(LaunchError, match=r"len\(x\) is 12, len\(y\) is 10"):
        add_scaled(y, x, 1.0)
    assert (y == 4).all()


def test_nothing_is_kept() -> None:
    y, x = np.zeros(10, np.float32), np.ones(10, np.float32)
    for _ in range(3):
        add_scaled(y, x, 1.0)
    alive = weakref.ref(y), weakref.ref(x)
    del y, x
    gc.collect()
    assert [found() for found in alive] == [None, None]


def test_arguments_that_nobody_else_holds() -> None:
    for count in (10, 100_000):
        y = np.zeros(count, np.float32)
        for _ in range(3):
            add_scaled(y, np.ones(count, np.float32), 1.0)
        assert (y == 3).all()


def test_checks_are_those_of_our_arrays() -> None:
    y, x = np.zeros(10, np.float32), np.ones(10, np.float32)
    for arguments, words in (
        ((y, x[:9]), r"len\(x\) == len\(y\)"),
        ((y[1:], y[:-1]), "overlap"),
        ((y, kdsl.from_dlpack(y)[::-1]), "stride of -1"),
        ((y, x[::2]), "stride of 2"),
        ((y, x.astype(np.float64)), "an array of f32; the argument is an array of f64"),
        ((np.broadcast_to(np.float32(1), (10,)), x), "stride of 0|read-only"),
        ((y, np.float32(1)), r"the argument is .*1.0.* \(float32\)|1 to 5 dimensions"),
        ((y, np.array(1, np.float32)), "the argument, a numpy.ndarray, cannot be taken: an array has 1 to 5 dimensions"),
        ((y, x.astype(np.complex64)), "no element type for NumPy's complex64"),
        ((y, "x"), r"or of another library; the argument is 'x' \(str\)"),
    ):
        with pytest.raises(LaunchError, match=words):
            add_scaled(*arguments, 1.0)
    assert (y == 0).all()
    base = np.zeros(40, np.float32)
    first = -base.ctypes.data % 16 // 4
    with pytest.raises(LaunchError, match="at a multiple of 16 bytes; that of the argument lies 4 behind one"):
        doubled(base[first + 1 :][:8])


def test_what_a_library_raises_is_said() -> None:
    class Broken(Stranger):
        def __dlpack__(self, **keywords: Any) -> Any:
            raise BufferError("it cannot be exported")

    with pytest.raises(
        ArgumentError, match=r"parameter x is Slice\[f32\]; the argument, a .*Broken, cannot be taken: it cannot be exported"
    ):
        add_scaled(np.zeros(3, np.float32), Broken(None), 1.0)


def test_strides() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::-2]
    for given in (x, Stranger(x)):
        y = np.full((3, 4), np.nan, np.float32)
        for _ in range(3):
            transposed(y, given)
        np.testing.assert_array_equal(y, x.T)
    transposed(y.T, np.asfortranarray(x.T))
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("of", [np.float32, np.float64])
def test_a_number_whose_type_follows_that_of_an_array(of: Any) -> None:
    y = np.ones(33, of)
    for _ in range(3):
        scaled(y, 2.0)
    assert (y == 8).all()
    with pytest.raises(ArgumentError, match="f32, f64; the argument has elements of i32"):
        scaled(np.ones(3, np.int32), 2.0)


def test_vectors_in_memory_of_ours() -> None:
    y = kdsl.device("cpu").zeros(8, f32)
    host = np.from_dlpack(y)
    host[:] = 3
    for _ in range(3):
        doubled(host)
    assert (y.numpy() == 24).all()


def test_prepared_launches_and_graphs_keep_the_memory() -> None:
    y, x = np.zeros(10, np.float32), np.ones(10, np.float32)
    prepared = add_scaled.prepare(y, Stranger(x), 1.0)
    with kdsl.Graph(CPU) as graph:
        node = add_scaled(y, x, 10.0)
    prepared()
    prepared(x=np.full(10, 2, np.float32))
    graph.launch()
    graph.update(node, x=np.full(10, 5, np.float32))
    graph.launch()
    assert (y == 63).all()
    with pytest.raises(LaunchError, match=r"len\(x\)"):
        prepared(x=np.ones(9, np.float32))
    alive = weakref.ref(y)
    del y
    gc.collect()
    prepared()
    assert alive() is not None
    del prepared, graph, node
    gc.collect()
    assert alive() is None


def test_memory_that_may_not_be_written_is_not_exchanged_for_other() -> None:
    y, x = CPU.zeros(10, f32), CPU.zeros(10, f32)
    host = np.zeros(10, np.float32)
    host.flags.writeable = False
    prepared = add_scaled.prepare(y, x, 1.0)
    prepared(x=kdsl.from_dlpack(host))
    with pytest.raises(ArgumentError, match="read-only"):
        prepared(y=kdsl.from_dlpack(host))
