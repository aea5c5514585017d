"""On a GPU a read outside in the `else` of a loop was not reported if a `break` of the loop around followed: it left before the question whether all checks
had held, and the loop was not made again to record the one that had not."""

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, f32, i32, kernel
from kdsl.backend.nvptx.speculation import may_run_again
from kdsl.ir import nodes


@kernel(grid=1, block=1)
def breaks(y: SliceMut[f32], x: Slice[f32], places: Slice[i32], last: i32) -> None:
    total = f32(0)
    for n in range(3):
        for m in range(2):
            total += x[places[m]]
        else:
            total += x[last]
            if n == 1:
                break
    y[0] = total


@kernel(grid=1, block=1)
def continues(y: SliceMut[f32], x: Slice[f32], places: Slice[i32], last: i32) -> None:
    total, n = f32(0), 0
    while n < 2:
        n += 1
        for m in range(2):
            total += x[places[m]]
        else:
            if x[last] < 1.0:
                continue
        total += 100.0
    y[0] = total


@kernel(grid=1, block=1)
def inner_jumps(y: SliceMut[f32], x: Slice[f32], places: Slice[i32], last: i32) -> None:
    total = f32(0)
    for m in range(2):
        total += x[places[m]]
    else:
        for n in range(3):
            total += x[last]
            if n == 1:
                break
    y[0] = total


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
@pytest.mark.parametrize(("tested", "total"), [(breaks, 6.0), (continues, 6.0), (inner_jumps, 3.0)], ids=lambda v: getattr(v, "name", ""))
def test_it_is_reported(device: kdsl.Device, tested: Any, total: float) -> None:
    x, places = device.array(np.array([1, 2], np.float32)), device.array(np.array([0, 1], np.int32))
    for last in (-1, 2):
        y = device.full(1, np.nan, f32)
        tested(y, x, places, last)
        with pytest.raises(kdsl.BoundsError, match=f"read outside array x: index {last} "):
            device.synchronize()
        assert y.numpy()[0] == total


def test_only_loops_that_end_where_they_end_run_again() -> None:
    def inner(tested: Any) -> list[bool]:
        loops = [op for op in nodes.walk(tested.ir().body) if isinstance(op, nodes.ForRange)]
        return [may_run_again(loop) for loop in loops]

    assert inner(breaks) == [True, False]
    assert inner(continues) == [False]
    assert inner(inner_jumps) == [True, True]
