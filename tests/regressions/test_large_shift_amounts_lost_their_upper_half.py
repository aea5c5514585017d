"""On a GPU `4 << x` with x = -2**63 was 4: LLVM looked at the lower 32 bits of the amount only."""

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, i64, kernel, thread_index, u64
from kdsl.testing.ptx import assemble

AMOUNTS = np.array([-(2**63), -(2**62), -1, 0, 1, 63, 64, 2**32, 2**32 + 1, 2**40, 2**63 - 1], np.int64)


@kernel(grid=1, block=32, requires=("len(left) == len(amount)", "len(right) == len(amount)", "len(logical) == len(amount)"))
def shifted(left: SliceMut[i64], right: SliceMut[i64], logical: SliceMut[u64], amount: Slice[i64]) -> None:
    i = thread_index()
    if i in amount:
        left[i] = 4 << amount[i]
        right[i] = -4 >> amount[i]
        logical[i] = u64(2**63) >> u64(amount[i])


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_shift_by_any_amount(device: Any) -> None:
    left, right, logical = device.zeros(len(AMOUNTS), kdsl.i64), device.zeros(len(AMOUNTS), kdsl.i64), device.zeros(len(AMOUNTS), kdsl.u64)
    shifted(left, right, logical, device.array(AMOUNTS))
    inside = [0 <= n < 64 for n in AMOUNTS.tolist()]
    amounts = [n if fits else 64 for n, fits in zip(AMOUNTS.tolist(), inside, strict=True)]
    assert left.numpy().tolist() == [kdsl.i64((4 << n) % 2**64) if n < 64 else 0 for n in amounts]
    assert right.numpy().tolist() == [-4 >> n for n in amounts]
    assert logical.numpy().tolist() == [2**63 >> n for n in amounts]


def test_the_whole_amount_is_compared() -> None:
    ptx = shifted.ptx("sm_90")
    assert ptx.count("setp.lt.u64") + ptx.count("setp.gt.u64") + ptx.count("min.u64") >= 3
    assemble(ptx, "sm_90")
