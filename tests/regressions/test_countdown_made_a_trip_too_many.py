"""On a GPU `for n in range(k, -1, -1)` went on to -1 in some of its trips: ptxas 13.0 to 13.5 unrolls a loop that counts down while `n < -2`, unsigned, as LLVM
wrote it, as if it went on to -2."""

import re
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, i64, kernel, thread_index
from kdsl.backend.nvptx import compile_ptx
from kdsl.testing.ptx import assemble

STARTS = [-(2**63), -5, -1, 0, 1, 2, 3, 4, 7, 8, 31, 2**63 - 1]


@kernel(grid=1, block=32, requires=("len(ones) == len(start)", "len(threes) == len(start)", "len(steps) == len(start)"))
def counted(ones: SliceMut[i64], threes: SliceMut[i64], steps: SliceMut[i64], start: Slice[i64], stop: i64, step: i64) -> None:
    i = thread_index()
    if i in start:
        a = b = c = 0
        for n in range(start[i] % 64, -1, -1):
            a = a * 5 + n
        for n in range(start[i] % 64, -2, -3):
            b = b * 5 + n
        for n in range(start[i] // 2**56, stop, step):
            c = c * 5 + n
        ones[i], threes[i], steps[i] = a, b, c


def hashed(numbers: range) -> int:
    total = 0
    for number in numbers:
        total = (total * 5 + number + 2**63) % 2**64 - 2**63
    return total


@pytest.mark.parametrize(
    ("stop", "step"), [(-9, -1), (-(2**63), -(2**62)), (-(2**63), -(2**63)), (2**63 - 1, 2**62), (3, 2**63 - 1), (5, -7), (90, 7)]
)
@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_trips(device: Any, stop: int, step: int) -> None:
    found = [device.array(np.full(len(STARTS), 77)) for _ in range(3)]
    counted(*found, device.array(np.array(STARTS)), stop, step)
    ones, threes, steps = (array.numpy().tolist() for array in found)
    assert ones == [hashed(range(start % 64, -1, -1)) for start in STARTS]
    assert threes == [hashed(range(start % 64, -2, -3)) for start in STARTS]
    assert steps == [hashed(range(start // 2**56, stop, step)) for start in STARTS]


@pytest.mark.parametrize("level", [0, 3])
def test_no_counter_is_compared_as_if_it_wrapped(level: int) -> None:
    ptx = compile_ptx(counted.ir(), "sm_90", optimise=level)
    assert "setp" in ptx
    assert not re.search(r"setp\.l[te]\.u64\s+%\w+, %\w+, -\d+;", ptx)
    assemble(ptx, "sm_90")
