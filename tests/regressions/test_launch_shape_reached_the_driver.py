"""Elsewhere a block of 2,048 threads, a grid of 2.5 or of four extents went to the driver, which answered with a number, or were cut to something.

Blocks and grids are whole numbers of one to three extents within the hardware's limits, which is said when the kernel is declared or launched; nothing has
been written then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of

import kdsl
from kdsl import f32


@pytest.mark.parametrize(
    "block", ["2048", "1025", "0", "-1", "2.5", "True", "(32, 64)", "(1, 2, 3, 4)", "()", "(1, 1, 65)", "'64'", "(32, 1.0)"]
)
def test_blocks_that_cannot_be(block: str) -> None:
    with pytest.raises(kdsl.KernelError) as caught:
        kernel_of("y: SliceMut[f32]", "y[0] = 1", f"grid=1, block={block}").ir()
    assert "block" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("grid", ["2.5", "(1, 2, 3, 4)", "-1", "True", "(2, -1)", "()", "(1, 0.5)"])
def test_grids_that_cannot_be(grid: str) -> None:
    with pytest.raises((kdsl.KernelError, kdsl.ContractError)) as caught:
        kernel_of("y: SliceMut[f32]", "y[0] = 1", f"grid={grid}").ir()
    assert "grid" in str(caught.value)


@DEVICES
@pytest.mark.parametrize("shape", ["numpy.int64(3)", "(numpy.int32(3),)", "(3, numpy.uint8(1), 1)"])
def test_numbers_of_numpy_are_numbers(device: Any, shape: str) -> None:
    k = kernel_of("y: SliceMut[f32]", "if is_first_thread():\n    y[block_idx.x] = f32(grid_dim.x)", f"grid={shape}, block=32", numpy=np)
    y = device.zeros(3, f32)
    k(y)
    np.testing.assert_array_equal(y.numpy(), 3)


@DEVICES
@pytest.mark.parametrize(("n", "m", "message"), [(-1, 1, "negative|-1"), (1 << 16, 1 << 16, "4294967296|blocks"), (2, -3, "negative|-3")])
def test_grids_of_a_launch(device: Any, n: int, m: int, message: str) -> None:
    k = kernel_of("y: SliceMut[f32], n: i64, m: i64", "y[0] = 1", "grid=('n', 'm'), block=32")
    y = device.zeros(1, f32)
    with pytest.raises(kdsl.LaunchError, match=message):
        k(y, n, m)
    device.synchronize()
    assert y.numpy()[0] == 0
    with pytest.raises(kdsl.LaunchError, match="2147483648"):
        kernel_of("y: SliceMut[f32]", "y[0] = 1", "grid=2**31, block=32")(y)
    k(y, 0, 5)
    assert y.numpy()[0] == 0
    k(y, 70_000 if device.name.startswith("cuda") else 70, 1)
    assert y.numpy()[0] == 1


@DEVICES
def test_more_blocks_along_y_and_z_than_the_hardware_counts(device: Any) -> None:
    k = kernel_of(
        "y: SliceMut[i64]",
        "if is_first_thread():\n    atomic_max(y, 0, block_idx.y + block_idx.z * 100_000)",
        "grid=(1, 70_000, 2), block=1",
    )
    y = device.zeros(1, kdsl.i64)
    k(y)
    assert y.numpy()[0] == 69_999 + 100_000
