"""On a GPU lanes whose check had failed took no part in the exchanges that followed: from an aligned barrier behind them ptxas 13.0 to 13.5 concludes that all
lanes of the warp are together, and leaves out what would bring them together after the call that records the failure. Found by the fuzzer."""

import re
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, block_prefix_sum, i8, i64, kernel, shared_array, sync_threads, thread_idx, warp_max
from kdsl.backend.nvptx import compile_ptx
from kdsl.testing.ptx import assemble


@kernel(grid=1, block=32, requires=("len(sums) == 32", "len(most) == 32"))
def summed(sums: SliceMut[i64], most: SliceMut[i64], x: Slice[i8], starts: Slice[i64]) -> None:
    t = thread_idx.x
    shared = shared_array(32, i64)
    shared[t] = starts[t // 4]
    sync_threads()
    first = x[t + shared[t ^ 1]]
    second = x[t % 8 + 3]
    total = block_prefix_sum(first ^ second)
    sync_threads()
    shared[t] = i64(total)
    sync_threads()
    most[t] = warp_max(shared[31 - t])
    sums[t] = i64(total)


@kernel(grid=1, block=32, requires=("len(y) == 32", "len(x) == 32"))
def proved(y: SliceMut[i64], x: Slice[i64]) -> None:
    t = thread_idx.x
    shared = shared_array(32, i64)
    shared[t] = x[t]
    sync_threads()
    y[t] = shared[31 - t]


@pytest.mark.parametrize("count", [0, 1, 5, 6, 8, 9, 12, 31, 96])
@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_all_lanes_take_part(device: Any, count: int) -> None:
    x = np.random.default_rng(count).integers(-128, 128, count).astype(np.int8)
    starts = np.array([0, 3, 0, 7, 0, 0, 40, 1])
    sums, most = (device.array(np.full(32, 77)) for _ in range(2))
    summed(sums, most, device.array(x), device.array(starts))
    if count < 96:
        with pytest.raises(kdsl.BoundsError):
            device.synchronize()
    read = [
        [int(x[i]) if i < count else 0 for i in indices]
        for indices in ([t + int(starts[(t ^ 1) // 4]) for t in range(32)], [t % 8 + 3 for t in range(32)])
    ]
    expected = np.add.accumulate(np.array([a ^ b for a, b in zip(*read, strict=True)], np.int8), dtype=np.int8).astype(np.int64)
    np.testing.assert_array_equal(sums.numpy(), expected)
    np.testing.assert_array_equal(most.numpy(), np.full(32, expected.max()))


@pytest.mark.parametrize("level", [0, 3])
def test_barriers_of_kernels_with_calls_and_exchanges_are_of_threads(level: int) -> None:
    ptx = compile_ptx(summed.ir(), "sm_80", optimise=level)
    assert "// kdsl_record_failure" in ptx
    assert len(re.findall(r"\bbarrier\.sync\b", ptx)) == 3
    assert "bar.sync" not in ptx
    assemble(ptx, "sm_80")


def test_barriers_of_kernels_without_calls_are_of_warps() -> None:
    assert "bar.sync" in compile_ptx(proved.ir(), "sm_80")
