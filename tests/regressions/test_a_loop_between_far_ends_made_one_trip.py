"""On a GPU a loop whose way from start to end is longer than half of all numbers made one trip: ptxas 13.0 to 13.5 counts its trips as signed numbers of the
counter's width when it unrolls it. LLVM writes such a comparison, with numbers of its own, whatever form it is given."""

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, i32, i64, kernel, u32
from kdsl.backend.nvptx import compile_ptx
from kdsl.backend.nvptx.faults import without_faulty_forms
from kdsl.testing.ptx import assemble


@kernel(grid=1, block=1, requires=("len(y) == 4", "len(trips) == 4"))
def far(y: SliceMut[i64], trips: SliceMut[i32], x: Slice[i64]) -> None:
    total = 3
    for n in range(9223372036854775807, -9223372036854775808, -36028797018963969):
        total = total * total + n
        for k in range(len(x)):
            total += x[k] * total
        trips[0] += 1
    y[0] = total
    number = i32(2147483647)
    while number > -2136746230:
        number -= 10737419
        total = total * total + i64(number)
        trips[1] += 1
    y[1] = total
    number = i32(-2147483648)
    while number < 1073741824:
        total = total * total + i64(number)
        number += 10737419
        trips[2] += 1
    y[2] = total
    unsigned = u32(0)
    while unsigned < 4284229877:
        total = total * total + i64(unsigned)
        unsigned += 10737419
        trips[3] += 1
    y[3] = total


def expected(x: list[int]) -> tuple[list[int], list[int]]:
    def cut(value: int) -> int:
        return (value + 2**63) % 2**64 - 2**63

    total = 3
    first = range(2**63 - 1, -(2**63), -36028797018963969)
    for n in first:
        total = cut(total * total + n)
        for value in x:
            total = cut(total + value * total)
    totals, trips = [total], [len(first)]
    later = range(2**31 - 1 - 10737419, -2136746230 - 10737419, -10737419), range(-(2**31), 2**30, 10737419), range(0, 4284229877, 10737419)
    for numbers in later:
        for n in numbers:
            total = cut(total * total + n)
        totals, trips = [*totals, total], [*trips, len(numbers)]
    return totals, trips


@pytest.mark.parametrize("count", [0, 1, 5, 9])
@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_trips(device: Any, count: int) -> None:
    x = np.arange(2, 2 + count)
    y, trips = device.array(np.full(4, 77)), device.array(np.zeros(4, np.int32))
    far(y, trips, device.array(x))
    assert (y.numpy().tolist(), trips.numpy().tolist()) == expected(x.tolist())


def test_the_loops_stay() -> None:
    ptx = compile_ptx(far.ir(), "sm_80")
    assert ptx.count('.pragma "nounroll";') == 3  # one of them is LLVM's own, of the inner loop's rest
    assemble(ptx, "sm_80")


LOOP = """{{
	mov.b{width} 	%r1, {start};
$L__BB0_1:
	add.s{width} 	%r2, %r1, {step};
	setp.{relation}.s{width} 	%p1, %r2, {end};
	mov.b{width} 	%r1, %r2;
	@%p1 bra 	$L__BB0_1;
}}
"""


@pytest.mark.parametrize(
    ("width", "start", "relation", "end", "step", "kept"),
    [
        (64, 2**63 - 1, "gt", 5, -(2**60), True),
        (64, 5, "gt", -(2**62), -(2**60), True),
        (64, 5, "lt", 100, 2**62, True),
        (64, 2**61, "gt", -(2**61), -(2**60), False),
        (32, 2**31 - 1, "gt", -5, -7, True),
        (32, "%r7", "lt", 2**30, 7, True),
        (32, "%r7", "lt", "%r9", 7, False),
        (32, 2**31 - 1, "lt", "%r9", 7, True),
        (32, 0, "lt", 1000, 1, False),
    ],
)
def test_which_loops_stay(width: int, start: object, relation: str, end: object, step: int, kept: bool) -> None:
    ptx = LOOP.format(width=width, start=start, relation=relation, end=end, step=step)
    assert without_faulty_forms(ptx) == (ptx.replace("BB0_1:", 'BB0_1:\n\t.pragma "nounroll";') if kept else ptx)
