"""Shared arrays of more than 48 KiB, and of a wider alignment, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusal import refused

import kdsl
from kdsl import (
    DisjointSlice,
    Slice,
    SliceMut,
    block_index,
    elements,
    f32,
    f64,
    i16,
    kernel,
    shared_array,
    sync_threads,
    thread_idx,
    thread_index,
)  # fmt: skip
from kdsl.testing import devices

PIECE = 12_289  # times 8 bytes: 96 KiB and a little more, which every GPU has


@kernel(grid="len(x) // 12289", block=256, requires=("len(x) == len(y)",))
def reverse(y: SliceMut[f64], x: Slice[f64]) -> None:
    """Reverse pieces of 12,289 elements through shared memory."""
    tile = shared_array(PIECE, f64, align=128)
    first = block_index() * PIECE
    for i in range(thread_idx.x, PIECE, 256):
        tile[i] = x[first + i]
    sync_threads()
    for i in range(thread_idx.x, PIECE, 256):
        y[first + i] = tile[PIECE - 1 - i]


@kernel(grid=elements("y"), block=96, requires=("len(x) == len(y)",))
def three_arrays(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    """Write to three arrays that together are dynamic, and find each as it was left."""
    odd = shared_array(33, i16)
    large = shared_array((5, 2600), f32, align=1024)
    small = shared_array(96, f32)
    i = thread_index()
    t = thread_idx.x
    for k in range(t, 13000, 96):
        large[k // 2600, k % 2600] = f32(k)
    small[t] = x[i]
    odd[t % 33] = i16(7)
    sync_threads()
    if i in y:
        y[i] = small[95 - t] + large[4, 2599 - t] + f32(odd[(t + 1) % 33])


@kernel(grid=1, block=32)
def beyond(y: SliceMut[f32]) -> None:
    """Read outside of an array in dynamic shared memory."""
    tile = shared_array(20_000, f32)
    tile[thread_idx.x + 19_968] = 1.0
    sync_threads()
    y[thread_idx.x] = tile[thread_idx.x + 19_985]


@pytest.mark.parametrize("device", devices(), ids=str)
@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_96_kib(device: Any, pieces: int) -> None:
    x = np.random.default_rng(pieces).standard_normal(pieces * PIECE)
    y = device.full(pieces * PIECE, np.nan, f64)
    reverse(y, device.array(x))
    np.testing.assert_array_equal(y.numpy(), x.reshape(-1, PIECE)[:, ::-1].reshape(-1))


@pytest.mark.parametrize("device", devices(), ids=str)
@pytest.mark.parametrize("n", [96, 192, 96 * 33])
def test_three_arrays(device: Any, n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    y = device.full(n, np.nan, f32)
    three_arrays(y, device.array(x))
    t = np.arange(n) % 96
    expected = x.reshape(-1, 96)[:, ::-1].reshape(-1) + (4 * 2600 + 2599 - t).astype(np.float32) + np.float32(7)
    np.testing.assert_array_equal(y.numpy(), expected.astype(np.float32))


@pytest.mark.parametrize("device", devices(), ids=str)
def test_a_graph_and_another_stream(device: Any) -> None:
    x = np.random.default_rng(1).standard_normal(2 * PIECE)
    given, y, z = device.array(x), device.full(2 * PIECE, np.nan, f64), device.full(2 * PIECE, np.nan, f64)
    with kdsl.Graph(device) as graph:
        reverse(y, given)
        reverse(z, y)
    graph.launch(device.stream())
    device.synchronize()
    np.testing.assert_array_equal(z.numpy(), x)
    z.fill(np.nan)
    reverse.on(device.stream())(z, y)
    np.testing.assert_array_equal(z.numpy(), x)


@pytest.mark.parametrize("device", devices(), ids=str)
def test_a_check_that_fails(device: Any) -> None:
    y = device.full(32, np.nan, f32)
    beyond(y)
    with pytest.raises(kdsl.BoundsError, match=r"array tile: index 200\d\d is out of bounds for 20000"):
        device.synchronize()
    np.testing.assert_array_equal(y.numpy()[:15], np.ones(15))
    np.testing.assert_array_equal(y.numpy()[15:], np.zeros(17))


def test_alignments_that_do_not_exist() -> None:
    def of(alignment: Any) -> Any:
        @kernel(grid=1)
        def wrong(y: SliceMut[f32]) -> None:
            tile = shared_array(4, f32, align=alignment)
            tile[0] = y[0]

        return wrong

    for alignment in (0, 8, 24, 2048, 16.0):
        refused(of(alignment), "alignment", str(alignment), at="alignment", hint="align=128")

    @kernel(grid=1)
    def run_time(y: SliceMut[f32], n: i16) -> None:
        tile = shared_array(4, f32, n)
        tile[0] = y[0]

    refused(run_time, "alignment", "i16", at="n", hint="align=128")
