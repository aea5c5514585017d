"""The barrier of the grid on GPUs; dependent launches there (compute capability 9.0) and on the CPU, where they are plain ones."""

from __future__ import annotations

from typing import Any

import grid_kernels as kernels
import numpy as np
import pytest

import kdsl
from kdsl import LaunchError, f32, i64
from kdsl.testing import devices

GPUS = [d for d in devices() if d.name != "cpu"]
on_gpus = pytest.mark.parametrize("device", GPUS, ids=str)
on_dependent = pytest.mark.parametrize(
    "device", [d for d in devices() if d.name == "cpu" or d.capability >= (9, 0)], ids=str  # type: ignore[attr-defined]  # GPUs have one
)  # fmt: skip


def blocks_of(device: Any) -> list[int]:
    """One block, one per multiprocessor, and some more."""
    return [1, device.multiprocessors, 3 * device.multiprocessors + 1]


@on_gpus
@pytest.mark.parametrize("rounds", [0, 1, 200])
def test_everybody_waits_for_everybody(device: Any, rounds: int) -> None:
    for blocks in blocks_of(device):
        x = np.random.default_rng(blocks).integers(-(2**62), 2**62, 96 * blocks)
        a, b = device.array(x), device.full(x.size, -1, i64)
        kernels.turn(a, b, rounds)
        np.testing.assert_array_equal(a.numpy(), np.roll(x, -2 * rounds))


@pytest.mark.parametrize("device", [d for d in GPUS if d.capability >= (9, 0)], ids=str)  # type: ignore[attr-defined]  # GPUs have one
def test_clusters_wait_for_each_other(device: Any) -> None:
    x = np.arange(96 * 2 * (device.multiprocessors // 4))
    for n in (96, 20_000):
        a, b = device.array(x), device.full(x.size, -1, i64)
        kernels.turn_in_clusters(a, b, n)
        np.testing.assert_array_equal(a.numpy(), np.roll(x, -2))
    n = 96 * 2 * 33 * device.multiprocessors
    with pytest.raises(LaunchError, match="all have to run at the same time"):
        kernels.turn_in_clusters(device.zeros(n, i64), device.zeros(n, i64), 96)


@on_gpus
def test_again_and_again_on_two_streams(device: Any) -> None:
    """An odd number of barriers leaves the word of the stream flipped; the next launch goes on from there."""
    streams = [device.stream(), device.stream()]
    x = np.arange(96 * device.multiprocessors)
    pairs = [(device.array(x), device.full(x.size, -1, i64)) for _ in streams]
    for _ in range(20):
        for stream, (a, b) in zip(streams, pairs, strict=True):
            kernels.turn.on(stream)(a, b, 3)
    for a, _ in pairs:
        np.testing.assert_array_equal(a.numpy(), np.roll(x, -120))


@on_gpus
@pytest.mark.parametrize("n", [1, 127, 10_000])
def test_an_odd_number_of_barriers(device: Any, n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    for _ in range(3):
        y, sums = device.array(x), device.full(device.multiprocessors, np.nan, f32)
        kernels.normalise(y, sums)
        np.testing.assert_array_equal(y.numpy(), x / np.abs(x).max())


@on_gpus
def test_a_graph_of_cooperative_launches(device: Any) -> None:
    stream = device.stream()
    x = np.arange(96 * device.multiprocessors)
    first, second = ((device.array(x), device.full(x.size, -1, i64)) for _ in range(2))
    device.synchronize()
    with kdsl.Graph(device) as graph:
        node = kernels.turn(*first, 5)
        kernels.turn.on(stream)(*second, 7)  # beside the first
    for _ in range(3):
        graph.launch()
    np.testing.assert_array_equal(first[0].numpy(), np.roll(x, -30))
    np.testing.assert_array_equal(second[0].numpy(), np.roll(x, -42))
    graph.update(node, rounds=1)
    graph.launch(stream)
    np.testing.assert_array_equal(first[0].numpy(), np.roll(x, -32))


@on_gpus
def test_more_blocks_than_fit_are_refused(device: Any) -> None:
    n = 96 * 33 * device.multiprocessors
    with pytest.raises(LaunchError, match="all have to run at the same time"):
        kernels.turn(device.zeros(n, i64), device.zeros(n, i64), 1)
    device.synchronize()


@on_dependent
@pytest.mark.parametrize("n", [1, 1000, 300_000])
def test_dependent_launches_see_what_comes_before(device: Any, n: int) -> None:
    random = np.random.default_rng(n)
    x, y = (random.integers(-8, 8, n).astype(np.float32) for _ in range(2))
    a, b = device.array(x), device.array(y)
    for k in range(20):
        (kernels.add_plainly if k % 7 == 3 else kernels.add)(*((a, b) if k % 2 else (b, a)), 1.0 if k < 10 else -1.0)
    for k in range(20):
        if k % 2:
            x = x + (1 if k < 10 else -1) * y[::-1]
        else:
            y = y + (1 if k < 10 else -1) * x[::-1]
    np.testing.assert_array_equal(a.numpy(), x)
    np.testing.assert_array_equal(b.numpy(), y)


@on_dependent
def test_dependent_launches_in_a_graph(device: Any) -> None:
    n = 100_000
    a, b = device.full(n, 1.0, f32), device.full(n, 0.0, f32)
    with kdsl.Graph(device) as graph:
        b.fill(0.0)
        kernels.add(b, a, 1.0)
        kernels.add(a, b, 1.0)
        node = kernels.add(b, a, 1.0)
        kernels.add_plainly(a, b, 1.0)
    graph.launch()
    np.testing.assert_array_equal(a.numpy(), np.full(n, 5.0))
    np.testing.assert_array_equal(b.numpy(), np.full(n, 3.0))
    graph.update(node, a=0.0)
    graph.launch()
    np.testing.assert_array_equal(a.numpy(), np.full(n, 15.0))
