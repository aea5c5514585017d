"""Kernels written in Python, run on the CPU device and compared with NumPy."""

from __future__ import annotations

import numpy as np

import kdsl
from kdsl import (
    DisjointSlice,
    Slice,
    elements,
    f32,
    i32,
    i64,
    kernel,
    lane_index,
    shared_array,
    shuffle_up,
    sync_threads,
    thread_index,
    warp_ballot,
    warp_index,
    warp_sum,
)


@kernel(grid=elements("steps"))
def collatz(steps: DisjointSlice[i32], start: Slice[i64]) -> None:
    i = thread_index()
    if i in steps:
        n = start[i]
        count = i32(0)
        while n != 1:
            if n <= 0:
                count = i32(-1)
                break
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            count += i32(1)
        steps[i] = count


def test_divergent_loop() -> None:
    device = kdsl.device("cpu")
    start = np.arange(-3, 1000, dtype=np.int64)
    steps = device.empty(start.size, i32)
    collatz(steps, device.array(start))

    def count(n: int) -> int:
        steps = 0
        while n != 1:
            if n <= 0:
                return -1
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        return steps

    np.testing.assert_array_equal(steps.numpy(), [count(int(n)) for n in start])


WIDTH = 256


@kernel(grid=elements("y"), block=WIDTH)
def prefix_sum(y: DisjointSlice[i32], x: Slice[i32]) -> None:
    """The running sum within each block: a scan by shuffles in each warp, then the sums of the warps before it."""
    totals = shared_array(WIDTH // 32, i32)
    i = thread_index()
    value = x[i] if i < len(x) else i32(0)
    distance = i64(1)
    while distance < 32:
        below = shuffle_up(value, distance)
        if lane_index() >= distance:
            value += below
        distance *= 2
    if lane_index() == 31:
        totals[warp_index()] = value
    sync_threads()
    for warp in range(warp_index()):
        value += totals[warp]
    if i in y:
        y[i] = value


def test_scan() -> None:
    device = kdsl.device("cpu")
    for n in (1, 31, 256, 1000):
        x = np.random.default_rng(n).integers(-9, 9, n).astype(np.int32)
        y = device.empty(n, i32)
        prefix_sum(y, device.array(x))
        expected = np.concatenate([np.cumsum(x[first : first + WIDTH]) for first in range(0, n, WIDTH)])
        np.testing.assert_array_equal(y.numpy(), expected)


@kernel(grid=1, block=40)
def partial_warps(sums: DisjointSlice[f32], x: Slice[f32]) -> None:
    """Sums and votes in a block whose last warp has 8 threads."""
    i = thread_index()
    value = x[i]
    total = warp_sum(value)
    positive = warp_ballot(value > 0)
    if i in sums:
        sums[i] = total + f32(positive % 256)


def test_lanes_that_do_not_exist_take_no_part() -> None:
    device = kdsl.device("cpu")
    x = np.arange(40, dtype=np.float32) - 3
    sums = device.empty(40, f32)
    partial_warps(sums, device.array(x))
    expected = []
    for first, end in ((0, 32), (32, 40)):
        part = x[first:end]
        ballot = sum(1 << n for n, value in enumerate(part) if value > 0)
        expected += [part.sum() + ballot % 256] * (end - first)
    np.testing.assert_array_equal(sums.numpy(), np.array(expected, np.float32))
