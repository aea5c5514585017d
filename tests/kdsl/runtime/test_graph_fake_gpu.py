"""Graphs against a stand-in for the driver: which nodes are made, in which order they wait, and what a replay calls."""

from __future__ import annotations

import ctypes
import gc
import threading
from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import (
    DeviceError,
    DisjointSlice,
    GraphError,
    LaunchError,
    Slice,
    device,
    elements,
    f32,
    f64,
    i64,
    kernel,
    shared_array,
    thread_index,
)
from kdsl.ir.abi import layout
from kdsl.runtime.gpu import CudaDevice


@kernel(grid=elements("y"), requires=("len(x) == len(y)",), block=128)
def axpy(y: DisjointSlice[f32], x: Slice[f32], a: f32) -> None:
    """Add `a` times `x` to `y`."""
    i = thread_index()
    if i in y:
        y[i] = a * x[i] + y[i]


def axpy_on_the_host(blocks: int, block: tuple[int, ...], parameters: Any) -> None:
    """What the kernel does; the driver gets the address of an array with the address of each argument."""
    pointers = (ctypes.c_void_p * 5).from_address(parameters)
    y, n, x, _ = (ctypes.c_int64.from_address(pointer or 0).value for pointer in pointers[:4])
    a = ctypes.c_float.from_address(pointers[4] or 0).value
    assert (blocks, block) == (-(-n // 128), (128, 1, 1))
    for i in range(n):
        to = ctypes.c_float.from_address(y + 4 * i)
        to.value += a * ctypes.c_float.from_address(x + 4 * i).value


@pytest.fixture
def gpu(fake_driver: Any) -> CudaDevice:
    found = device()
    assert isinstance(found, CudaDevice)
    fake_driver.kernels["axpy"] = axpy_on_the_host
    return found


def full(gpu: CudaDevice, value: float, n: int = 10) -> Any:
    return gpu.full(n, value, f32)


def dependencies(fake_driver: Any) -> list[list[int]]:
    """For every node of the only graph the numbers of those that it waits for."""
    (nodes,) = fake_driver.graphs.values()
    order = list(nodes)
    return [[order.index(handle) for handle in node.after] for node in nodes.values()]


def test_nothing_reaches_the_driver_before_the_end(gpu: CudaDevice, fake_driver: Any) -> None:
    y, x, stream = full(gpu, 0), full(gpu, 1), gpu.stream()
    axpy(y, x, 0.0)  # compiled and loaded
    fake_driver.log.clear()
    with kdsl.Graph(gpu) as graph:
        axpy(y, x, 2.0)
        axpy.on(stream)(y, x, 3.0)
        x.fill(4)
        y.copy_from(x)
        assert fake_driver.log == []
    names = [name for name, _ in fake_driver.log]
    nodes = ["cuGraphAddKernelNode"] * 2 + ["cuGraphAddMemsetNode", "cuGraphAddMemcpyNode"]
    assert names == ["cuGraphCreate", *nodes, "cuGraphInstantiate"]
    # The kernel on the other stream waits for the first one, since it is its first use of the arrays there
    assert dependencies(fake_driver) == [[], [0], [0, 1], [1, 2]]
    fake_driver.log.clear()
    graph.launch()
    assert [name for name, _ in fake_driver.log] == ["cuGraphLaunch"]
    assert fake_driver.called("cuGraphLaunch")[0][1] is gpu.default_stream.handle
    np.testing.assert_array_equal(y.numpy(), np.full(10, 4))


def test_a_replay_on_another_stream_waits_for_the_arrays(gpu: CudaDevice, fake_driver: Any) -> None:
    y, x, stream = full(gpu, 0), full(gpu, 1), gpu.stream()
    with kdsl.Graph(gpu) as graph:
        axpy(y, x, 2.0)
    graph.launch(stream)
    assert int(gpu.default_stream.handle) in fake_driver.streams[int(stream.handle)]
    assert y.memory.others == x.memory.others == {stream}  # so neither is freed while the graph runs
    fake_driver.log.clear()
    graph.launch(stream)
    assert [name for name, _ in fake_driver.log] == ["cuGraphLaunch"]
    np.testing.assert_array_equal(y.numpy(), np.full(10, 4))


@kernel(grid=elements("y"), block=128)
def large(y: DisjointSlice[f32]) -> None:
    """Through 64 KiB of shared memory."""
    tile = shared_array(16384, f32)
    i = thread_index()
    if i in y:
        tile[i % 128] = y[i]
        y[i] = tile[i % 128]


def test_a_node_has_the_shared_memory_of_its_kernel(gpu: CudaDevice, fake_driver: Any) -> None:
    fake_driver.kernels["large"] = lambda *arguments: None
    y = full(gpu, 0)
    with kdsl.Graph(gpu) as graph:
        node = large(y)
    (added,) = fake_driver.called("cuGraphAddKernelNode")
    assert added[3].sharedMemBytes == 64 * 1024
    graph.update(node, y=full(gpu, 1))
    (changed,) = fake_driver.called("cuGraphExecKernelNodeSetParams")
    assert changed[2].sharedMemBytes == 64 * 1024
    large(y)
    assert fake_driver.called("cuLaunchKernel")[-1][7] == 64 * 1024


@kernel(grid=1, block=128)
def sized(y: DisjointSlice[f32], n: i64) -> None:
    """Through as much shared memory as the launch says."""
    fixed = shared_array(100, f32)
    tile = shared_array((n, 2), f32, align=256)
    i = thread_index()
    if i in y:
        fixed[i % 100] = y[i]
        tile[i % n, 1] = fixed[i % 100]
        y[i] = tile[i % n, 1]


def test_the_launch_says_how_much_shared_memory(gpu: CudaDevice, fake_driver: Any) -> None:
    slots = layout(sized.ir()).slots
    assert [slot.name for slot in slots[-2:]] == ["tile.place", "tile.shape.0"]
    got: list[tuple[int, int]] = []

    def run(blocks: int, block: tuple[int, ...], parameters: Any) -> None:
        pointers = (ctypes.c_void_p * len(slots)).from_address(parameters)
        place, extent = (ctypes.c_int64.from_address(pointer or 0).value for pointer in pointers[-2:])
        got.append((place, extent))

    fake_driver.kernels["sized"] = run
    y = full(gpu, 0)
    sized(y, 7)
    sized(y, 20_000)
    assert [arguments[7] for arguments in fake_driver.called("cuLaunchKernel")] == [512 + 56, 512 + 160_000]
    assert [arguments[2] for arguments in fake_driver.called("cuFuncSetAttribute")] == [232_448]
    with kdsl.Graph(gpu) as graph:
        node = sized(y, 0)
    assert fake_driver.called("cuGraphAddKernelNode")[0][3].sharedMemBytes == 512
    graph.update(node, n=3)
    assert fake_driver.called("cuGraphExecKernelNodeSetParams")[0][2].sharedMemBytes == 512 + 24
    graph.launch()
    assert got == [(512, 7), (512, 20_000), (512, 3)]
    with pytest.raises(LaunchError, match=r"a block has at most 232448 on cuda:0 \(Fake GPU\)"):
        sized(y, 29_000)


def test_an_update_exchanges_one_node(gpu: CudaDevice, fake_driver: Any) -> None:
    y, x = full(gpu, 0), full(gpu, 1)
    with kdsl.Graph(gpu) as graph:
        node = axpy(y, x, 2.0)
        empty = axpy(y[:0], x[:0], 2.0)
    assert [bool(arguments[2]) for arguments in fake_driver.called("cuGraphNodeSetEnabled")] == [False]
    graph.launch()
    fake_driver.log.clear()
    graph.update(node, a=3.0)
    assert [name for name, _ in fake_driver.log] == ["cuGraphExecKernelNodeSetParams"]
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), np.full(10, 5))
    graph.update(empty, y=x[:3], x=y[:3], a=1.0)
    graph.launch()
    np.testing.assert_array_equal(x.numpy(), [9] * 3 + [1] * 7)
    graph.update(node, y=y[:0], x=x[:0])
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), np.full(10, 8))
    with pytest.raises(LaunchError, match=r"the graph is on cuda:0 \(Fake GPU\), the arrays are on cpu"):
        graph.update(node, y=device("cpu").zeros(3, f32), x=device("cpu").zeros(3, f32))


def test_a_driver_that_refuses_leaves_the_graph_as_it_was(gpu: CudaDevice, fake_driver: Any) -> None:
    y, x = full(gpu, 0), full(gpu, 1)
    with kdsl.Graph(gpu) as graph:
        node = axpy(y, x, 2.0)
    fake_driver.fail["cuGraphExecKernelNodeSetParams"] = 1
    with pytest.raises(DeviceError, match="CUDA_ERROR_INVALID_VALUE"):
        graph.update(node, a=3.0)
    assert graph.arguments(node)["a"] == 2.0
    fake_driver.fail["cuGraphLaunch"] = 700
    with pytest.raises(DeviceError, match=r"launch of a graph of 1 steps on cuda:0 .* failed: CUDA_ERROR_ILLEGAL_ADDRESS"):
        graph.launch()


@pytest.mark.parametrize("failing", ["cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiate", "cuGraphNodeSetEnabled"])
def test_a_graph_that_cannot_be_made_leaves_nothing(gpu: CudaDevice, fake_driver: Any, failing: str) -> None:
    y = full(gpu, 1)
    graph = kdsl.Graph(gpu)
    fake_driver.fail[failing] = 2
    with pytest.raises(DeviceError, match=f"{failing} failed: CUDA_ERROR_OUT_OF_MEMORY"), graph:
        axpy(y[:0], y[:0], 1.0)
    with pytest.raises(GraphError, match="was not captured"):
        graph.launch()
    gc.collect()
    assert (fake_driver.graphs, fake_driver.executables) == ({}, {})


def test_the_driver_frees_a_graph_that_is_gone(gpu: CudaDevice, fake_driver: Any) -> None:
    y = full(gpu, 1)
    with kdsl.Graph(gpu) as graph:
        axpy(y, y, 1.0)
    fake_driver.current.context = 5
    del graph
    gc.collect()
    assert (fake_driver.graphs, fake_driver.executables) == ({}, {})
    assert fake_driver.current.context == 5


def test_every_thread_attaches(gpu: CudaDevice) -> None:
    y, x = full(gpu, 0), full(gpu, 1)
    with kdsl.Graph(gpu) as graph:
        node = axpy(y, x, 1.0)

    def work() -> None:
        graph.launch()
        graph.update(node, a=2.0)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), np.full(10, 3))


@pytest.mark.parametrize(("of", "value"), [(f64, 0.1), (f64, 0.0), (i64, -1), (i64, 2**40 + 1), (f32, 1.5)])
def test_fills(gpu: CudaDevice, of: Any, value: float) -> None:
    one, many = gpu.zeros(1, of), gpu.zeros(9, of)
    with kdsl.Graph(gpu) as graph:
        one.fill(value)
        many[1:].fill(value)
        made = gpu.zeros(3, of)
    made.fill(1)
    graph.launch()
    assert one.numpy()[0] == value
    np.testing.assert_array_equal(many.numpy(), np.array([0, *[value] * 8], of.numpy))
    np.testing.assert_array_equal(made.numpy(), np.zeros(3))


def test_overlapping_copies(gpu: CudaDevice) -> None:
    y = gpu.array(np.arange(9, dtype=np.float32))
    with kdsl.Graph(gpu) as graph:
        y[1:].copy_from(y[:-1])
    gc.collect()
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), [0, *range(8)])


def test_a_capture_on_one_device_leaves_the_others_alone(gpu: CudaDevice) -> None:
    cpu = device("cpu")
    y, x = cpu.zeros(5, f32), cpu.array(np.ones(5, np.float32))
    on_gpu = full(gpu, 3, 5)
    with kdsl.Graph(gpu) as graph:
        axpy(y, x, 1.0)
        y.copy_from(x)
        np.testing.assert_array_equal(y.numpy(), np.ones(5))
        with kdsl.Graph(cpu) as other:
            axpy(y, x, 1.0)
        other.launch()
        on_gpu.fill(2)
    np.testing.assert_array_equal(y.numpy(), np.full(5, 2))
    assert (len(graph), len(other)) == (1, 1)
    with pytest.raises(GraphError, match="a copy from another device cannot be captured in a graph on cuda:0"), kdsl.Graph(gpu):
        on_gpu.copy_from(y)
    with pytest.raises(LaunchError, match="is launched on a stream of that device"):
        graph.launch(cpu.stream())
