"""The GPU's code against a stand-in for the driver: what is called, in which context, and which stream waits for which."""

from __future__ import annotations

import ctypes
import gc
import struct
import threading
from typing import Any

import numpy as np
import pytest

from kdsl.errors import BoundsError, DeviceError, LaunchError
from kdsl.ir import abi, nodes
from kdsl.ir.shared import shared_layout
from kdsl.lang.declaration import Declaration, Parameter
from kdsl.lang.geometry import Elements
from kdsl.lang.types import DTYPES, F32, F64, U8, f32, f64, i32, i64, u8
from kdsl.lang.views import ViewAnnotation
from kdsl.launch.bind import Launcher
from kdsl.launch.launchable import Specialisation
from kdsl.runtime import cuda
from kdsl.runtime.device import device
from kdsl.runtime.gpu import CudaDevice, CudaMemory
from kdsl.runtime.gpu_code import CudaFunction
from kdsl.runtime.stream import Stream


@pytest.fixture
def gpu(fake_driver: Any) -> CudaDevice:
    found = device()
    assert isinstance(found, CudaDevice)
    return found


def waits(fake_driver: Any, stream: Stream, other: Stream) -> bool:
    return int(other.handle) in fake_driver.streams[int(stream.handle)]


def test_what_it_is(gpu: CudaDevice) -> None:
    assert (str(gpu), gpu.name, gpu.target, gpu.capability) == ("cuda:0 (Fake GPU)", "cuda:0", "sm_90", (9, 0))
    assert device("cuda") is device("cuda:0") is gpu
    with pytest.raises(DeviceError, match="there is no device cuda:1; there is cpu, cuda:0"):
        device("cuda:1")


@pytest.mark.parametrize("of", DTYPES.values(), ids=str)
def test_arrays(gpu: CudaDevice, of: Any) -> None:
    host = np.arange(10).astype(of.numpy)
    array = gpu.array(host)
    np.testing.assert_array_equal(array.numpy(), host)
    np.testing.assert_array_equal(array[2:5].numpy(), host[2:5])
    array[3:].fill(of.is_bool or 1)
    host[3:] = 1
    np.testing.assert_array_equal(array.numpy(), host)
    array[1:].copy_from(array[:9])
    host[1:] = host[:9].copy()
    np.testing.assert_array_equal(array.numpy(), host)
    np.testing.assert_array_equal(gpu.zeros(5, of).numpy(), np.zeros(5, of.numpy))


@pytest.mark.parametrize(
    ("of", "value"), [(f32, -0.0), (f32, 1.5), (f64, 1.5), (f64, -0.0), (i64, -1), (i64, 2**40 + 1), (u8, 200), (i32, -7), (f64, 0)]
)
def test_fill(gpu: CudaDevice, of: Any, value: float) -> None:
    assert gpu.full(9, value, of).numpy().tobytes() == np.full(9, value, of.numpy).tobytes()


def test_empty_arrays_do_not_reach_the_driver(gpu: CudaDevice, fake_driver: Any) -> None:
    fake_driver.log.clear()
    array = gpu.zeros(0, f32)
    array.fill(1)
    array.copy_from(np.zeros(0, np.float32))
    gpu.empty(0, f32).copy_from(array)
    assert array.numpy().shape == (0,)
    del array
    assert {name for name, _ in fake_driver.log} == {"cuStreamSynchronize"}


def test_memory_goes_with_its_last_array(gpu: CudaDevice, fake_driver: Any) -> None:
    before = len(fake_driver.memory)
    array = gpu.zeros(100, f32)
    part = array[5:]
    del array
    assert len(fake_driver.memory) == before + 1
    del part
    assert len(fake_driver.memory) == before
    array = gpu.zeros(100, f32)
    array.free()
    array.free()
    assert len(fake_driver.memory) == before
    with pytest.raises(DeviceError, match="freed"):
        array.numpy()


def test_memory_is_not_freed_while_another_stream_uses_it(gpu: CudaDevice, fake_driver: Any) -> None:
    stream = gpu.stream()
    array = gpu.zeros(100, f32)
    array.memory.join(stream)
    assert waits(fake_driver, stream, gpu.default_stream)  # it is filled before the stream uses it
    assert not waits(fake_driver, gpu.default_stream, stream)
    events = len(fake_driver.called("cuEventRecord"))
    array.memory.join(stream)
    assert len(fake_driver.called("cuEventRecord")) == events  # once is enough
    address = array.address
    del array
    assert waits(fake_driver, gpu.default_stream, stream)
    names = [name for name, _ in fake_driver.log]
    freed = fake_driver.log.index(("cuMemFreeAsync", (address, gpu.default_stream.handle)))
    assert names[freed - 2] == "cuStreamWaitEvent"  # then the event is destroyed


def test_the_host_waits_for_every_stream_that_uses_an_array(gpu: CudaDevice, fake_driver: Any) -> None:
    stream = gpu.stream()
    array = gpu.zeros(100, f32)
    array.memory.join(stream)
    array.numpy()
    assert waits(fake_driver, gpu.default_stream, stream)
    fake_driver.streams[int(stream.handle)].clear()
    array.fill(3)
    array.memory.join(stream)
    assert waits(fake_driver, stream, gpu.default_stream)  # it sees the new elements


def test_every_thread_attaches(gpu: CudaDevice) -> None:
    array, results = gpu.zeros(5, f32), []
    thread = threading.Thread(target=lambda: results.append(array.numpy().sum()))
    thread.start()
    thread.join()
    assert results == [0.0]


def test_another_library_may_change_the_context(gpu: CudaDevice, fake_driver: Any) -> None:
    fake_driver.current.context = 5
    gpu.zeros(5, f32).numpy()
    assert fake_driver.current.context == 77


def test_finalisers_leave_the_context_alone(gpu: CudaDevice, fake_driver: Any) -> None:
    array, stream, event = gpu.zeros(5, f32), gpu.stream(), gpu.event()
    gc.collect()  # what other tests have left
    fake_driver.log.clear()
    fake_driver.current.context = 5
    del array, stream, event
    gc.collect()
    assert sorted(name for name, _ in fake_driver.log) == ["cuEventDestroy", "cuMemFreeAsync", "cuStreamDestroy"]
    assert fake_driver.current.context == 5


def test_finalisers_stay_quiet_when_the_context_is_broken(gpu: CudaDevice, fake_driver: Any, capsys: pytest.CaptureFixture[str]) -> None:
    array, stream, event = gpu.zeros(5, f32), gpu.stream(), gpu.event()
    fake_driver.fail.update(cuMemFreeAsync=700, cuStreamDestroy=700, cuEventDestroy=700, cuCtxSynchronize=700)
    del array, stream, event
    gc.collect()
    assert capsys.readouterr().err == ""
    with pytest.raises(DeviceError, match=r"cuCtxSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS \(700\): .*compute-sanitizer") as caught:
        gpu.synchronize()
    assert caught.value.status == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_out_of_memory(gpu: CudaDevice, fake_driver: Any) -> None:
    fake_driver.limit = 1000
    with pytest.raises(DeviceError, match=r"out of memory on cuda:0 \(Fake GPU\): 4,000 bytes were wanted, 5 of 10 are free"):
        gpu.empty(1000, f32)
    assert fake_driver.called("cuMemPoolTrimTo")
    gpu.empty(100, f32)


def test_a_forked_child_is_told(gpu: CudaDevice, monkeypatch: pytest.MonkeyPatch, fake_driver: Any) -> None:
    array = gpu.zeros(5, f32)
    with monkeypatch.context() as forked:  # a context: undoing everything would let a real driver free what the stand-in made
        forked.setattr(cuda, "_process", -1)
        gpu._orphan()
        with pytest.raises(DeviceError, match="forked"):
            array.numpy()
        calls = len(fake_driver.log)
        memory = array.memory
        assert isinstance(memory, CudaMemory)
        memory.__del__()
        assert len(fake_driver.log) == calls


def test_failures(gpu: CudaDevice) -> None:
    stream, event, array = gpu.stream(), gpu.event(), gpu.zeros(2, f32)
    for action in (gpu.synchronize, stream.synchronize, event.synchronize, array.numpy):
        ctypes.c_uint32.from_address(gpu.failures.claim).value = 1
        ctypes.c_uint32.from_address(gpu.failures.record).value = 1
        with pytest.raises(BoundsError):
            action()
        assert ctypes.c_uint32.from_address(gpu.failures.claim).value == 0
        gpu.synchronize()


def test_events(gpu: CudaDevice) -> None:
    start, end = gpu.default_stream.record(), gpu.event()
    end.record()
    assert start.elapsed_ms(end) == 1.5
    gpu.stream().wait(end)
    cpu = device("cpu")
    for mixed in (lambda: start.elapsed_ms(cpu.event()), lambda: start.record(cpu.stream()), lambda: gpu.stream().wait(cpu.event())):
        with pytest.raises(DeviceError, match="cpu"):
            mixed()


def test_copies_between_devices(gpu: CudaDevice) -> None:
    cpu = device("cpu")
    source = cpu.array(np.arange(5, dtype=np.int32))
    on_gpu = gpu.empty(5, i32)
    on_gpu.copy_from(source)
    back = cpu.empty(5, i32)
    back.copy_from(on_gpu)
    np.testing.assert_array_equal(back.numpy(), np.arange(5))


def test_launch(gpu: CudaDevice, fake_driver: Any) -> None:
    seen: list[Any] = []
    fake_driver.kernels["entry"] = lambda *arguments: seen.append(arguments)
    function = CudaFunction(gpu, ".version 8.0", "entry")
    stream = gpu.stream()
    function.launch(stream, 2**31 - 1, (16, 8, 2), 4096)
    assert seen == [(2**31 - 1, (16, 8, 2), 4096)]
    assert int(fake_driver.called("cuLaunchKernel")[0][8]) == int(stream.handle)
    assert function.attribute("NUM_REGS") == 32
    fake_driver.fail["cuLaunchKernel"] = 1
    with pytest.raises(DeviceError, match=r"launch of entry on cuda:0 .*3 blocks of 1 x 1 x 1 threads\) failed: CUDA_ERROR_INVALID_VALUE"):
        function.launch(stream, 3, (1, 1, 1), 0)


def test_ptx_that_the_driver_refuses(gpu: CudaDevice, fake_driver: Any) -> None:
    fake_driver.fail["cuModuleLoadDataEx"] = 218
    real = type(fake_driver).__getattr__

    def logging(self: Any, name: str) -> Any:
        function = real(self, name)
        if name != "cuModuleLoadDataEx":
            return function

        def load(image: bytes, count: int, options: Any, values: Any) -> Any:
            values[0][:9] = b"line 3: x"
            return self._real.CUresult.CUDA_ERROR_INVALID_PTX, None

        return load

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(fake_driver), "__getattr__", logging)
        with pytest.raises(DeviceError, match=r"(?s)refuses the PTX of entry on cuda:0.*CUDA_ERROR_INVALID_PTX.*\nline 3: x$"):
            CudaFunction(gpu, "nonsense", "entry")


def test_a_launcher_hands_its_arguments_to_the_driver(gpu: CudaDevice, fake_driver: Any) -> None:
    views = [nodes.View("y", F32, "DisjointSlice", written=True), nodes.View("x", F32, "Slice", read=True)]
    scalars = [nodes.ScalarParameter("flag", U8), nodes.ScalarParameter("a", F64)]
    place = nodes.Location("fake.py", 1, 0, 1, 3)
    layout = abi.layout(nodes.Kernel("copy", [*views, *scalars], [], [], (64, 2, 1), [], nodes.Block(), place))
    got: list[Any] = []

    def entry(blocks: int, block: tuple[int, ...], parameters: int) -> None:
        pointers = (ctypes.c_uint64 * len(layout.slots)).from_address(parameters)
        codes = layout.format.lstrip("@")
        values = [struct.unpack(code, ctypes.string_at(p, struct.calcsize(code)))[0] for code, p in zip(codes, pointers, strict=True)]
        got.append((blocks, block, dict(zip((slot.name for slot in layout.slots), values, strict=True))))

    fake_driver.kernels["copy"] = entry

    class Launchable:
        pass

    def specialise(wanted: Specialisation) -> Any:
        made: Any = Launchable()
        made.shared = shared_layout(())
        made.layout, made.views, made.number = layout, {view.name: view for view in views}, 42
        made.code = CudaFunction(gpu, "", "copy")
        return made

    parameters = (
        Parameter("y", ViewAnnotation("DisjointSlice", F32), False),
        Parameter("x", ViewAnnotation("Slice", F32), False),
        Parameter("flag", U8, False),
        Parameter("a", F64, False),
    )
    declaration = Declaration("copy", "tests", "", parameters, Elements("y"), (64, 2, 1), ("len(x) == len(y)",), True)
    launcher = Launcher(declaration, specialise)
    y, x, stream = gpu.zeros(1000, f32), gpu.zeros(1000, f32), gpu.stream()
    launcher.function(y, x, 3, 0.5)
    launcher.on(stream)(y, x, 4, 0.25)
    (blocks, block, first), (_, _, second) = got
    assert (blocks, block) == (8, (64, 2, 1))
    hidden = {"claim": gpu.failures.claim, "record": gpu.failures.record, "kernel": 42, "grid_x": 8, "grid_y": 1, "grid_z": 1}
    assert first == {"y.address": y.address, "y.length": 1000, "x.address": x.address, "x.length": 1000, "flag": 3, "a": 0.5, **hidden}
    assert (second["flag"], second["a"]) == (4, 0.25)
    assert y.memory.others == x.memory.others == {stream}
    assert waits(fake_driver, stream, gpu.default_stream)
    with pytest.raises(LaunchError, match=r"live on one device; y is on cuda:0 \(Fake GPU\), x on cpu"):
        launcher.function(y, device("cpu").zeros(1000, f32), 3, 0.5)
    with pytest.raises(LaunchError, match=r"the arrays are on cuda:0 .*, the stream belongs to cpu"):
        launcher.on(device("cpu").stream())(y, x, 3, 0.5)
    launcher.function(gpu.zeros(0, f32), gpu.zeros(0, f32), 3, 0.5)
    assert len(got) == 2


def test_more_than_48_kib_of_shared_memory_are_asked_for_once(gpu: CudaDevice, fake_driver: Any) -> None:
    seen: list[Any] = []
    fake_driver.kernels["entry"] = lambda *arguments: seen.append(arguments)
    function = CudaFunction(gpu, "", "entry", shared=96 * 1024)
    for _ in range(2):
        function.launch(gpu.default_stream, 2, (32, 1, 1), 4096, 96 * 1024)
    assert len(seen) == 2
    assert [arguments[2] for arguments in fake_driver.called("cuFuncSetAttribute")] == [96 * 1024]
    assert [arguments[7] for arguments in fake_driver.called("cuLaunchKernel")] == [96 * 1024] * 2
    fake_driver.log.clear()
    CudaFunction(gpu, "", "entry", shared=48 * 1024).launch(gpu.default_stream, 2, (32, 1, 1), 4096, 48 * 1024)
    assert not fake_driver.called("cuFuncSetAttribute")
