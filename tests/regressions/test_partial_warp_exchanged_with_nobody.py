"""Elsewhere exchanges named all 32 lanes in the last warp of a block of 45, where only 13 are: hangs, or what nobody had written; in blocks, too.

Lanes beyond the end take no part, in sums, scans, votes and matches, of warps and of blocks, at every size; so do lanes that have returned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, result_of

from kdsl import i32, u32

SIZES = [1, 2, 17, 31, 32, 33, 45, 48, 63, 65, 255]


def numbers(size: int) -> Any:
    return (np.arange(size, dtype=np.int32) * 7919) % 101 - 50


def by_warp(x: Any, of: Any) -> Any:
    """What a function of the present lanes of a warp gives, for each thread."""
    return np.concatenate([np.broadcast_to(of(x[start : start + 32]), len(x[start : start + 32])) for start in range(0, len(x), 32)])


@DEVICES
@pytest.mark.parametrize("size", SIZES)
def test_warps(device: Any, size: int) -> None:
    x = numbers(size)
    forms = [
        "warp_sum(v)",
        "warp_max(v)",
        "warp_min(v)",
        "i32(popcount(warp_ballot(v > 0)))",
        "i32(warp_all(v > -60))",
        "i32(warp_any(v == 50))",
        "warp_prefix_sum(v)",
    ]
    body = "t = thread_idx.x\nv = x[t]\n" + "\n".join(f"y[{n} * len(x) + t] = {form}" for n, form in enumerate(forms))
    y = result_of(device, kernel_of("y: SliceMut[i32], x: Slice[i32]", body, f"grid=1, block={size}"), len(forms) * size, i32, x).reshape(
        len(forms), -1
    )
    expected = [
        by_warp(x, np.sum), by_warp(x, np.max), by_warp(x, np.min), by_warp(x, lambda v: (v > 0).sum()), np.ones(size), by_warp(x, lambda v: (v == 50).any()),
        by_warp(x, np.cumsum),
    ]  # fmt: skip
    np.testing.assert_array_equal(y, np.stack(expected))


@DEVICES
@pytest.mark.parametrize("size", SIZES)
def test_blocks(device: Any, size: int) -> None:
    x = numbers(size)
    forms = ["block_sum(v)", "block_max(v)", "block_min(v)", "block_prefix_sum(v)"]
    body = "t = thread_idx.x\nv = x[t]\n" + "\n".join(f"r{n} = {form}\ny[{n} * len(x) + t] = r{n}" for n, form in enumerate(forms))
    y = result_of(device, kernel_of("y: SliceMut[i32], x: Slice[i32]", body, f"grid=1, block={size}"), len(forms) * size, i32, x).reshape(
        len(forms), -1
    )
    np.testing.assert_array_equal(y, np.stack([np.full(size, x.sum()), np.full(size, x.max()), np.full(size, x.min()), np.cumsum(x)]))


@DEVICES
@pytest.mark.parametrize("size", [17, 45, 48])
def test_shuffles_and_matches(device: Any, size: int) -> None:
    """A lane that asks one that is not there keeps its own value."""
    t = np.arange(size)
    last = np.minimum(t // 32 * 32 + 32, size) - 1
    x = numbers(size)
    body = "t = thread_idx.x\nv = x[t]\ny[t] = shuffle_down(v, 4)\ny[len(x) + t] = shuffle_up(v, 3)\n"
    body += "y[2 * len(x) + t] = i32(popcount(warp_match_any(u32(t % 3))))"
    y = result_of(device, kernel_of("y: SliceMut[i32], x: Slice[i32]", body, f"grid=1, block={size}"), 3 * size, i32, x).reshape(3, -1)
    np.testing.assert_array_equal(y[0], x[np.where(t + 4 <= last, t + 4, t)])
    np.testing.assert_array_equal(y[1], x[np.where(t % 32 >= 3, t - 3, t)])
    same = (t[:, None] // 32 == t // 32) & (t[:, None] % 3 == t % 3)
    np.testing.assert_array_equal(y[2], same.sum(1))


@DEVICES
def test_lanes_that_have_returned(device: Any) -> None:
    body = "t = thread_idx.x\nif t >= n:\n    return\ny[t] = warp_sum(u32(1))"
    for n in (1, 13, 32, 33, 47):
        y = result_of(device, kernel_of("y: SliceMut[u32], n: i32", body, "grid=1, block=48"), 48, u32, n)
        np.testing.assert_array_equal(y[:n], by_warp(np.ones(n, np.uint32), np.sum))
