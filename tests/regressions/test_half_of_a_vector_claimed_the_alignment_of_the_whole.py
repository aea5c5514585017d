"""On a CPU a block of two threads takes an `f32x4` in halves, and the second half was said to be aligned to 16 bytes, too: LLVM joined two halves to one
aligned access of 16 bytes in the middle, which ended the process."""

import re
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import SliceMut, f32x4, kernel, thread_index, u16x8
from kdsl.backend.cpu import HostCpu
from kdsl.backend.cpu.compile import compile_ir


@kernel(grid=3, block=2)
def doubled(y: SliceMut[f32x4], z: SliceMut[u16x8]) -> None:
    i = thread_index()
    y[i] = y[i] + y[i]
    z[i] = z[i] + z[i]


@pytest.mark.parametrize("generation", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_alignment_of_parts(generation: str) -> None:
    text = compile_ir(doubled.ir(), HostCpu(generation), optimise=0)
    behind = {name: int(words) * 4 for name, words in re.findall(r"(%[\w.]+) = getelementptr (?:i32|float), ptr %[\w.]+, i64 (\d+)", text)}
    found = re.findall(r"(?:load|store|masked\.(?:load|store)\S*\() ?[^\n]*ptr (?:align (\d+) )?(%[\w.]+)(?:, align (\d+))?", text)
    halves = [(behind[place], int(before or after)) for before, place, after in found if place in behind]
    assert len(halves) >= 12
    assert all(offset % alignment == 0 for offset, alignment in halves), halves


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_in_pairs(device: Any) -> None:
    y, z = np.arange(20, dtype=np.float32), np.arange(40, dtype=np.uint16)
    given = device.array(y), device.array(z)
    doubled(*given)
    with pytest.raises(kdsl.BoundsError):
        device.synchronize()
    np.testing.assert_array_equal(given[0].numpy(), 2 * y)
    np.testing.assert_array_equal(given[1].numpy(), 2 * z)
