"""Clusters on a GPU of compute capability 9.0 or more; what needs none of their instructions, on the CPU too."""

from __future__ import annotations

from typing import Any

import cluster_kernels as kernels
import numpy as np
import pytest

import kdsl
from kdsl import BoundsError, LaunchError, f32, i32, i64
from kdsl.testing import devices

WITH_CLUSTERS = [d for d in devices() if d.name != "cpu" and d.capability >= (9, 0)]  # type: ignore[attr-defined]  # GPUs have one
on_clusters = pytest.mark.parametrize("device", WITH_CLUSTERS, ids=str)
on_large_clusters = pytest.mark.parametrize("device", [d for d in WITH_CLUSTERS if d.capability == (9, 0)], ids=str)  # type: ignore[attr-defined]
"""An H100 or H200 takes clusters of 16 blocks."""
on_all = pytest.mark.parametrize("device", [kdsl.device("cpu"), *WITH_CLUSTERS], ids=str)


@on_clusters
@pytest.mark.parametrize("clusters", [1, 2, 77])
def test_reading(device: Any, clusters: int) -> None:
    x = np.random.default_rng(clusters).standard_normal(clusters * 256).astype(np.float32)
    y = device.full(x.size, np.nan, f32)
    kernels.rotate(y, device.array(x))
    np.testing.assert_array_equal(y.numpy(), np.roll(x.reshape(clusters, 4, 64), -1, axis=1).reshape(-1))


@on_clusters
@pytest.mark.parametrize("clusters", [1, 3, 50])
def test_writing(device: Any, clusters: int) -> None:
    x = np.random.default_rng(clusters).standard_normal(clusters * 128).astype(np.float32)
    y = device.full(x.size, np.nan, f32)
    kernels.push(y, device.array(x))
    np.testing.assert_array_equal(y.numpy(), x.reshape(clusters, 2, 64)[:, ::-1].reshape(-1))


@on_clusters
@pytest.mark.parametrize("n", [0, 1, 33, 15_000])
def test_arrays_that_the_launch_sizes(device: Any, n: int) -> None:
    y = device.full(2, np.nan, f32)
    kernels.sized(y, n)
    np.testing.assert_array_equal(y.numpy(), [11 * n, 10 * n])


@on_clusters
@pytest.mark.parametrize("n", [0, 1, 10_000])
def test_atomic_operations(device: Any, n: int) -> None:
    x = np.random.default_rng(n).integers(0, 64, n).astype(np.int32)
    counts = device.full(64, -1, i32)
    kernels.histogram(counts, device.array(x))
    np.testing.assert_array_equal(counts.numpy(), np.bincount(x, minlength=64))


@on_clusters
def test_places(device: Any) -> None:
    x = device.full(10 * 3 * 2, -1, i64)
    x_blocks = 60 // 12
    assert x_blocks == 5
    with pytest.raises(LaunchError, match="a grid of 5 x 3 x 2 blocks does not consist of whole clusters of 2 x 3 x 1"):
        kernels.places(x)
    x = device.full(72, -1, i64)
    kernels.places(x)
    z, y, along = np.meshgrid(np.arange(2), np.arange(3), np.arange(6), indexing="ij")
    rank = along % 2 + 2 * (y % 3)
    np.testing.assert_array_equal(x.numpy()[:36].reshape(2, 3, 6), 1000 * rank + 100 * along + 10 * y + z)


@on_clusters
def test_a_failure_names_the_block_as_the_kernel_sees_it(device: Any) -> None:
    kernels.far(device.zeros(24, f32))
    with pytest.raises(BoundsError) as caught:
        device.synchronize()
    assert caught.value.block == (4, 1, 0)


@on_clusters
@pytest.mark.parametrize(
    ("rank", "index", "message"),
    [
        (2, 0, "array tile: rank 2 of its block is out of bounds for a cluster of 2 blocks"),
        (-1, 0, "rank -1 of its block"),
        (0, 32, "index 32 of dimension 1 is out of bounds for 32 elements"),
    ],
)
def test_what_is_outside_is_left_out(device: Any, rank: int, index: int, message: str) -> None:
    y = device.full(64, np.nan, f32)
    kernels.outside(y, rank, index)
    with pytest.raises(BoundsError, match=message):
        device.synchronize()
    np.testing.assert_array_equal(y.numpy(), np.zeros(64))
    kernels.outside(y, 1, 3)
    device.synchronize()
    np.testing.assert_array_equal(y.numpy(), np.ones(64))


@on_clusters
@pytest.mark.parametrize("n", [64, 33, 1])
def test_the_last_cluster_is_completed(device: Any, n: int) -> None:
    x = np.arange(n, dtype=np.float32)
    y = device.array(x)
    kernels.through_a_function(y)
    padded = np.zeros(64, np.float32)
    padded[:n] = x
    np.testing.assert_array_equal(y.numpy(), padded.reshape(2, 32)[::-1].reshape(-1)[:n])


@on_large_clusters
@pytest.mark.parametrize("clusters", [1, 2, 40])
def test_sixteen_blocks(device: Any, clusters: int) -> None:
    x = np.random.default_rng(clusters).standard_normal(clusters * 1024).astype(np.float32)
    y = device.full(x.size, np.nan, f32)
    for _ in range(3):  # by the long way and the short one
        kernels.of_sixteen(y, device.array(x))
    np.testing.assert_array_equal(y.numpy(), np.roll(x.reshape(clusters, 16, 64), 8, axis=1).reshape(-1))
    with pytest.raises(LaunchError, match="does not consist of whole clusters of 16 x 1 x 1"):
        kernels.of_sixteen(y, device.array(x[:-64]))


@on_large_clusters
@pytest.mark.parametrize("clusters", [1, 2, 40])
def test_nine_blocks_along_two_dimensions(device: Any, clusters: int) -> None:
    totals = device.full(clusters, -1, i64)
    kernels.of_nine(totals)
    np.testing.assert_array_equal(totals.numpy(), np.full(clusters, 36))


@on_large_clusters
def test_sixteen_blocks_in_a_graph(device: Any) -> None:
    x = np.random.default_rng(5).standard_normal(2048).astype(np.float32)
    given, y = device.array(x), device.full(x.size, np.nan, f32)
    with kdsl.Graph(device) as graph:
        kernels.of_sixteen(y, given)
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), np.roll(x.reshape(2, 16, 64), 8, axis=1).reshape(-1))


@on_clusters
def test_a_graph(device: Any) -> None:
    x = np.random.default_rng(0).standard_normal(512).astype(np.float32)
    given, y = device.array(x), device.full(512, np.nan, f32)
    with kdsl.Graph(device) as graph:
        node = kernels.rotate(y, given)
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), np.roll(x.reshape(2, 4, 64), -1, axis=1).reshape(-1))
    graph.update(node, x=given[:256], y=y[:256])
    y.fill(np.nan)
    graph.launch()
    np.testing.assert_array_equal(y.numpy()[:256], np.roll(x[:256].reshape(1, 4, 64), -1, axis=1).reshape(-1))
    assert np.isnan(y.numpy()[256:]).all()


@on_all
@pytest.mark.parametrize(("n", "blocks"), [(0, None), (1, 3), (6, 3), (7, 6), (24, 12)])
def test_rows_are_rounded_up(device: Any, n: int, blocks: int | None) -> None:
    y = device.full(1, np.nan, f32)
    kernels.of_rows(y, n)
    assert np.isnan(y.numpy()[0]) if blocks is None else y.numpy()[0] == blocks


@on_all
def test_tiles_are_rounded_up(device: Any) -> None:
    y = device.zeros(3, i64)
    kernels.of_tiles(y, 9, 33)
    np.testing.assert_array_equal(y.numpy(), [4, 6, 2])


def test_a_grid_of_parts_of_clusters_is_refused() -> None:
    y = kdsl.device("cpu").zeros(64 * 3, f32)
    with pytest.raises(LaunchError, match="rotate: a grid of 3 x 1 x 1 blocks does not consist of whole clusters of 4 x 1 x 1"):
        kernels.rotate(y, kdsl.device("cpu").zeros(64 * 3, f32))
