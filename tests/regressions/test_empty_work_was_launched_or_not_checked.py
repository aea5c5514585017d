"""Elsewhere an empty array, or a grid of no blocks, was an error of the driver, a division by zero or a wrong number of arguments that nobody noticed.

Nothing to do is nothing done, in every geometry; the arguments are checked all the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of

import kdsl
from kdsl import f32

_BODY = "i = thread_index()\nif i in y:\n    y[i] = 2.0\natomic_add(count, 0, 1)"
GRIDS = {
    "elements": "grid=elements('y'), block=64",
    "rows": "grid=rows('len(y)'), block=64",
    "tiles": "grid=tiles(rows='len(y)', columns='n', tile=(8, 8))",
    "batches": "grid=tiles(rows=3, columns=5, batch='len(y)', tile=(8, 8))",
    "x": "grid='len(y)'",
    "y": "grid=(3, 'len(y)')",
    "z": "grid=(3, 2, 'len(y)'), block=(4, 4, 4)",
    "quotient": "grid='len(y) // 2'",
}
"""Grids without blocks if `y` is empty."""


@DEVICES
@pytest.mark.parametrize("grid", GRIDS)
def test_no_block_runs(device: Any, grid: str) -> None:
    kernel = kernel_of("y: SliceMut[f32], count: SliceMut[i32], n: i32", _BODY, f"{GRIDS[grid]}, requires=('n >= 0',)")
    count = device.zeros(1, np.int32)
    for empty in (
        device.zeros(0, f32),
        device.empty(0, f32),
        device.zeros(5, f32)[2:2],
        device.array(np.zeros(0, np.float32)),
        device.zeros((0, 5), f32).reshape(-1),
    ):
        kernel(empty, count, 7)
        kernel.on(device.stream())(empty, count, n=7)
        with kdsl.Graph(device) as graph:
            kernel(empty, count, 7)
        graph.launch()
        assert empty.numpy().shape == (0,)
    assert count.numpy()[0] == 0
    empty = device.zeros(0, f32)
    for wrong, error in (
        ((empty, count), TypeError),
        ((empty, count, 1.5), TypeError),
        ((empty, count, 2**31), OverflowError),
        ((device.zeros(0, np.float64), count, 7), TypeError),
        ((device.zeros((0, 1), f32), count, 7), TypeError),
        ((empty, [0], 7), TypeError),
        ((empty, count, -1), kdsl.LaunchError),
    ):
        with pytest.raises(error):
            kernel(*wrong)
    freed = device.zeros(0, f32)
    freed.free()
    with pytest.raises(kdsl.LaunchError, match="freed"):
        kernel(freed, count, 7)


@DEVICES
def test_a_huge_extent_beside_none(device: Any) -> None:
    """2**40 blocks along x and none along y are none, launched and captured."""
    kernel = kernel_of("count: SliceMut[i32], m: i64, n: i64", "atomic_add(count, 0, 1)", "grid=('m', 'n')")
    count = device.zeros(1, np.int32)
    kernel(count, 2**40, 0)
    with kdsl.Graph(device) as graph:
        node = kernel(count, 2**40, 0)
    graph.launch()
    graph.update(node, m=3, n=2)
    graph.launch()
    graph.update(node, m=0, n=2**62)
    graph.launch()
    assert count.numpy()[0] == 6 * 256
    with pytest.raises(kdsl.LaunchError, match="blocks"):
        kernel(count, 2**40, 1)
    with pytest.raises(kdsl.LaunchError, match="negative"):
        kernel(count, -1, 0)


@DEVICES
def test_blocks_that_find_their_arrays_empty(device: Any) -> None:
    """Reads and writes of an empty array beside one that is not: nothing inside, everything recorded, no address is touched."""
    kernel = kernel_of(
        "y: SliceMut[f32], x: Slice[f32], z: SliceMut[f32]",
        "i = thread_index()\nz[i] = 1.0\nfor v in range(len(x)):\n    z[i] = x[v]\nif i in x:\n    y[i] = x[i]",
        "grid=1, block=8",
    )
    empty, z = device.empty(0, f32), device.zeros(8, f32)
    kernel(empty, device.empty(0, f32), z)
    assert z.numpy().tolist() == [1.0] * 8
    reading = kernel_of("y: SliceMut[f32], x: Slice[f32]", "y[thread_index()] = x[thread_index()] + 1.0", "grid=1, block=8")
    reading(z, empty)
    with pytest.raises(kdsl.BoundsError, match="out of bounds for 0 elements"):
        device.synchronize()
    assert z.numpy().tolist() == [1.0] * 8
    reading(empty, z)
    with pytest.raises(kdsl.BoundsError, match="write outside array y"):
        device.synchronize()


@DEVICES
def test_arrays_of_no_elements_on_the_host(device: Any) -> None:
    empty = device.zeros(0, f32)
    empty.fill(3)
    empty.copy_from(np.zeros(0, np.float32))
    empty.copy_from(device.empty(0, f32))
    assert (empty.size, len(empty), empty.nbytes, empty.numpy().size) == (0, 0, 0, 0)
    wide = device.zeros((3, 0, 2), f32)
    assert wide.T.shape == (2, 0, 3)
    assert wide[1:, :, ::-1].numpy().shape == (2, 0, 2)
    assert wide.reshape(0).shape == (0,)
    assert device.zeros(1, f32).broadcast_to((0, 1)).size == 0
