"""`sync_warp()`: lanes of a warp that talk through memory, on every target; its PTX; where it may stand; what the sanitizer takes it for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusal import refused

import kdsl
from kdsl import (
    Slice,
    SliceMut,
    atomic_add,
    block_dim,
    block_idx,
    f32,
    f64,
    function,
    i32,
    kernel,
    lane_index,
    shared_array,
    sync_warp,
    thread_idx,
    thread_index,
    warp_index,
)
from kdsl.testing import devices, sanitized
from kdsl.testing.ptx import assemble

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
BLOCK = 80
"""Threads: two warps, and half a one."""


@kernel(grid=3, block=BLOCK)
def turned(y: SliceMut[f32], x: Slice[f32], n: i32) -> None:
    """Each warp turns its numbers by n places, one by one."""
    s = shared_array(BLOCK, f32)
    t, first = thread_idx.x, 32 * warp_index()
    v = x[BLOCK * block_idx.x + t]
    for _ in range(n):
        s[t] = v
        sync_warp()
        v = s[first + (lane_index() + 1) % min(32, BLOCK - first)]
        sync_warp()
    y[BLOCK * block_idx.x + t] = v


@DEVICES
@pytest.mark.parametrize("n", [0, 1, 5, 33])
def test_a_ring(device: Any, n: int) -> None:
    x = np.arange(3 * BLOCK, dtype=np.float32)
    y = device.zeros(len(x), f32)
    turned(y, device.array(x), n)
    warps = [np.roll(x[b + a : b + min(a + 32, BLOCK)], -n) for b in range(0, len(x), BLOCK) for a in range(0, BLOCK, 32)]
    np.testing.assert_array_equal(y.numpy(), np.concatenate(warps))


@function
def meet() -> None:
    sync_warp()


@kernel(grid=1, block=128)
def summed(y: SliceMut[f64], x: Slice[f64]) -> None:
    """Sums by halves in memory, by the first three warps only; the last has returned."""
    if warp_index() == 3:
        return
    s = shared_array((4, 32), f64)
    w, lane = warp_index(), lane_index()
    s[w, lane] = x[thread_index()]
    meet()
    distance = 16
    while distance > 0:
        if lane < distance:
            s[w, lane] += s[w, lane + distance]
        meet()
        distance //= 2
    if lane == 0:
        y[w] = s[w, 0]


@DEVICES
def test_sums_by_halves(device: Any) -> None:
    x = np.random.default_rng(1).integers(-1000, 1000, 128).astype(np.float64)
    y = device.array(np.full(4, -1.0))
    summed(y, device.array(x))
    np.testing.assert_array_equal(y.numpy(), [*x[:96].reshape(3, 32).sum(1), -1])


@kernel(grid=1, block=64)
def in_device_memory(y: SliceMut[i32], n: i32) -> None:
    """Through device memory, under a condition that the warp shares; lanes from n on have returned."""
    if lane_index() >= n:
        return
    if warp_index() == 1:
        y[lane_index()] = i32(lane_index()) * 3
        sync_warp()
        y[32 + lane_index()] = y[n - 1 - lane_index()]


@DEVICES
@pytest.mark.parametrize("n", [1, 7, 32])
def test_under_a_condition_of_the_warp(device: Any, n: int) -> None:
    y = device.array(np.full(64, -1, np.int32))
    in_device_memory(y, n)
    expected = np.full(64, -1)
    expected[:n] = 3 * np.arange(n)
    expected[32 : 32 + n] = expected[:n][::-1]
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_it_is_one_instruction_that_orders_memory(target: str) -> None:
    for of, count in ((turned, 2), (summed, 6), (in_device_memory, 1)):
        ptx = of.ptx(target)
        assert ptx.count("bar.warp.sync \t0xffffffff;") + ptx.count("bar.warp.sync 0xffffffff;") == count
        assemble(ptx, target)
    body = turned.ptx(target).split(".entry")[1]
    lines = [word for line in body.splitlines() for word in ("st.shared", "ld.shared", "bar.warp") if word in line]
    assert lines == ["st.shared", "bar.warp", "ld.shared", "bar.warp"]


def test_lanes_reach_it_together() -> None:
    @kernel(grid=1, block=64)
    def apart(y: SliceMut[f32]) -> None:
        if lane_index() < 16:
            sync_warp()
        y[0] = 1.0

    text = refused(
        apart,
        "not all lanes of the warp reach sync_warp() together",
        at="sync_warp()",
        hint="the same for the whole warp",
        also="lane_index() < 16",
    )
    assert "mask=" not in text


# ----------------------------------------------------------------------------------------------------------------------- the sanitizer


@kernel(grid=2, block=64)
def unordered(y: SliceMut[i32]) -> None:
    """A lane reads what its neighbour writes."""
    s = shared_array(64, i32)
    t = thread_idx.x
    s[t] = i32(t)
    y[block_dim.x * block_idx.x + t] = s[t ^ 1]


@kernel(grid=2, block=64)
def ordered(y: SliceMut[i32]) -> None:
    s = shared_array(64, i32)
    t = thread_idx.x
    s[t] = i32(t)
    sync_warp()
    v = s[t ^ 1]
    sync_warp()
    s[t] = v + 1
    sync_warp()
    y[block_dim.x * block_idx.x + t] = s[t ^ 1]


@kernel(grid=2, block=64)
def of_two_warps(y: SliceMut[i32]) -> None:
    """Lanes of another warp are not waited for."""
    s = shared_array(64, i32)
    t = thread_idx.x
    s[t] = i32(t)
    sync_warp()
    y[block_dim.x * block_idx.x + t] = s[t ^ 32]


@kernel(grid=2, block=64)
def before_it(y: SliceMut[i32]) -> None:
    """Ordered once, and not the second time."""
    s = shared_array(64, i32)
    t = thread_idx.x
    s[t] = i32(t)
    sync_warp()
    v = s[t ^ 1]
    s[t] = v
    y[block_dim.x * block_idx.x + t] = v


@kernel(grid=2, block=32)
def counted(y: SliceMut[i32]) -> None:
    """Atomic operations of several lanes, then a plain read by one of them, then by all."""
    s = shared_array(1, i32)
    if lane_index() == 0:
        s[0] = 0
    sync_warp()
    atomic_add(s, 0, 1)
    sync_warp()
    y[32 * block_idx.x + lane_index()] = s[0]


@pytest.mark.parametrize(
    ("of", "kinds"), [(unordered, ["race"]), (ordered, []), (of_two_warps, ["race"]), (before_it, ["race"]), (counted, [])], ids=str
)
def test_what_the_sanitizer_finds(of: Any, kinds: list[str]) -> None:
    with sanitized() as found:
        y = kdsl.device("cpu").zeros(128, i32)
        of(y)
        y.numpy()
    assert sorted({finding.kind for finding in found}) == kinds
