"""On a GPU lanes whose check held read and wrote shared memory beside its place, where another lane of their warp failed: the function that records a failure
put a constant into a register of the warp (a uniform register) which they still had to read. ptxas 13.0 to 13.5 sees such calls on the side of the branch that
makes them only. Found by the fuzzer at level 0; since then the record is filled where the check is."""

import re
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, atomic_min, atomic_xor, i32, i64, kernel, shared_array, sync_threads, thread_idx, thread_index
from kdsl.backend.nvptx import compile_ptx
from kdsl.testing.ptx import assemble


@kernel(grid=2, block=3, requires="len(y) == 6")
def exchanged(y: SliceMut[i64], x: Slice[i64], s: i32) -> None:
    i = thread_index()
    t = thread_idx.x
    shared = shared_array(3, i64)
    shared[t] = x[t]
    sync_threads()
    if s > 2:
        sync_threads()
        if s <= 34:
            atomic_xor(shared, 2, 95)
        atomic_xor(shared, i, t + 1)
        sync_threads()
        atomic_min(shared, t - 1, 2)
        sync_threads()
    y[i] = shared[t]


@kernel(grid=1, block=32)
def lowered(y: SliceMut[i32], shift: i32) -> None:
    shared = shared_array(33, i32)
    shared[thread_idx.x] = 7
    sync_threads()
    atomic_min(shared, thread_idx.x - shift, 4)
    sync_threads()
    y[thread_idx.x] = shared[thread_idx.x]


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_other_lanes_are_not_disturbed(device: Any) -> None:
    y = device.full(32, -1, i32)
    lowered(y, 2)
    with pytest.raises(kdsl.BoundsError, match=r"index -[12] "):
        device.synchronize()
    assert y.numpy().tolist() == [4] * 30 + [7] * 2
    lowered(y, 0)
    assert (y.numpy() == np.full(32, 4)).all()


@pytest.mark.parametrize("s", [0, 3, 40])
@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_lanes_whose_check_holds(device: Any, s: int) -> None:
    x = np.array([5, -6, 7])
    y = device.array(np.full(6, 77))
    exchanged(y, device.array(x), s)
    if s > 2:
        with pytest.raises(kdsl.BoundsError):
            device.synchronize()
    expected = []
    for block in range(2):
        shared = x.copy()
        if s > 2:
            shared[2] ^= 95 if s <= 34 else 0  # an odd number of times, once by each thread
            for t in range(3):
                if block * 3 + t < 3:
                    shared[block * 3 + t] ^= t + 1
            for t in range(1, 3):
                shared[t - 1] = min(shared[t - 1], 2)
        expected += shared.tolist()
    assert y.numpy().tolist() == expected


@pytest.mark.parametrize("level", [0, 3])
def test_a_failed_check_calls_nothing(level: int) -> None:
    ptx = compile_ptx(exchanged.ir(), "sm_90", optimise=level)
    assert "// kdsl_record_failure" in ptx
    assert not re.search(r"^\tcall", ptx, re.MULTILINE)
    assemble(ptx, "sm_90")
