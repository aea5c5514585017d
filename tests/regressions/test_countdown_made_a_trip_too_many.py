"""On a GPU `for n in range(k, -1, -1)` made a trip too many for k = 1, 4 and others: ptxas 13.0 to 13.5 unrolls a loop that counts down while `n < -2`,
unsigned, as LLVM wrote it, as if it went on to -2."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, i64, kernel, thread_index, u32
from kdsl.backend.nvptx import compile_ptx
from kdsl.testing.ptx import assemble

STARTS = [-(2**63), -5, -1, 0, 1, 2, 3, 4, 7, 8, 31, 2**63 - 1]


@kernel(
    grid=1,
    block=32,
    requires=("len(known) == len(start)", "len(unknown) == len(start)", "len(steps) == len(start)", "len(words) == len(start)"),
)
def counted(
    known: SliceMut[i64],
    unknown: SliceMut[i64],
    steps: SliceMut[i64],
    words: SliceMut[i64],
    start: Slice[i64],
    stop: i64,
    step: i64,
    zero: i64,
) -> None:
    i = thread_index()
    if i in start:
        a = b = c = d = 0
        for n in range(start[i] % 64, -1, -1):
            a = a * 5 + n
        for n in range((start[i] >> 56) + zero, -2, -3):
            b = b * 5 + n
        for n in range(start[i] // 2**56, stop, step):
            c = c * 5 + n
        left = u32(start[i] & 63)
        while left + 2 > 2:
            d = d * 5 + i64(left)
            left -= 1
        known[i], unknown[i], steps[i], words[i] = a, b, c, d


@kernel(grid=1, block=1, requires="len(y) == 1")
def far_apart(y: SliceMut[i64], x: i64) -> None:
    total = 0
    for n in range(9223372036854775807, -9223372036854775808, -6148914691236517205):
        total = total * 5 + n // 2 + x
    for n in range(-9223372036854775808, 4611686018427387904, 4611686018427387904):
        total = total * 5 + n // 2 + x
    y[0] = total


@kernel(grid=1, block=32, requires="len(y) == 32")
def until_inside_no_more(y: SliceMut[i64], x: Slice[i64], first: i64) -> None:
    n = first + thread_index()
    total = 0
    while True:
        total = total * 5 + n
        n -= 1
        if n not in x:
            break
    y[thread_index()] = total


def hashed(numbers: Iterable[int]) -> int:
    total = 0
    for number in numbers:
        total = (total * 5 + number + 2**63) % 2**64 - 2**63
    return total


@pytest.mark.parametrize(
    ("stop", "step"), [(-9, -1), (-(2**63), -(2**62)), (-(2**63), -(2**63)), (2**63 - 1, 2**62), (3, 2**63 - 1), (5, -7), (90, 7)]
)
@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_trips(device: Any, stop: int, step: int) -> None:
    found = [device.array(np.full(len(STARTS), 77)) for _ in range(4)]
    counted(*found, device.array(np.array(STARTS)), stop, step, 0)
    known, unknown, steps, words = (array.numpy().tolist() for array in found)
    assert known == [hashed(range(start % 64, -1, -1)) for start in STARTS]
    assert unknown == [hashed(range(start >> 56, -2, -3)) for start in STARTS]
    assert steps == [hashed(range(start // 2**56, stop, step)) for start in STARTS]
    assert words == [hashed(range(start & 63, 0, -1)) for start in STARTS]


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_more_than_an_integer_apart(device: Any) -> None:
    y = device.array(np.full(1, 77))
    far_apart(y, 3)
    numbers = [*range(2**63 - 1, -(2**63), -6148914691236517205), *range(-(2**63), 2**62, 2**62)]
    assert y.numpy().tolist() == [hashed([n // 2 + 3 for n in numbers])]


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_a_loop_that_ends_at_once_outside(device: Any) -> None:
    y = device.array(np.full(32, 77))
    until_inside_no_more(y, device.array(np.zeros(11, np.int64)), 0)
    assert y.numpy().tolist() == [hashed(range(n, -1, -1)) if 0 < n <= 11 else n for n in range(32)]


def test_a_loop_that_ends_outside_is_not_unrolled() -> None:
    ptx = compile_ptx(until_inside_no_more.ir(), "sm_90")
    assert ptx.count('.pragma "nounroll";') == 1
    assemble(ptx, "sm_90")


@pytest.mark.parametrize("level", [0, 3])
def test_no_counter_is_compared_as_if_it_wrapped(level: int) -> None:
    ptx = compile_ptx(counted.ir(), "sm_90", optimise=level)
    assert "setp" in ptx
    assert not re.search(r"setp\.(lt|le|gt|ge)\.u\d\d\s+%\w+, %\w+, -\d+;", ptx)
    assemble(ptx, "sm_90")
