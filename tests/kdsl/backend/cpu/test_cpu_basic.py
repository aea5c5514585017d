"""Elementwise kernels, checks and the record of failures on the CPU target."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_builder import Builder
from cpu_run import Runner

from kdsl.lang.types import F32


def saxpy(threads: int, checked: bool = False):  # type: ignore[no-untyped-def]
    k = Builder("saxpy", (threads, 1, 1))
    y, x = k.view("y", witness="thread_index"), k.view("x", kind="Slice", witness="thread_index")
    a = k.scalar("a", F32)
    i = k.thread_index()
    if checked:
        k.store(y, i, k.fma(a, k.load(x, i, checked=True), k.load(y, i, checked=True)), checked=True)
    else:
        with k.if_(i < k.length(y)):
            k.store(y, i, k.fma(a, k.load(x, i), k.load(y, i)))
    return k.kernel


@pytest.mark.parametrize("threads", [1, 2, 17, 32, 33, 48, 256])
@pytest.mark.parametrize("n", [1, 16, 1000])
def test_saxpy(threads: int, n: int) -> None:
    run = Runner(saxpy(threads))
    x, y = np.arange(n, dtype=np.float32), np.full(n + 1, 3, np.float32)
    run(-(-n // threads), y=y[:n], x=x, a=2.0)
    np.testing.assert_array_equal(y[:n], 2 * x + 3)
    assert y[n] == 3
    assert run.failure() is None


def test_checked() -> None:
    run = Runner(saxpy(256, checked=True))
    x, y = np.arange(1000, dtype=np.float32), np.full(1000, 3, np.float32)
    run(4, y=y, x=x, a=2.0)
    np.testing.assert_array_equal(y, 2 * x + 3)
    found = run.failure()
    assert found is not None
    assert (found["kernel"], found["extent"], found["block_x"]) == (7, 1000, 3)
    assert found["index"] == 768 + found["thread_x"] >= 1000
