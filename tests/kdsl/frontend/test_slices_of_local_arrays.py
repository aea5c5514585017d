"""Slices of local arrays: tuples of elements, in registers and in memory, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kdsl import Slice, SliceMut, elements, f32, i32, kernel, local_array, thread_index, unroll
from kdsl.ir import nodes
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)


@kernel(grid=elements("x"), block=32)
def in_registers(y: SliceMut[f32], x: Slice[f32]) -> None:
    """Turned by one, twice, and summed with weights."""
    i = thread_index()
    if i in x:
        parts = local_array((2, 3), f32)
        for r in unroll(2):
            parts[r, :] = (x[i], x[i] + 1.0, x[i] + 2.0)
        a, b = parts[0, 1:3]
        parts[0, 2:], parts[0, 0:2] = parts[0, :1], (a, b)
        parts[1, 1:1] = ()
        y[i] = parts[0, 0] + 10.0 * parts[0, 1] + 100.0 * parts[0, 2] + 1000.0 * len(parts[1, 0:2])


@kernel(grid=elements("x"), block=32)
def in_memory(y: SliceMut[i32], x: Slice[i32]) -> None:
    """The same array is also indexed at run time."""
    i = thread_index()
    if i in x:
        parts = local_array(8, i32)
        parts[:] = (0, 1, 2, 3, 4, 5, 6, 7)
        for _step in range(3):
            parts[0:4], parts[4:8] = parts[4:8], parts[0:4]
        y[i] = parts[x[i]]


@DEVICES
def test_both(device: Any) -> None:
    x = np.arange(33, dtype=np.float32)
    y = device.array(np.full(33, np.nan, np.float32))
    in_registers(y, device.array(x))
    np.testing.assert_array_equal(y.numpy(), (x + 1) + 10 * (x + 2) + 100 * x + 2000)
    z = device.array(np.full(33, -1, np.int32))
    in_memory(z, device.array(np.arange(33, dtype=np.int32) % 8))
    np.testing.assert_array_equal(z.numpy(), (np.arange(33) % 8 + 4) % 8)


def test_registers_stay_registers() -> None:
    assert not in_registers.ir().arrays
    assert [array.name for array in in_memory.ir().arrays] == ["parts"]
    assert not [op for op in nodes.walk(in_registers.ir().body) if isinstance(op, nodes.Load) and isinstance(op.memory, nodes.Array)]
