"""Short and prepared launches on a GPU, against the stand-in for the driver: contexts, streams, and what native code is handed."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

import kdsl
from kdsl import DisjointSlice, Slice, elements, f32, kernel, thread_index
from kdsl.errors import DeviceError, LaunchError
from kdsl.runtime import cuda
from kdsl.runtime.gpu import CudaDevice


@kernel(grid=elements("y"), block=32)
def scaled(y: DisjointSlice[f32], x: Slice[f32], a: f32) -> None:
    """y = a x."""
    i = thread_index()
    if i in y and i < len(x):
        y[i] = a * x[i]


@pytest.fixture
def gpu(fake_driver: Any) -> CudaDevice:
    found = kdsl.device()
    assert isinstance(found, CudaDevice)
    return found


@pytest.fixture
def seen(fake_driver: Any) -> list[tuple[int, int, int, float]]:
    """For each launch: blocks, addresses of y and x, a."""
    found: list[tuple[int, int, int, float]] = []

    def entry(blocks: int, block: tuple[int, ...], parameters: int) -> None:
        pointers = (ctypes.c_uint64 * 5).from_address(parameters)
        y, x = (ctypes.c_uint64.from_address(pointers[place]).value for place in (0, 2))
        found.append((blocks, y, x, ctypes.c_float.from_address(pointers[4]).value))

    fake_driver.kernels["scaled"] = entry
    return found


def test_every_way_hands_over_the_same(gpu: CudaDevice, fake_driver: Any, seen: list[Any]) -> None:
    y, x, other = gpu.zeros(100, f32), gpu.zeros(100, f32), gpu.zeros(100, f32)
    for number in range(4):
        scaled(y, x, float(number))
    prepared = scaled.prepare(y, x, 4.0)
    prepared()
    prepared(a=5.0, x=other)
    assert seen == [(4, y.address, x.address, float(n)) for n in range(5)] + [(4, y.address, other.address, 5.0)]
    streams = {int(arguments[8]) for arguments in fake_driver.called("cuLaunchKernel")}
    assert streams == {int(gpu.default_stream.handle)}


def test_another_librarys_context(gpu: CudaDevice, fake_driver: Any, seen: list[Any]) -> None:
    y, x = gpu.zeros(100, f32), gpu.zeros(100, f32)
    prepared = scaled.prepare(y, x, 4.0)
    for launch in (lambda: scaled(y, x, 1.0), lambda: scaled(y, x, 1.0), lambda: scaled(y, x, 1.0), prepared):
        fake_driver.current.context = 5
        launch()
        assert fake_driver.current.context == 77
    assert len(seen) == 4


def test_a_forked_child_is_told(gpu: CudaDevice, fake_driver: Any, seen: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    y, x = gpu.zeros(100, f32), gpu.zeros(100, f32)
    prepared = scaled.prepare(y, x, 4.0)
    for _ in range(3):
        scaled(y, x, 1.0)
    with monkeypatch.context() as forked:
        forked.setattr(cuda, "_process", -1)
        forked.setattr(gpu, "_context_address", -1)
        gpu.context_cell.value = 2**64 - 1
        for launch in (lambda: scaled(y, x, 1.0), prepared):
            with pytest.raises(DeviceError, match="forked"):
                launch()
    gpu.context_cell.value = 77
    assert len(seen) == 3


def test_a_refusal_of_the_driver(gpu: CudaDevice, fake_driver: Any, seen: list[Any]) -> None:
    y, x = gpu.zeros(100, f32), gpu.zeros(100, f32)
    prepared = scaled.prepare(y, x, 4.0)
    for _ in range(3):
        scaled(y, x, 1.0)
    fake_driver.fail["cuLaunchKernel"] = 1
    for launch in (lambda: scaled(y, x, 1.0), prepared):
        with pytest.raises(
            DeviceError, match=r"launch of scaled on cuda:0 .*\(4 blocks of 32 x 1 x 1 threads\) failed: CUDA_ERROR_INVALID"
        ):
            launch()
    fake_driver.fail.clear()
    scaled(y, x, 2.0)
    prepared()
    assert [launch[3] for launch in seen[-2:]] == [2.0, 4.0]


def test_a_stream_joins_the_memory_again_once_the_host_has_used_it(gpu: CudaDevice, fake_driver: Any, seen: list[Any]) -> None:
    y, x, stream = gpu.zeros(100, f32), gpu.zeros(100, f32), gpu.stream()
    launch, prepared = scaled.on(stream), scaled.prepare(y, x, 1.0).on(stream)
    with kdsl.Graph(gpu) as graph:
        scaled(y, x, 1.0)
    for way in (lambda: launch(y, x, 1.0), prepared, lambda: graph.launch(stream)):
        for _ in range(3):
            way()
        waits = len(fake_driver.called("cuStreamWaitEvent"))
        way()
        assert len(fake_driver.called("cuStreamWaitEvent")) == waits  # it has joined
        y.numpy()  # the default stream waits for it
        assert y.memory.others == set()
        way()
        assert y.memory.others == {stream}
    fresh = gpu.zeros(100, f32)
    prepared(y=fresh)
    assert fresh.memory.others == {stream}


def test_freed_arrays(gpu: CudaDevice, seen: list[Any]) -> None:
    y, x = gpu.zeros(100, f32), gpu.zeros(100, f32)
    prepared = scaled.prepare(y, x, 1.0)
    for _ in range(3):
        scaled(y, x, 1.0)
        prepared()
    with kdsl.Graph(gpu) as graph:
        prepared()
    graph.launch()
    x.free()
    for launch in (lambda: scaled(y, x, 1.0), prepared, graph.launch):
        with pytest.raises(LaunchError, match=r"the array for x .*has been freed"):
            launch()
    assert len(seen) == 7


def test_a_graph_asks_the_driver_once(gpu: CudaDevice, fake_driver: Any, seen: list[Any]) -> None:
    y, x = gpu.zeros(100, f32), gpu.zeros(100, f32)
    prepared = scaled.prepare(y, x, 1.0)
    with kdsl.Graph(gpu) as graph:
        for _ in range(200):
            prepared()
    graph.launch()
    fake_driver.log.clear()
    graph._memories = ()  # it does not look at them again
    graph.launch()
    assert [name for name, _ in fake_driver.log] == ["cuGraphLaunch"]
    assert len(seen) == 400
