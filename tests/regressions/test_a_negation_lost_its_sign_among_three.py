"""On a GPU `max(y, -x, z)` took x for -x: of two signed minima or maxima in a row ptxas 13.0 makes one of three numbers on GPUs that have that instruction
(`sm_90`, `sm_100`), without the negation of the second one. `max(y, abs(x), z)` had it, too, as an absolute value is the larger one of x and -x. Found by the
fuzzer."""

import re
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, i32, kernel, thread_index
from kdsl.backend.nvptx import compile_ptx
from kdsl.backend.nvptx.faults import without_faulty_forms
from kdsl.testing.ptx import assemble


@kernel(grid=1, block=32, requires=("len(y) == 8 * len(x)", "len(x) <= 32"))
def extremes(y: SliceMut[i32], x: Slice[i32], a: i32, b: i32) -> None:
    i = thread_index()
    if i in x:
        value = x[i]
        zero = 0
        turned = value
        if i % 2:
            turned = -value
        y[i] = max(a, -value, b)
        y[i + len(x)] = max(-a, -value, b)
        y[i + 2 * len(x)] = min(a, -value, b)
        y[i + 3 * len(x)] = max(a, abs(value), b)
        y[i + 4 * len(x)] = max(abs(a), abs(value), abs(b))
        y[i + 5 * len(x)] = min(b, max(a, zero - value, value))
        y[i + 6 * len(x)] = max(b, max(a, turned))
        y[i + 7 * len(x)] = max(b, max(a, (a if i % 3 else -value)))


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_bits(device: Any) -> None:
    x = np.array([-(2**31), -(2**31) + 1, 2**31 - 1, -7, -1, 0, 1, 5, 7, 100, -100, 3], np.int32)
    for a, b in ((0, 5), (-9, -1000), (3, -4), (-(2**31), -(2**31)), (2**31 - 1, -6)):
        y = device.full(8 * len(x), 77, i32)
        extremes(y, device.array(x), a, b)
        negated = -x  # wraps as in the language
        i = np.arange(len(x))
        minus_a = np.int32(-a) if a != -(2**31) else np.int32(a)
        sizes = [np.abs(np.int32(value)) for value in (a, b)]
        expected = [
            np.maximum(np.maximum(a, negated), b),
            np.maximum(np.maximum(minus_a, negated), b),
            np.minimum(np.minimum(a, negated), b),
            np.maximum(np.maximum(a, np.abs(x)), b),
            np.maximum(np.maximum(sizes[0], np.abs(x)), sizes[1]),
            np.minimum(b, np.maximum(np.maximum(a, negated), x)),
            np.maximum(b, np.maximum(a, np.where(i % 2, negated, x))),
            np.maximum(b, np.maximum(a, np.where(i % 3, a, negated))),
        ]
        np.testing.assert_array_equal(y.numpy(), np.concatenate(expected))


@kernel(grid=1, block=32, requires=("len(y) == len(x)", "len(x) <= 32"))
def fallen(y: SliceMut[i32], x: Slice[i32], a: i32) -> None:
    i = thread_index()
    if i in x:
        sum = i32(0)
        highest = a
        for n in range(x[i]):
            sum -= x[n % len(x)]
            highest = max(highest, sum, i32(n) - 50)
        y[i] = highest


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_a_number_that_is_zero_on_one_way_only(device: Any) -> None:
    """What a first mend took for a negation."""
    x = np.array([4, -1, 9, 30, -20, 5, 100, 7, 0, 3, -9], np.int32)
    y = device.full(len(x), 77, i32)
    fallen(y, device.array(x), -50)
    sums = -np.cumsum(np.resize(x, 100))
    np.testing.assert_array_equal(y.numpy(), [max([-50, *sums[: max(0, end)], end - 51]) for end in x])


def test_a_difference_keeps_its_first_operand() -> None:
    ptx = compile_ptx(fallen.ir(), "sm_90")
    assert re.search(r"add\.s32 %a, %a, 1; add\.s32\s+(%\w+), (%\w+), %a;", ptx)
    assemble(ptx, "sm_90")


@pytest.mark.parametrize("level", [0, 3])
def test_no_negation_meets_an_extreme(level: int) -> None:
    ptx = compile_ptx(extremes.ir(), "sm_90", optimise=level)
    taken = {operand for pair in re.findall(r"(?:min|max)\.s32\s+%\w+, (\S+), (\S+);", ptx) for operand in pair}
    moved = dict(re.findall(r"mov\.b32\s+(%\w+), (%\w+);", ptx))
    taken |= {moved[name] for name in taken if name in moved}
    assert taken
    assert not taken & set(re.findall(r"neg\.s32\s+(%\w+),", ptx))
    assemble(ptx, "sm_90")


FALLING = """\tmov.b32 \t%r1, 0;
$L__BB0_1:
\tsub.s32 \t%r2, %r1, %r4;
\tmov.b32 \t%r1, %r2;
\tmax.s32 \t%r3, %r3, %r2;
\tsetp.lt.u32 \t%p1, %r2, %r5;
\t@%p1 bra \t$L__BB0_1;
\tret;
"""


def test_a_counter_that_falls_from_zero_is_still_known_to_fall() -> None:
    """What looks like a negation there makes the loop one that is not unrolled (`test_countdown_made_a_trip_too_many`)."""
    written = without_faulty_forms(FALLING)
    assert "not.b32" in written
    assert '.pragma "nounroll";' in written
