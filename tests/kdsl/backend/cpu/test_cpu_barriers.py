"""Barriers in control that the block shares: loops whose bounds and conditions come from variables, memory and exchanges; early returns."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_builder import Builder
from cpu_reference import Interpreter
from cpu_run import Runner

from kdsl.ir import nodes
from kdsl.lang.types import F32, I64

BLOCKS = [(1, 1, 1), (32, 1, 1), (33, 1, 1), (40, 1, 1), (16, 16, 1), (5, 7, 1)]


def check(kernel: nodes.Kernel, size: int, grid: int = 2, **arguments: object) -> None:
    expected, found = np.zeros(size, np.int64), np.zeros(size, np.int64)
    Interpreter(kernel)(grid, y=expected, **arguments)
    Runner(kernel)(grid, y=found, **arguments)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("block", BLOCKS)
def test_loop_on_a_variable(block: tuple[int, int, int]) -> None:
    """The variable is read in a region both before and after block level changes it."""
    k = Builder("variable", block)
    y, n = k.view("y", I64), k.variable("n", 5, I64)
    t = k.special("thread_rank")
    with k.while_(lambda: k.get(n) > 0):
        before = k.get(n)
        k.store(y, t * 6 + before, before * 10 + t)
        with k.if_(t > 2):
            k.store(y, t * 6 + k.get(n) - 1, k.get(n))
        k.set(n, k.get(n) - 2)
        k.barrier()
        k.store(y, t * 6 + 5, k.get(n) + before)
    check(k.kernel, 6 * k.kernel.threads, grid=1)


@pytest.mark.parametrize("block", BLOCKS)
def test_loop_on_shared_memory(block: tuple[int, int, int]) -> None:
    """The bound is written by one thread and read by all."""
    k = Builder("shared", block)
    y = k.view("y", I64)
    limits = k.array("limits", (2,), I64)
    t = k.special("thread_rank")
    total = k.variable("total", 0, I64)
    with k.if_(t.equal(0)):
        k.store(limits, 0, k.special("block_idx.x") + 2)
    k.barrier()
    with k.for_(0, k.load(limits, 0)) as (i, loop):
        k.set(total, k.get(total) + t * i)
        k.barrier()
        with k.if_(t.equal(0)):
            k.store(limits, 1, i)
        k.barrier()
        with k.if_(k.load(limits, 1).equal(2)):
            k.break_()
        with k.if_(k.load(limits, 1).equal(0)):
            k.continue_()
        k.set(total, k.get(total) + 100)
    with k.else_(loop):
        k.barrier()
        k.set(total, k.get(total) + 1000)
    k.store(y, k.special("block_idx.x") * k.kernel.threads + t, k.get(total))
    check(k.kernel, 4 * k.kernel.threads, grid=4)


def test_loop_on_an_exchange() -> None:
    """In a block of one warp, what the warp agrees on is the same for the block."""
    k = Builder("exchange", (32, 1, 1))
    y = k.view("y", I64)
    shared = k.array("shared", (32,), I64)
    t = k.special("thread_rank")
    value = k.variable("value", t % 5, I64)
    largest = k.variable("largest", k.exchange("warp_max", k.get(value)), I64)
    with k.while_(lambda: k.get(largest) > 0):
        k.store(shared, t, k.get(value))
        k.barrier()
        k.set(value, k.load(shared, ((t + 1) % 32).within(0, 31)) - 1)
        k.barrier()
        k.set(largest, k.exchange("warp_max", k.get(value)))
    k.store(y, t, k.get(value))
    check(k.kernel, 32, grid=1)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("limit", [0, 1, 17, 1000])
def test_threads_return_before_a_barrier(block: tuple[int, int, int], limit: int) -> None:
    k = Builder("returning", block)
    y, n = k.view("y", I64), k.scalar("n", I64)
    shared = k.array("shared", (k.kernel.threads,), I64)
    t = k.special("thread_rank")
    first = k.special("block_idx.x") * k.kernel.threads
    k.store(shared, t, t)
    with k.if_(t >= n):
        k.return_()
    kept = t * 3
    k.barrier()
    with k.for_(0, 3, range=(0, 2)) as (i, _):
        other = ((t + i) % k.kernel.threads).within(0, k.kernel.threads - 1)
        k.store(y, first + t, k.load(y, first + t) + k.load(shared, other) + kept)
        k.barrier()
        with k.if_((t + i).equal(4)):
            k.return_()
    k.store(y, first + t, k.load(y, first + t) + 1)
    check(k.kernel, 2 * k.kernel.threads, n=limit)


def test_whole_block_returns_before_reading() -> None:
    """A block without threads left reads nothing, not even for the control around a barrier."""
    k = Builder("gone", (64, 1, 1))
    y, x = k.view("y", I64), k.view("x", I64, kind="Slice")
    block = k.special("block_idx.x")
    with k.if_(block >= k.length(x)):
        k.return_()
    with k.for_(0, k.load(x, block, checked=True)) as (i, _):
        k.barrier()
        k.store(y, block * 64 + k.special("thread_rank"), i)
    run = Runner(k.kernel)
    found = np.full(64 * 3, -1, np.int64)
    run(3, y=found, x=np.array([2], np.int64))
    assert run.failure() is None
    np.testing.assert_array_equal(found, np.repeat([1, -1, -1], 64))


@pytest.mark.parametrize("block", [(16, 16, 1), (64, 1, 1), (96, 1, 1), (40, 1, 1)])
def test_values_live_across_regions(block: tuple[int, int, int]) -> None:
    """Values that are stored (loaded or expensive) and values that are computed again."""
    k = Builder("values", block)
    y, x = k.view("y", F32), k.view("x", F32, kind="Slice")
    shared = k.array("shared", (k.kernel.threads,))
    t = k.special("thread_rank")
    loaded, row = k.load(x, t), k.load(x, k.special("warp_index"))
    index = (t * 7) % k.kernel.threads  # a permutation, since no block here has a multiple of 7 threads
    total = k.variable("total", loaded * 2.0)
    k.store(shared, index.within(0, k.kernel.threads - 1), loaded)
    k.barrier()
    with k.if_(t < 9):
        k.set(total, k.get(total) + row)
    k.barrier()
    k.store(y, t, k.get(total) + loaded + row + k.load(shared, t))
    data = np.arange(k.kernel.threads, dtype=np.float32)
    expected, found = np.zeros_like(data), np.zeros_like(data)
    Interpreter(k.kernel)(1, y=expected, x=data)
    Runner(k.kernel)(1, y=found, x=data)
    np.testing.assert_array_equal(found, expected)
