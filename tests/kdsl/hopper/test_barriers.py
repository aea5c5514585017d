"""Barriers in shared memory and named barriers, on GPUs that have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpus import LIMIT, on_tensor_memory_gpus, poisoned

import kdsl
from kdsl import (
    Barriers,
    Slice,
    SliceMut,
    barrier_arrive,
    barrier_arrive_copies,
    barrier_arrive_expect,
    barrier_arrive_named,
    barrier_complete,
    barrier_init,
    barrier_invalidate,
    barrier_sync,
    barrier_test,
    barrier_wait,
    copy_async,
    elect_one,
    f32,
    fence_barrier_init,
    function,
    i32,
    is_first_thread,
    kernel,
    shared_array,
    shared_barriers,
    sync_threads,
    thread_index,
    u32,
    unroll,
    warp_index,
)
from kdsl.testing.ptx import assemble, filecheck


@function
def set_up(barriers: Barriers, count: u32) -> None:
    """Two barriers for `count` threads, ready for all threads of the block."""
    if is_first_thread():
        barrier_init(barriers, 0, count)
        barrier_init(barriers, 1, count)
        fence_barrier_init()
    sync_threads()


@kernel(grid=1, block=64)
def ping(x: Slice[f32], y: SliceMut[f32], rounds: i32) -> None:
    """Reverse x in the block, `rounds` times, over two barriers in turn."""
    s = shared_array((2, 64), f32)
    barriers = shared_barriers(2)
    set_up(barriers, 64)
    t = thread_index()
    value = x[t]
    for k in range(rounds):
        s[k % 2, t] = value
        barrier_arrive(barriers, k % 2)
        barrier_wait(barriers, k % 2, k // 2, timeout=LIMIT)
        value = s[k % 2, 63 - t]
    y[t] = value


@on_tensor_memory_gpus
@pytest.mark.parametrize("rounds", [0, 1, 2, 5, 8])
def test_threads_meet_phase_after_phase(gpu: Any, rounds: int) -> None:
    x = np.arange(64, dtype=np.float32)
    y = gpu.array(poisoned((64,)))
    ping(gpu.array(x), y, rounds)
    np.testing.assert_array_equal(y.numpy(), x[::-1] if rounds % 2 else x)


@kernel(grid=1, block=32)
def announced(y: SliceMut[u32]) -> None:
    """Whether a phase has ended before and after its bytes are complete."""
    barriers = shared_barriers(2)
    set_up(barriers, 1)
    if is_first_thread():
        barrier_arrive_expect(barriers, 0, 64)
        y[0] = u32(barrier_test(barriers, 0, 0))
        barrier_complete(barriers, 0, 48)
        y[1] = u32(barrier_test(barriers, 0, 0))
        barrier_complete(barriers, 0, 16)
        barrier_wait(barriers, 0, 0, timeout=LIMIT)
        y[2] = u32(barrier_test(barriers, 0, 0))
        y[3] = u32(barrier_test(barriers, 0, 1))


@on_tensor_memory_gpus
def test_a_phase_ends_with_the_bytes_that_were_announced(gpu: Any) -> None:
    y = gpu.array(poisoned((4,), np.uint32))
    announced(y)
    np.testing.assert_array_equal(y.numpy(), [0, 0, 1, 0])


@kernel(grid=1, block=32)
def too_few(y: SliceMut[u32]) -> None:
    barriers = shared_barriers(2)
    set_up(barriers, 1)
    if is_first_thread():
        barrier_arrive_expect(barriers, 1, 64)
        barrier_complete(barriers, 1, 32)
        barrier_wait(barriers, 1, 0, timeout=1000)
        y[0] = 7


@on_tensor_memory_gpus
def test_a_wait_that_does_not_end_is_given_up_and_reported(gpu: Any) -> None:
    y = gpu.array(poisoned((1,), np.uint32))
    too_few(y)
    with pytest.raises(
        kdsl.BoundsError, match=r"kernel too_few, test_barriers.py:\d+: assertion failed: the wait for a barrier ends within 1000 ns"
    ):
        gpu.synchronize()
    np.testing.assert_array_equal(y.numpy(), [7])  # the thread went on, and the context lives


@kernel(grid=1, block=64)
def copied(x: Slice[f32], y: SliceMut[f32], before: SliceMut[u32]) -> None:
    """Warp 0 copies, and arrives by its copies; all wait for those, twice, the second time at a barrier that was set up anew for another count."""
    s = shared_array(128, f32)
    barriers = shared_barriers(1)
    t = thread_index()
    for round in unroll(2):
        if is_first_thread():
            if round == 0:
                barrier_init(barriers, 0, 32)  # the arrivals of the copies are among them
            else:
                barrier_invalidate(barriers, 0)
                barrier_init(barriers, 0, 64)  # arrivals of the threads, to which those of the copies are added
            fence_barrier_init()
        sync_threads()
        if warp_index() == 0:
            copy_async(s, 4 * t, x, 128 * round + 4 * t, 4)
            if round == 0:
                barrier_arrive_copies(barriers, 0, noinc=True)
            else:
                barrier_arrive_copies(barriers, 0)
        if round == 1:
            before[t] = u32(barrier_test(barriers, 0, 0))
            barrier_arrive(barriers, 0)
        barrier_wait(barriers, 0, 0, timeout=LIMIT)
        y[128 * round + t] = s[127 - t]
        y[128 * round + 64 + t] = s[63 - t]
        sync_threads()


@on_tensor_memory_gpus
def test_copies_arrive_when_they_are_done(gpu: Any) -> None:
    x = np.arange(256, dtype=np.float32)
    y, before = gpu.array(poisoned((256,))), gpu.array(poisoned((64,), np.uint32))
    copied(gpu.array(x), y, before)
    np.testing.assert_array_equal(y.numpy(), x.reshape(2, 128)[:, ::-1].reshape(-1))
    assert not before.numpy().any()  # a thread that has yet to arrive sees no end of the phase


def test_arrivals_of_copies_in_ptx() -> None:
    ptx = copied.ptx("sm_90")
    filecheck(ptx, """
    CHECK: mbarrier.init.shared.b64
    CHECK: cp.async.cg.shared.global
    CHECK: cp.async.mbarrier.arrive.noinc.shared.b64 [%r{{[0-9]+}}];
    CHECK: mbarrier.inval.shared.b64 [%r{{[0-9]+}}];
    CHECK: cp.async.cg.shared.global
    CHECK: cp.async.mbarrier.arrive.shared.b64 [%r{{[0-9]+}}];
    """)  # fmt: skip
    assemble(ptx, "sm_90")


@kernel(grid=1, block=32)
def outside(y: SliceMut[u32], i: i32) -> None:
    barriers = shared_barriers(2)
    set_up(barriers, 1)
    if is_first_thread():
        barrier_arrive(barriers, i)
        y[0] = u32(barrier_test(barriers, i, 0))
        barrier_wait(barriers, i, 0, timeout=LIMIT)


@on_tensor_memory_gpus
def test_a_barrier_that_does_not_exist_is_reported(gpu: Any) -> None:
    y = gpu.array(poisoned((1,), np.uint32))
    for i, expected in ((1, 1), (2, 0), (-1, 0)):
        outside(y, i)
        if expected:
            gpu.synchronize()
        else:
            with pytest.raises(kdsl.BoundsError, match=r"barrier_arrive\(\): the barrier exists"):
                gpu.synchronize()
        np.testing.assert_array_equal(y.numpy(), [expected])


@kernel(grid=1, block=96)
def handed_over(x: Slice[f32], y: SliceMut[f32]) -> None:
    """Warps 1 and 2 each hand 32 elements to warp 0, over a named barrier of their own."""
    s = shared_array((2, 32), f32)
    t = thread_index()
    if warp_index() > 0:
        s[warp_index() - 1, t % 32] = x[t]
        barrier_arrive_named(warp_index(), 64)
    else:
        for i in range(1, 3):
            barrier_sync(i, 64)
            y[32 * i + t] = s[i - 1, 31 - t]


@on_tensor_memory_gpus
def test_named_barriers_of_some_of_the_warps(gpu: Any) -> None:
    x = np.arange(96, dtype=np.float32)
    y = gpu.array(poisoned((96,)))
    handed_over(gpu.array(x), y)
    np.testing.assert_array_equal(y.numpy()[32:], np.concatenate([x[63:31:-1], x[95:63:-1]]))


@kernel(grid=1, block=96)
def elected(y: SliceMut[u32]) -> None:
    if elect_one():
        y[thread_index()] = 1


@on_tensor_memory_gpus
def test_one_lane_of_each_warp_is_elected(gpu: Any) -> None:
    y = gpu.zeros(96, u32)
    elected(y)
    np.testing.assert_array_equal(y.numpy().reshape(3, 32).sum(1), [1, 1, 1])
