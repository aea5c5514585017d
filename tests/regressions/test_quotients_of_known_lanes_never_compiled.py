"""With AVX-512 a signed quotient in a block of a few threads did not end compiling: the lanes beyond the block divide by 1, and of what floors their quotients
LLVM's code generator made a sum and an "or" of each other for ever. Found by the fuzzer."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import SliceMut, f32, i32, i64, kernel, shuffle_down, thread_idx, thread_index

PATIENCE = 60
"""Seconds for what takes one; in a process of its own, since nothing else ends LLVM."""


@kernel(grid=3, block=5)
def counted(y: SliceMut[i64], more: i64) -> None:
    i = thread_index()
    t = thread_idx.x
    n = 0
    while f32(t) <= f32(t) and n < 5:
        n += 1
    y[i] = shuffle_down(7 // n, 31, width=4) + more


@kernel(grid=3, block=5)
def counted_in_32_bits(y: SliceMut[i32], more: i32) -> None:
    i = thread_index()
    t = thread_idx.x
    n = i32(0)
    while f32(t) <= f32(t) and n < 5:
        n += 1
    y[i] = shuffle_down(i32(7) // n, 31, width=4) + more


def compiled(generation: str) -> None:
    """Compile both, at full optimisation."""
    from kdsl.backend.cpu import HostCpu, compile_object

    for kernel_ in (counted, counted_in_32_bits):
        compile_object(kernel_.ir(), HostCpu(generation))


@pytest.mark.parametrize("generation", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_compiling_ends(generation: str) -> None:
    file = Path(__file__)
    program = f"import {file.stem} as test; test.compiled({generation!r})"
    subprocess.run([sys.executable, "-c", program], cwd=file.parent, check=True, timeout=PATIENCE)


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_values(device: Any) -> None:
    for kernel_, dtype in ((counted, np.int64), (counted_in_32_bits, np.int32)):
        y = device.array(np.full(15, 77, dtype))
        kernel_(y, -3)
        assert y.numpy().tolist() == [-2] * 15
