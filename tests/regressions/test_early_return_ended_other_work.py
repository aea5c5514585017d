"""Elsewhere a `return` inside a loop that the compiler had added (over elements, over blocks) ended the work of all elements that came after it.

A thread that returns ends itself: neither the other lanes of its vector, nor the other blocks that run on the same CPU thread, nor its block's barriers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of

import kdsl

I32, I64 = kdsl.dtype("i32"), kdsl.dtype("i64")


@DEVICES
@pytest.mark.parametrize("block", [1, 31, 32, 48, 256])
@pytest.mark.parametrize("n", [1, 255, 1000])
def test_every_other_element_is_counted(device: Any, block: int, n: int) -> None:
    body = "i = thread_index()\nif i < 256:\n    return\nif i in y:\n    y[i] = 1\n    atomic_add(total, 0, 1)"
    kernel = kernel_of("total: SliceMut[i32], y: SliceMut[i32]", body, f"grid=elements('y'), block={block}")
    total, y = device.zeros(1, I32), device.zeros(n, I32)
    kernel(total, y)
    assert total.numpy()[0] == max(n - 256, 0)
    np.testing.assert_array_equal(y.numpy(), (np.arange(n) >= 256).astype(np.int32))


@DEVICES
@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_a_loop_over_elements_that_the_author_writes(device: Any, blocks: int) -> None:
    """The sweep: `continue` skips one element, `return` ends a thread."""
    body = (
        "step = i64(grid_dim.x * block_dim.x)\nfor i in range(thread_index(), len(y), step):\n    "
        "if x[i] < 0:\n        {jump}\n    y[i] = x[i]\n    atomic_add(total, 0, 1)"
    )
    rng = np.random.default_rng(blocks)
    x = rng.integers(-1, 20, 5000).astype(np.int32)
    for jump in ("continue", "return"):
        kernel = kernel_of(
            "total: SliceMut[i32], y: SliceMut[i32], x: Slice[i32]",
            body.format(jump=jump),
            f"grid=sweep(blocks={blocks}), block=96, requires=('len(x) == len(y)',)",
        )
        total, y = device.zeros(1, I32), device.full(5000, -9, I32)
        kernel(total, y, device.array(x))
        expected = np.full(5000, -9)
        for thread in range(96 * blocks):
            for i in range(thread, 5000, 96 * blocks):
                if x[i] < 0:
                    if jump == "return":
                        break
                    continue
                expected[i] = x[i]
        np.testing.assert_array_equal(y.numpy(), expected)
        assert total.numpy()[0] == (expected >= 0).sum()


@DEVICES
@pytest.mark.parametrize("where", ["for k in range(4)", "while k < 4", "for k in unroll(4)"])
def test_returns_from_inside_loops(device: Any, where: str) -> None:
    """Each thread leaves in another trip; what the others write in later trips is there."""
    more = "        k += 1\n" if where.startswith("while") else ""
    body = f"i = thread_index()\nif i in x:\n    k = 0\n    {where}:\n        if x[i] == k:\n            return\n        y[i * 4 + k] = k + 1\n{more}"
    kernel = kernel_of("y: SliceMut[i64], x: Slice[i64]", body + "    y[4 * len(x) + i] = 7", "grid=elements('x'), block=64")
    x = np.arange(200, dtype=np.int64) % 6
    y = device.zeros(1000, I64)
    kernel(y, device.array(x))
    found = y.numpy()
    np.testing.assert_array_equal(found[:800].reshape(200, 4), np.where(np.arange(4) < x[:, None], np.arange(1, 5), 0))
    np.testing.assert_array_equal(found[800:], np.where(x >= 4, 7, 0))


@DEVICES
def test_a_return_of_a_function_ends_the_function_only(device: Any) -> None:
    kernel = kernel_of(
        "y: SliceMut[i64]",
        "i = thread_index()\nr = 0\nfor k in range(3):\n    r = r * 10 + part(i, k)\n    touch(y, i, k)\ny[i] = r",
        "grid=1, block=48",
        part=_part, touch=_touch,
    )  # fmt: skip
    y = device.zeros(4 * 48, I64)
    kernel(y)

    def part(i: int, k: int) -> int:
        return 1 if i % 3 == k else 2 if i < 10 else 3

    found = y.numpy().reshape(4, 48)
    assert found[0].tolist() == [part(i, 0) * 100 + part(i, 1) * 10 + part(i, 2) for i in range(48)]
    for k in range(3):
        assert found[k + 1].tolist() == [0 if i % 2 == k % 2 else 5 for i in range(48)]


@kdsl.function
def _part(i, k):  # type: ignore[no-untyped-def]
    """One of three numbers."""
    if i % 3 == k:
        return 1
    if i < 10:
        return 2
    return 3


@kdsl.function
def _touch(y, i, k):  # type: ignore[no-untyped-def]
    """Writes, or leaves early."""
    if i % 2 == k % 2:
        return
    y[48 * (k + 1) + i] = 5


@DEVICES
def test_the_others_still_meet_at_the_barrier(device: Any) -> None:
    """Threads that have returned do not count; those that are left see each other's writes."""
    kernel = kernel_of(
        "y: SliceMut[i32], n: i32",
        (
            "s = shared_array(96, i32)\nt = thread_idx.x\ns[t] = -1\nsync_threads()\nif t % 4 == n:\n    "
            "return\ns[t] = i32(t)\nsync_threads()\ny[block_idx.x * 96 + t] = s[95 - t]"
        ),
        "grid=5, block=96",
    )
    for n in range(5):
        y = device.full(480, -5, I32)
        kernel(y, n)
        t = np.arange(96)
        left = np.where((95 - t) % 4 == n, -1, 95 - t)
        np.testing.assert_array_equal(y.numpy().reshape(5, 96), np.tile(np.where(t % 4 == n, -5, left), (5, 1)))
