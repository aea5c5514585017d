"""On a CPU `x[t * (2**63 - 1)]` read beside x, and `x[t << 63]` ended the process: a group of lanes was checked by its first and last index alone, also where
the numbers in between wrap."""

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, i64, kernel, thread_idx

STEP, STRIDE = 203339, 12959880560970
"""Seven times their product is 194 modulo 2**64."""


@kernel(grid=1, block=5, requires="len(y) == 5")
def by_a_constant(y: SliceMut[i64], x: Slice[i64]) -> None:
    t = thread_idx.x
    y[t] = x[t * 9223372036854775807]


@kernel(grid=1, block=3, requires="len(y) == 3")
def by_a_shift(y: SliceMut[i64], x: Slice[i64]) -> None:
    t = thread_idx.x
    y[t] = x[t << 63]


@kernel(grid=1, block=8, requires="len(y) == 8")
def by_a_number(y: SliceMut[i64], x: Slice[i64], stride: i64) -> None:
    t = thread_idx.x
    y[t] = x[t * 203339 * stride]


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
@pytest.mark.parametrize(
    ("run", "threads", "indices", "numbers"),
    [
        (by_a_constant, 5, lambda t: t * (2**63 - 1), ()),
        (by_a_shift, 3, lambda t: t << 63, ()),
        (by_a_number, 8, lambda t: t * STEP * STRIDE, (STRIDE,)),
    ],
)
def test_what_is_outside_reads_zero(device: Any, run: Any, threads: int, indices: Any, numbers: tuple[int, ...]) -> None:
    x = np.arange(300) + 1000
    y = device.array(np.full(threads, 77))
    run(y, device.array(x), *numbers)
    with pytest.raises(kdsl.BoundsError):
        device.synchronize()
    wrapped = [indices(t) % 2**64 for t in range(threads)]
    assert y.numpy().tolist() == [x[index] if index < len(x) else 0 for index in wrapped]
