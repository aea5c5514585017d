"""Launches with attributes against a stand-in for the driver: cooperative ones, programmatic ones, clusters; in streams and in graphs."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest

import kdsl
from kdsl import (
    DisjointSlice,
    LaunchError,
    Slice,
    cluster_rank,
    device,
    elements,
    f32,
    kernel,
    shared_array,
    sync_cluster,
    sync_grid,
    thread_index,
    wait_for_dependencies,
)
from kdsl.ir.abi import layout
from kdsl.runtime.gpu import CudaDevice


@kernel(grid=elements("y"), block=128, cooperative=True)
def together(y: DisjointSlice[f32]) -> None:
    """Wait for all."""
    i = thread_index()
    if i in y:
        y[i] = 1.0
    sync_grid()


@kernel(grid=elements("y"), block=128, cooperative=True, cluster=2)
def together_in_clusters(y: DisjointSlice[f32]) -> None:
    """Wait for all, in clusters and with much shared memory."""
    tile = shared_array(20_000, f32)
    tile[0] = f32(cluster_rank())
    sync_cluster()
    sync_grid()
    i = thread_index()
    if i in y:
        y[i] = tile[0]


@kernel(grid=elements("y"), block=128, programmatic=True)
def early(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    """Begin early."""
    wait_for_dependencies()
    i = thread_index()
    if i in y:
        y[i] = x[i]


@kernel(grid=elements("y"), block=128, cluster=2)
def clusters(y: DisjointSlice[f32]) -> None:
    """In clusters."""
    i = thread_index()
    if i in y:
        y[i] = 1.0


@kernel(grid=elements("y"), block=128, cluster=12)
def large_clusters(y: DisjointSlice[f32]) -> None:
    """In clusters that not every GPU takes, with much shared memory."""
    tile = shared_array(20_000, f32)
    tile[0] = f32(cluster_rank())
    sync_cluster()
    i = thread_index()
    if i in y:
        y[i] = tile[0]


@pytest.fixture
def gpu(fake_driver: Any) -> CudaDevice:
    found = device()
    assert isinstance(found, CudaDevice)
    for name in ("together", "together_in_clusters", "early", "clusters", "large_clusters"):
        fake_driver.kernels[name] = lambda *arguments: None
    return found


def barriers(fake_driver: Any, of: Any) -> list[int]:
    """The addresses of barriers that launches of the kernel get from now on."""
    found: list[int] = []
    slots = layout(of.ir()).slots
    position = next(n for n, slot in enumerate(slots) if slot.name == "barrier")

    def run(blocks: int, block: tuple[int, ...], parameters: int) -> None:
        pointers = (ctypes.c_void_p * len(slots)).from_address(parameters)
        found.append(ctypes.c_uint64.from_address(pointers[position] or 0).value)

    fake_driver.kernels[of.name] = run
    return found


def test_a_plain_kernel_and_one_with_clusters_take_the_short_way(gpu: CudaDevice, fake_driver: Any) -> None:
    clusters(gpu.zeros(300, f32))
    assert not fake_driver.called("cuLaunchKernelEx")
    assert fake_driver.called("cuLaunchKernel")[0][1] == 4  # 3 blocks, and one that completes the cluster


def test_a_programmatic_launch(gpu: CudaDevice, fake_driver: Any) -> None:
    y, x, stream = gpu.zeros(300, f32), gpu.zeros(300, f32), gpu.stream()
    early(y, x)
    early.on(stream)(y[:128], x[:128])
    early(y, x)
    early(y, x)
    launches = fake_driver.called("cuLaunchKernelEx")
    assert fake_driver.attributes == [{"PROGRAMMATIC_STREAM_SERIALIZATION": 1}] * 4
    assert launches[0][0].address == launches[1][0].address  # the configuration is used again
    assert launches[2][0].address == launches[3][0].address
    assert int(launches[2][0].hStream) == int(gpu.default_stream.handle)
    fake_driver.fail["cuLaunchKernelEx"] = 1
    with pytest.raises(
        kdsl.DeviceError, match=r"launch of early on cuda:0 .*\(3 blocks of 128 x 1 x 1 threads\) failed: CUDA_ERROR_INVALID"
    ):
        early(y, x)


def test_a_cooperative_launch_has_the_barrier_of_its_stream(gpu: CudaDevice, fake_driver: Any) -> None:
    found = barriers(fake_driver, together)
    y, stream = gpu.zeros(300, f32), gpu.stream()
    for _ in range(2):
        together(y)
        together.on(stream)(y)
    assert fake_driver.attributes == [{"COOPERATIVE": 1}] * 4
    assert found[0] == found[2] != found[1] == found[3]
    assert [ctypes.c_uint32.from_address(address).value for address in found[:2]] == [0, 0]
    allocated = [arguments for arguments in fake_driver.called("cuMemAllocAsync") if arguments[0] == 4]
    assert [int(arguments[1]) for arguments in allocated] == [int(gpu.default_stream.handle), int(stream.handle)]


def test_the_barrier_goes_with_its_stream(gpu: CudaDevice, fake_driver: Any) -> None:
    found = barriers(fake_driver, together)
    y, stream = gpu.zeros(300, f32), gpu.stream()
    together.on(stream)(y)
    handle = int(stream.handle)
    y.free()
    fake_driver.log.clear()
    del stream
    gc.collect()
    freed = [(int(address), int(on)) for address, on in fake_driver.called("cuMemFreeAsync")]
    assert (found[0], handle) in freed
    assert [name for name, _ in fake_driver.log][-2:] == ["cuMemFreeAsync", "cuStreamDestroy"]


def test_too_many_blocks_are_refused_with_figures(gpu: CudaDevice, fake_driver: Any) -> None:
    together(gpu.zeros(8 * 128, f32))
    message = (
        r"together: the 9 blocks of a cooperative launch all have to run at the same time; cuda:0 \(Fake GPU\) runs 8: 4 multiprocessors with "
        r"2 blocks each, of 128 threads with 32 registers and 128 bytes of shared memory"
    )
    with pytest.raises(LaunchError, match=message):
        together(gpu.zeros(8 * 128 + 1, f32))
    with pytest.raises(LaunchError, match=message), kdsl.Graph(gpu):
        together(gpu.zeros(8 * 128 + 1, f32))
    assert len(fake_driver.called("cuOccupancyMaxActiveBlocksPerMultiprocessor")) == 1  # asked once


def test_clusters_that_wait_for_each_other_are_counted_as_such(gpu: CudaDevice, fake_driver: Any) -> None:
    together_in_clusters(gpu.zeros(4 * 128, f32))
    with pytest.raises(LaunchError, match=r"the 6 blocks of a cooperative launch .* runs 4: .* 80128 bytes of shared memory"):
        together_in_clusters(gpu.zeros(4 * 128 + 1, f32))
    ((_, config),) = fake_driver.called("cuOccupancyMaxActiveClusters")
    assert (config.sharedMemBytes, config.blockDimX) == (80_000, 128)


def test_clusters_of_more_than_8_blocks_are_asked_for(gpu: CudaDevice, fake_driver: Any) -> None:
    clusters(gpu.zeros(300, f32))
    assert not fake_driver.large_clusters
    for _ in range(2):
        large_clusters(gpu.zeros(300, f32))
    ((function, config),) = fake_driver.called("cuOccupancyMaxActiveClusters")  # asked once
    assert fake_driver.large_clusters == {int(function)}
    assert (config.gridDimX, config.sharedMemBytes, config.blockDimX) == (12, 80_000, 128)
    assert [launch[1] for launch in fake_driver.called("cuLaunchKernel")[-2:]] == [12, 12]


@pytest.mark.parametrize("how", ["none", "refused"])
def test_clusters_that_the_gpu_has_no_room_for(gpu: CudaDevice, fake_driver: Any, how: str) -> None:
    if how == "none":
        fake_driver.resident = 0
    else:
        fake_driver.fail["cuOccupancyMaxActiveClusters"] = 912
    message = (
        r"large_clusters: cuda:0 \(Fake GPU\) has no room for a cluster of 12 blocks, of 128 threads with 32 registers and 80128 bytes of shared "
        r"memory. Declare @kernel\(cluster=…\) of at most 8 blocks, which every GPU with clusters takes, or make the blocks smaller"
    )
    with pytest.raises(LaunchError, match=message):
        large_clusters(gpu.zeros(300, f32))
    with pytest.raises(LaunchError, match=message), kdsl.Graph(gpu):
        large_clusters(gpu.zeros(300, f32))
    assert not fake_driver.called("cuLaunchKernel")
    clusters(gpu.zeros(300, f32))  # of the others the driver speaks


def test_launches_of_a_graph_have_barriers_of_their_own(gpu: CudaDevice, fake_driver: Any) -> None:
    found = barriers(fake_driver, together)
    y, stream = gpu.zeros(300, f32), gpu.stream()
    with kdsl.Graph(gpu) as graph:
        node = together(y)
        together.on(stream)(y)
    assert fake_driver.attributes == [{"COOPERATIVE": 1}] * 2
    graph.launch()
    together(y)
    assert len(set(found)) == 3
    before = dict(fake_driver.memory)
    graph.update(node, y=y[:100])
    gc.collect()
    assert found[0] not in fake_driver.memory  # the old one is free, and a new one is there
    assert len(fake_driver.memory) == len(before)
    graph.launch(stream)
    assert found[3] not in found[:3]
    assert found[4] == found[1]
    del graph
    gc.collect()
    assert not {found[1], found[3]} & set(fake_driver.memory)


def test_a_programmatic_kernel_of_a_graph_begins_early_behind_a_kernel(gpu: CudaDevice, fake_driver: Any) -> None:
    y, x, z = (gpu.zeros(300, f32) for _ in range(3))
    with kdsl.Graph(gpu) as graph:
        early(y, x)  # nothing before it
        early(x, y)  # behind a kernel
        x.fill(1.0)
        early(y, x)  # behind a fill
        clusters(z)
    ((nodes),) = fake_driver.graphs.values()
    order = list(nodes)
    assert {(order.index(a), order.index(b)) for a, b in fake_driver.early} == {(0, 1)}
    assert [[order.index(handle) for handle in node.after] for node in nodes.values()] == [[], [0], [1], [2], [3]]
    graph.launch()


def test_without_such_edges_it_begins_when_the_kernel_has_ended(gpu: CudaDevice, fake_driver: Any) -> None:
    fake_driver.version = 12020
    y, x = gpu.zeros(300, f32), gpu.zeros(300, f32)
    with kdsl.Graph(gpu) as graph:
        early(y, x)
        early(x, y)
    assert not fake_driver.early
    graph.launch()
