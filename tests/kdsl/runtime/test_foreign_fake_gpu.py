"""Arrays of other libraries on a GPU, against stand-ins for the driver and for PyTorch: streams, lifetimes, repeated launches."""

from __future__ import annotations

import ctypes
import gc
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from producer import Producer

import kdsl
from kdsl import DisjointSlice, Slice, elements, f32, kernel, thread_index
from kdsl.errors import ArgumentError, DeviceError, LaunchError
from kdsl.launch import foreign
from kdsl.runtime import libraries
from kdsl.runtime.gpu import CudaDevice


@kernel(grid=elements("y"), block=32, requires=("len(x) == len(y)",))
def scaled(y: DisjointSlice[f32], x: Slice[f32], a: f32) -> None:
    """y = a x."""
    i = thread_index()
    if i in y:
        y[i] = a * x[i]


@pytest.fixture
def gpu(fake_driver: Any) -> CudaDevice:
    found = kdsl.device()
    assert isinstance(found, CudaDevice)
    return found


@pytest.fixture
def seen(fake_driver: Any) -> list[tuple[int, int, float]]:
    """For each launch: addresses of y and x, a."""
    found: list[tuple[int, int, float]] = []

    def entry(blocks: int, block: tuple[int, ...], parameters: int) -> None:
        pointers = (ctypes.c_uint64 * 5).from_address(parameters)
        y, x = (ctypes.c_uint64.from_address(pointers[place]).value for place in (0, 2))
        found.append((y, x, ctypes.c_float.from_address(pointers[4]).value))

    fake_driver.kernels["scaled"] = entry
    return found


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A library with a current stream, whose tensors are NumPy's memory and say that they are on the GPU."""
    module: Any = ModuleType("torch")
    module.current = 0
    module._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda index: module.current)

    class Tensor:
        is_cuda = True
        requires_grad = False

        def __init__(self, host: Any) -> None:
            self.host = host
            self.producers: list[Producer] = []

        shape = property(lambda self: self.host.shape)
        dtype = property(lambda self: self.host.dtype)

        def data_ptr(self) -> int:
            return int(self.host.ctypes.data)

        def stride(self) -> tuple[int, ...]:
            return tuple(step // self.host.itemsize for step in self.host.strides)

        def is_neg(self) -> bool:
            return False

        def get_device(self) -> int:
            return 0

        def detach(self) -> Any:
            found = Tensor(self.host)
            found.producers = self.producers
            return found

        def __dlpack__(self, **keywords: Any) -> Any:
            assert not self.requires_grad
            code = (0 if self.host.dtype.kind == "i" else 2, 8 * self.host.itemsize, 1)
            self.producers.append(Producer(self.data_ptr(), self.shape, self.stride(), code=code, device=(2, 0)))
            return self.producers[-1].__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    Tensor.__module__ = "torch"
    module.Tensor, module.nn = Tensor, SimpleNamespace(Parameter=type("Parameter", (Tensor,), {"__module__": "torch"}))
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(libraries, "_found", {})
    monkeypatch.setattr(foreign, "_forms", {})
    module.zeros = lambda count: Tensor(np.zeros(count, np.float32))
    return module


def launched(fake_driver: Any) -> list[int]:
    """The stream of each launch."""
    return [int(arguments[8]) for arguments in fake_driver.called("cuLaunchKernel")]


def waits(fake_driver: Any) -> list[tuple[int, int]]:
    """All that has been ordered: which stream waits for which."""
    return sorted((stream, other) for stream, others in fake_driver.streams.items() for other in others)


def test_the_default_stream_is_ordered_with_the_legacy_one(gpu: CudaDevice, fake_driver: Any) -> None:
    assert fake_driver.blocking == {gpu.default_stream.number}
    assert gpu.stream().number not in fake_driver.blocking


def test_another_librarys_stream(gpu: CudaDevice, fake_driver: Any, seen: list[Any]) -> None:
    fake_driver.streams[5000] = set()
    for of in (5000, SimpleNamespace(cuda_stream=5000), SimpleNamespace(ptr=5000), SimpleNamespace(__cuda_stream__=lambda: (0, 5000))):
        stream = gpu.stream(of)
        assert (stream.number, stream) == (5000, gpu.stream(5000))
        del stream
    gc.collect()
    assert fake_driver.called("cuStreamDestroy") == []
    assert gpu.stream(0).number == gpu.stream(1).number == 1
    y, x = gpu.zeros(10, f32), gpu.zeros(10, f32)
    for _ in range(3):
        scaled.on(gpu.stream(5000))(y, x, 1.0)
    assert launched(fake_driver) == [5000] * 3
    for wrong in (gpu.default_stream, -1, True, "5", object()):
        with pytest.raises(TypeError, match="a stream of another library is wanted"):
            gpu.stream(wrong)


def test_tensors_of_one_library_run_on_its_stream(gpu: CudaDevice, fake_driver: Any, seen: list[Any], torch: Any) -> None:
    y, x = torch.zeros(10), torch.zeros(10)
    x.requires_grad = True
    for number in range(4):
        scaled(y, x, float(number))
    assert seen == [(y.data_ptr(), x.data_ptr(), float(n)) for n in range(4)]
    assert launched(fake_driver) == [1] * 4
    assert len(x.producers) == 2  # from the third time on the launch lay ready
    fake_driver.streams[5000] = set()
    torch.current = 5000
    for _ in range(3):
        scaled(y, x, 1.0)
    assert launched(fake_driver)[4:] == [5000] * 3
    assert waits(fake_driver) == []
    gc.collect()
    assert [p.deleted for p in (*x.producers, *y.producers)] == [1] * 8
    assert {stream for p in x.producers for stream in p.streams} == {-1}


def test_other_objects_at_the_same_place_are_the_same_launch(
    gpu: CudaDevice, fake_driver: Any, seen: list[Any], torch: Any
) -> None:  # fmt: skip
    hosts = np.zeros(10, np.float32), np.zeros(10, np.float32)
    for _ in range(4):
        y, x = map(torch.Tensor, hosts)
        scaled(y, x, 1.0)
    assert y.producers == x.producers == []
    assert len(seen) == 4


def test_a_tensor_that_changes_in_place(gpu: CudaDevice, fake_driver: Any, seen: list[Any], torch: Any) -> None:
    y, x = torch.zeros(10), torch.zeros(10)
    for _ in range(3):
        scaled(y, x, 1.0)
    wide = np.zeros(20, np.float32)
    x.host = wide[:10]
    for _ in range(3):
        scaled(y, x, 2.0)
    assert seen[-1] == (y.data_ptr(), x.data_ptr(), 2.0)
    for wrong, words in (
        (wide[::2], "stride of 2"),
        (wide[:9], "contract"),
        (wide[:10].reshape(2, 5), "has 2"),
        (wide[:10].view(np.int32), "i32"),
    ):
        x.host = wrong  # at the same place
        with pytest.raises((LaunchError, TypeError), match=words):
            scaled(y, x, 2.0)
    for wrong, words in ((np.zeros(12, np.float32), "contract"), (np.zeros(20, np.float32)[::2], "stride of 2"), (np.zeros(10), "f64")):
        x.host = wrong
        with pytest.raises((LaunchError, TypeError), match=words):
            scaled(y, x, 2.0)
    x.host = y.host
    with pytest.raises(LaunchError, match="overlap"):
        scaled(torch.Tensor(y.host[1:]), torch.Tensor(x.host[:-1]), 2.0)
    assert len(seen) == 6


def test_tensors_beside_our_arrays(gpu: CudaDevice, fake_driver: Any, seen: list[Any], torch: Any) -> None:
    ours, x, default = gpu.zeros(10, f32), torch.zeros(10), gpu.default_stream.number
    for _ in range(3):
        scaled(ours, x, 1.0)
    assert launched(fake_driver) == [default] * 3
    assert waits(fake_driver) == []  # CUDA orders the two
    assert len(x.producers) == 2
    fake_driver.streams[5000] = set()
    torch.current = 5000
    scaled(ours, x, 1.0)
    assert launched(fake_driver)[3:] == [default]
    assert waits(fake_driver) == sorted([(default, 5000), (5000, default)])
    ours.free()
    torch.current = 0
    with pytest.raises(LaunchError, match="the array for y has been freed"):
        scaled(ours, x, 1.0)


def test_tensors_on_a_stream_of_ours(gpu: CudaDevice, fake_driver: Any, seen: list[Any], torch: Any) -> None:
    y, x, stream = torch.zeros(10), torch.zeros(10), gpu.stream()
    scaled.on(stream)(y, x, 1.0)
    assert launched(fake_driver) == [stream.number]
    assert waits(fake_driver) == sorted([(1, stream.number), (stream.number, 1)])
    fake_driver.streams[5000] = set()
    torch.current = 5000
    wrapped = gpu.stream(5000)
    before = waits(fake_driver)
    for _ in range(4):
        scaled.on(wrapped)(y, x, 1.0)
    assert launched(fake_driver)[1:] == [5000] * 4
    assert waits(fake_driver) == before
    with pytest.raises(LaunchError, match="the stream belongs to cpu"):
        scaled.on(kdsl.device("cpu").stream())(y, x, 1.0)


def test_prepared_launches_and_graphs_keep_the_memory(gpu: CudaDevice, fake_driver: Any, seen: list[Any], torch: Any) -> None:
    y, x, other = torch.zeros(10), torch.zeros(10), torch.zeros(10)
    prepared = scaled.prepare(y, x, 1.0)
    prepared()
    assert launched(fake_driver) == [gpu.default_stream.number]
    (old,) = x.producers
    assert (old.deleted, old.streams) == (0, [gpu.default_stream.number])
    prepared(x=other)
    assert seen[-1] == (y.data_ptr(), other.data_ptr(), 1.0)
    gc.collect()
    assert old.deleted == 1
    with kdsl.Graph(gpu) as graph:
        scaled(y, x, 3.0)
    graph.launch()
    assert seen[-1] == (y.data_ptr(), x.data_ptr(), 3.0)
    assert x.producers[-1].deleted == 0
    del graph
    gc.collect()
    assert x.producers[-1].deleted == 1


def test_a_library_that_nobody_knows(gpu: CudaDevice, fake_driver: Any, seen: list[Any]) -> None:
    host, default = np.zeros(10, np.float32), gpu.default_stream
    y, x = gpu.zeros(10, f32), Producer(host.ctypes.data, (10,), device=(2, 0))
    scaled(y, x, 1.0)
    assert x.streams == [default.number]
    assert x.deleted == 1
    assert fake_driver.log[-1][0] == "cuStreamSynchronize"  # it may use its memory again at once
    stream = gpu.stream()
    scaled.on(stream)(y, x, 1.0)
    assert x.streams[1:] == [stream.number]


def test_memory_goes_back_when_all_streams_are_done(gpu: CudaDevice, fake_driver: Any, seen: list[Any]) -> None:
    host = np.zeros(10, np.float32)
    made = Producer(host.ctypes.data, (10,), device=(2, 0))
    y, x, stream = gpu.zeros(10, f32), kdsl.from_dlpack(made), gpu.stream()
    scaled.on(stream)(y, x, 1.0)
    fake_driver.current.context = 5
    del x
    gc.collect()
    assert fake_driver.current.context == 5
    assert made.deleted == 1
    assert stream.number in fake_driver.streams[gpu.default_stream.number]
    second = Producer(host.ctypes.data, (10,), device=(13, 0))
    x = kdsl.from_dlpack(second)
    x.free()
    x.free()
    assert second.deleted == 1
    fake_driver.current.context = 77
    with pytest.raises(LaunchError, match="freed"):
        scaled(y, x, 1.0)


def test_read_only(gpu: CudaDevice, fake_driver: Any, seen: list[Any]) -> None:
    host = np.zeros(10, np.float32)
    made = Producer(host.ctypes.data, (10,), device=(2, 0), flags=1)
    y = gpu.zeros(10, f32)
    scaled(y, made, 1.0)
    prepared = scaled.prepare(y, y, 1.0)
    for launch in (lambda a: scaled(a, y, 1.0), lambda a: prepared(y=a)):
        for given in (made, kdsl.from_dlpack(made)):
            with pytest.raises(
                ArgumentError, match=r"parameter y is DisjointSlice\[f32\], whose elements may be written; the argument is read-only"
            ):
                launch(given)
    assert len(seen) == 1


def test_the_cuda_array_interface(gpu: CudaDevice, fake_driver: Any, seen: list[Any]) -> None:
    host, default = np.arange(12, dtype=np.float32).reshape(3, 4), gpu.default_stream.number
    fake_driver.streams[5000] = set()

    def interface(**changes: Any) -> Any:
        found = {"shape": (3, 4), "typestr": "<f4", "data": (host.ctypes.data, False), "version": 3, **changes}
        return SimpleNamespace(__cuda_array_interface__=found)

    array = kdsl.from_dlpack(interface(stream=5000))
    assert waits(fake_driver) == [(default, 5000)]
    assert (array.shape, array.strides, array.address) == ((3, 4), (4, 1), host.ctypes.data)
    np.testing.assert_array_equal(kdsl.from_dlpack(interface(shape=(4, 3), strides=(4, 16))).numpy(), host.T)
    assert kdsl.from_dlpack(interface(data=(host.ctypes.data, True))).memory.readonly
    with pytest.raises(TypeError, match="mask"):
        kdsl.from_dlpack(interface(mask=host))
    with pytest.raises(TypeError, match="complex64"):
        kdsl.from_dlpack(interface(typestr="<c8"))
    ours = gpu.array(host).T[1:]
    assert ours.__cuda_array_interface__ == {
        "shape": (3, 3), "typestr": "<f4", "data": (ours.address, False), "strides": (4, 16), "version": 3, "stream": default,
    }  # fmt: skip
    assert gpu.zeros(3, f32).__cuda_array_interface__["strides"] is None
    assert not hasattr(gpu.zeros(3, kdsl.dtype("bf16")), "__cuda_array_interface__")


def test_a_consumer_waits_for_us(gpu: CudaDevice, fake_driver: Any, seen: list[Any]) -> None:
    y, x, stream, default = gpu.zeros(10, f32), gpu.zeros(10, f32), gpu.stream(), gpu.default_stream.number
    scaled.on(stream)(y, x, 1.0)
    assert y.__dlpack_device__() == (2, 0)
    fake_driver.streams[stream.number].clear()
    y.__dlpack__(stream=-1)
    assert waits(fake_driver) == []
    y.__dlpack__()
    assert waits(fake_driver) == [(default, stream.number)]  # the legacy stream waits for the default one by itself
    fake_driver.streams |= {5000: set(), 2: set()}
    for consumer in (2, 5000):
        y.__dlpack__(stream=consumer, max_version=(1, 0))
        assert fake_driver.streams[consumer] == {default}
    for wrong in (0, -2, True, "1"):
        with pytest.raises(BufferError, match="stream is None, -1, 1, 2 or the driver's handle"):
            y.__dlpack__(stream=wrong)
    capsule = y.__dlpack__()
    with pytest.raises(DeviceError, match="used by another library"):
        y.free()
    address = y.address
    del y
    gc.collect()
    assert address in fake_driver.memory
    del capsule
    assert address not in fake_driver.memory


@kernel(grid=elements("y"), block=32, cooperative=True)
def together(y: DisjointSlice[f32]) -> None:
    """Wait for all."""
    i = thread_index()
    if i in y:
        y[i] = 1.0
    kdsl.sync_grid()


def test_what_belongs_to_a_stream_stays_while_launches_lie_ready(gpu: CudaDevice, fake_driver: Any, torch: Any) -> None:
    fake_driver.kernels["together"] = lambda *arguments: None
    y = torch.zeros(10)
    for _ in range(4):
        together(y)
        gc.collect()
    words = [int(gpu.wrapped(1).barrier()) for _ in range(2)]
    assert words[0] == words[1]
    assert words[0] in fake_driver.memory
    together._launcher.plans.ready_launches.clear()
    gc.collect()
    assert words[0] not in fake_driver.memory
