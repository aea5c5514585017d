"""Views of 2 to 5 dimensions on every device: any strides, the same results as NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import strided_kernels as kernels

import kdsl
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
RANDOM = np.random.default_rng(3)
SHAPES = [(1, 1), (3, 5), (8, 32), (37, 70), (64, 1), (1, 129), (33, 65)]

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C order": lambda a: a,
    "transposed": lambda a: a.T,
    "every second column": lambda a: a[:, ::2],
    "every third row, backwards": lambda a: a[::-3],
    "backwards": lambda a: a[::-1, ::-1],
    "a part": lambda a: a[1:-2, 3:],
    "a part, transposed, backwards": lambda a: a[2:, 1:].T[::-1],
    "columns backwards": lambda a: a[..., ::-1],
}


@DEVICES
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reads_through_any_strides(device: Any, layout: str, shape: tuple[int, int]) -> None:
    host = RANDOM.random(shape, np.float32)
    change = LAYOUTS[layout]
    wanted = change(host)
    x = change(device.array(host))
    assert x.shape == wanted.shape
    assert np.array_equal(x.numpy(), wanted)
    y = device.full(wanted.shape, -1.0, kdsl.f32)
    kernels.copy2(x, y)
    assert np.array_equal(y.numpy(), wanted)
    y.fill(-1)
    kernels.copy_narrow(x, y)
    assert np.array_equal(y.numpy(), wanted)


@DEVICES
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(8, 32), (37, 70), (1, 200)], ids=str)
def test_rows_that_each_lane_reads_from_an_array(device: Any, layout: str, shape: tuple[int, int]) -> None:
    x = LAYOUTS[layout](device.array(RANDOM.random(shape, np.float32)))
    host = x.numpy()
    rows = RANDOM.integers(0, max(len(host), 1), 150 if len(host) else 0).astype(np.int32)
    y = device.full((len(rows), host.shape[1]), -1.0, kdsl.f32)
    kernels.picked(x, device.array(rows), y)
    assert np.array_equal(y.numpy(), host[rows])


@DEVICES
@pytest.mark.parametrize("step", [2, -1, -3])
def test_strided_arrays_of_one_dimension_go_as_one_row(device: Any, step: int) -> None:
    host = RANDOM.random(100, np.float32)
    wanted = host[::step]
    y = device.zeros(200, kdsl.f32)
    part = y[: 2 * len(wanted) : 2]
    kernels.copy2(device.array(host)[::step].broadcast_to((1, len(wanted))), part.broadcast_to((1, len(wanted))))
    assert np.array_equal(part.numpy(), wanted)
    assert np.count_nonzero(y.numpy()) == np.count_nonzero(wanted)


@DEVICES
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(8, 32), (37, 70), (33, 65)], ids=str)
def test_writes_touch_nothing_else(device: Any, layout: str, shape: tuple[int, int]) -> None:
    change = LAYOUTS[layout]
    wanted = np.full(shape, -1, np.float32)
    part = change(wanted)
    source = RANDOM.random(part.shape, np.float32)
    whole = device.array(wanted)
    part[...] = source
    kernels.copy2(device.array(source), change(whole))
    assert np.array_equal(whole.numpy(), wanted)


@DEVICES
def test_empty_views(device: Any) -> None:
    y = device.empty((0, 5), kdsl.f32)
    kernels.copy2(device.empty((0, 5), kdsl.f32), y)
    assert y.numpy().shape == (0, 5)
    assert device.zeros((3, 4), kdsl.f32)[:, 4:].numpy().shape == (3, 0)


@DEVICES
def test_broadcast_reads(device: Any) -> None:
    row, column = RANDOM.random(70, np.float32), RANDOM.random((37, 1), np.float32)
    y = device.empty((37, 70), kdsl.f32)
    for host in (row, column, np.full((1, 1), 3, np.float32)):
        x = device.array(host).broadcast_to((37, 70))
        kernels.copy2(x, y)
        assert np.array_equal(y.numpy(), np.broadcast_to(host, (37, 70)))
        assert np.array_equal(x.numpy(), np.broadcast_to(host, (37, 70)))


@DEVICES
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (9, 33, 17), (40, 70, 29)])
def test_a_product_of_matrices(device: Any, m: int, n: int, k: int) -> None:
    a, b = (RANDOM.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    wanted = a @ b  # exact: small whole numbers
    for left in (device.array(a), device.array(np.ascontiguousarray(a.T)).T, device.array(np.ascontiguousarray(a[::-1]))[::-1]):
        for right in (device.array(b), device.array(np.ascontiguousarray(b.T)).T):
            c = device.full((m, n), -1.0, kdsl.f32)
            kernels.product(left, right, c)
            assert np.array_equal(c.numpy(), wanted)
            c = device.full((n, m), -1.0, kdsl.f32)
            kernels.product(left, right, c.T)
            assert np.array_equal(c.numpy(), wanted.T)


@DEVICES
def test_three_dimensions(device: Any) -> None:
    host = RANDOM.random((5, 7, 11))
    start = RANDOM.random((11, 5, 7))
    y = device.array(start)
    kernels.scale3(device.array(host).transpose(2, 0, 1), y)
    assert np.array_equal(y.numpy(), 2 * host.transpose(2, 0, 1) + start)
    rows = device.zeros(3, kdsl.i32)
    kernels.lengths(device.zeros((5, 7, 11), kdsl.f32)[1:, ::-3], rows)
    assert rows.numpy().tolist() == [4, 3, 11]


@DEVICES
def test_four_dimensions_and_a_function(device: Any) -> None:
    host = np.arange(3 * 4 * 5 * 6, dtype=np.int32).reshape(3, 4, 5, 6)
    wanted = host[::-1, 1:, ::2, ::-2]
    y = device.zeros(wanted.shape, kdsl.i32)
    kernels.copy4(device.array(host)[::-1, 1:, ::2, ::-2], y)
    assert np.array_equal(y.numpy(), wanted)


@DEVICES
def test_five_dimensions(device: Any) -> None:
    host = np.arange(2 * 3 * 4 * 5 * 6, dtype=np.int32).reshape(2, 3, 4, 5, 6)
    wanted = host[:, ::-1, 1:, ::2, ::-2].transpose(4, 0, 3, 1, 2)
    y = device.zeros(wanted.shape, kdsl.i32)
    for _ in range(3):  # by the long way and the short one
        y.fill(-1)
        kernels.copy5(device.array(host)[:, ::-1, 1:, ::2, ::-2].transpose(4, 0, 3, 1, 2), y)
        assert np.array_equal(y.numpy(), wanted)
    found = np.zeros(wanted.shape, np.int32)
    if device.name == "cpu":  # an array of NumPy's, read by native code
        for _ in range(3):
            kernels.copy5(wanted, found)
            assert np.array_equal(found, wanted)
            found[:] = -1


@DEVICES
def test_atomic_operations_take_a_tuple(device: Any) -> None:
    which = RANDOM.integers(0, 6, 1000).astype(np.int32)
    totals = device.zeros((2, 3), kdsl.i32)
    kernels.count(device.array(which), totals.T)
    assert np.array_equal(totals.numpy().reshape(-1), np.bincount(which, minlength=6))


@DEVICES
@pytest.mark.parametrize(
    ("row", "column", "dimension", "index", "extent"), [(4, 0, 0, 4, 4), (0, 6, 1, 6, 6), (-1, 9, 0, -1, 4), (3, -5, 1, -5, 6)]
)
def test_a_read_outside_names_its_dimension(device: Any, row: int, column: int, dimension: int, index: int, extent: int) -> None:
    x = device.full((8, 6), 5.0, kdsl.f32)[::2]
    out = device.full(1, 9.0, kdsl.f32)
    kernels.at2(x, out, row, column)
    with pytest.raises(kdsl.BoundsError, match=f"index {index} of dimension {dimension} is out of bounds for {extent} elements") as caught:
        device.synchronize()
    assert (caught.value.array, caught.value.index, caught.value.extent) == ("x", index, extent)
    assert out.numpy()[0] == 0


@DEVICES
@pytest.mark.parametrize(("rank", "dimension"), [*((4, d) for d in range(4)), *((5, d) for d in range(5))])
def test_a_write_outside_names_its_dimension_and_writes_nothing(device: Any, rank: int, dimension: int) -> None:
    shape = (2, 3, 4, 5, 6)[:rank]
    x = device.zeros(shape, kdsl.i32)
    indices = [1] * rank
    indices[dimension] = shape[dimension]
    at = kernels.at4 if rank == 4 else kernels.at5
    at(x, device.zeros(1, kdsl.f32), *indices)
    with pytest.raises(
        kdsl.BoundsError, match=f"index {shape[dimension]} of dimension {dimension} is out of bounds for {shape[dimension]} elements"
    ):
        device.synchronize()
    assert not x.numpy().any()


@DEVICES
def test_lanes_outside_are_left_out(device: Any) -> None:
    x, y = device.array(np.ones((16, 40), np.float32)), device.full((16, 64), -1.0, kdsl.f32)
    kernels.copy2(x, y)  # columns 40 to 63 are outside x
    with pytest.raises(kdsl.BoundsError, match="of dimension 1 is out of bounds for 40 elements"):
        device.synchronize()
    assert np.array_equal(y.numpy(), np.where(np.arange(64) < 40, 1, 0) * np.ones((16, 1)))


@DEVICES
@pytest.mark.parametrize("of", ["f32", "f64", "i32"])
def test_the_launch_decides_the_element_type(device: Any, of: str) -> None:
    host = RANDOM.integers(-9, 9, (20, 50)).astype(kdsl.dtype(of).numpy)
    y = device.zeros((50, 20), host.dtype)
    kernels.doubled(device.array(host).T, y)
    assert np.array_equal(y.numpy(), 2 * host.T)


@DEVICES
def test_graphs_take_strided_arrays(device: Any) -> None:
    host = RANDOM.random((9, 40), np.float32)
    x, y, z = device.array(host), device.zeros((40, 9), kdsl.f32), device.zeros((9, 20), kdsl.f32)
    with kdsl.Graph(device) as graph:
        kernels.copy2(x.T, y)
        kernels.copy2(x[::-1, ::2], z)
    graph.launch()
    assert np.array_equal(y.numpy(), host.T)
    assert np.array_equal(z.numpy(), host[::-1, ::2])
