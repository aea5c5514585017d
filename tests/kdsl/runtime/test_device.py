"""The choice of a device, and arrays on the CPU."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from kdsl.errors import DeviceError
from kdsl.lang.types import DTYPES, f32, f64, i32, u8
from kdsl.runtime import cuda
from kdsl.runtime import device as devices_of_process
from kdsl.runtime.device import device, gpu_count
from kdsl.testing import devices


def test_one_object_per_device() -> None:
    assert device("cpu") is device("cpu")
    assert str(device("cpu")) == "cpu"
    assert pickle.loads(pickle.dumps(device("cpu"))) is device("cpu")
    assert devices()[0] is device("cpu")
    assert len(devices()) == 1 + gpu_count()


def test_the_environment_replaces_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_of_process, "_devices", {"cpu": device("cpu")})  # nobody has asked for the default yet
    monkeypatch.setenv("KDSL_DEVICE", "cpu")
    assert device() is device("cpu")
    assert device("auto") is device("cpu")
    monkeypatch.setenv("KDSL_DEVICE", "tpu")
    assert device() is device("cpu")  # it is decided once
    monkeypatch.setattr(devices_of_process, "_devices", {"cpu": device("cpu")})
    with pytest.raises(DeviceError, match="there is no device 'tpu'; there is cpu"):
        device()
    assert device("cpu").name == "cpu"


@pytest.mark.parametrize("name", ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1:2", "cpu:0", "CPU", "cuda:\u0661", 0])
def test_unknown_devices(name: Any) -> None:
    with pytest.raises(DeviceError, match=r"there is cpu"):
        device(name)


def test_an_absent_gpu_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "device_count", lambda: 0)
    with pytest.raises(DeviceError, match=r"there is no device cuda:7; there is cpu$"):
        device("cuda:7")


def test_a_gpu_that_does_not_work_is_no_default(fake_driver: Any) -> None:
    fake_driver.fail["cuDevicePrimaryCtxRetain"] = 2
    with pytest.warns(RuntimeWarning, match="the CPU is used.*CUDA_ERROR_OUT_OF_MEMORY"):
        assert device().name == "cpu"
    with pytest.raises(DeviceError, match=r"cuDevicePrimaryCtxRetain failed: CUDA_ERROR_OUT_OF_MEMORY \(2\): text of"):
        device("cuda")


def test_a_driver_without_gpus(fake_driver: Any) -> None:
    fake_driver.fail["cuInit"] = 100
    assert gpu_count() == 0
    assert device().name == "cpu"


def test_the_cpu_needs_no_cuda_python() -> None:
    use = "import sys\nfrom kdsl.runtime.device import device\ndevice('cpu').zeros(3, bool)\n"
    code = use + "assert not any(m.startswith('cuda.bindings') for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


# ------------------------------------------------------------------------------------------------------------------------------- arrays

CPU = device("cpu")


@pytest.mark.parametrize("of", DTYPES.values(), ids=str)
def test_round_trip(of: Any) -> None:
    host = np.arange(100).astype(of.numpy)
    array = CPU.array(host)
    assert (array.dtype, len(array), array.size, array.nbytes, array.address % 64) == (of, 100, 100, host.nbytes, 0)
    copy = array.numpy()
    assert copy.dtype == host.dtype
    np.testing.assert_array_equal(copy, host)
    copy[:] = 0
    np.testing.assert_array_equal(array.numpy(), host)


def test_what_is_copied_is_made_contiguous() -> None:
    host = np.arange(10, dtype=np.float32)
    np.testing.assert_array_equal(CPU.array(host[::2]).numpy(), host[::2])
    np.testing.assert_array_equal(CPU.array(host[::-1]).numpy(), host[::-1])


def test_making_arrays() -> None:
    np.testing.assert_array_equal(CPU.zeros(3, f32).numpy(), np.zeros(3, np.float32))
    np.testing.assert_array_equal(CPU.full(3, 7, i32).numpy(), np.full(3, 7, np.int32))
    np.testing.assert_array_equal(CPU.full(2, True, bool).numpy(), [True, True])
    assert CPU.empty(np.int64(5), np.float64).dtype.name == "f64"  # type: ignore[arg-type]
    empty = CPU.empty(0, f32)
    assert (len(empty), empty.numpy().shape) == (0, (0,))
    assert repr(CPU.zeros(3, u8)) == "<array of 3 u8 on cpu>"


def wrong(kind: type[Exception], words: str, action: Any) -> Any:
    return pytest.param(kind, words, action, id=words[:30])


@pytest.mark.parametrize(
    ("kind", "words", "action"),
    [
        wrong(ValueError, r"shape \(1, 1, 1, 1, 2, 3\); pass .reshape\(-1\)", lambda: CPU.array(np.zeros((1, 1, 1, 1, 2, 3), np.float32))),
        wrong(ValueError, r"shape \(\)", lambda: CPU.array(np.array(1.0))),
        wrong(TypeError, "a NumPy array is wanted, not list", lambda: CPU.array([1, 2])),  # type: ignore[arg-type]
        wrong(TypeError, "no element type for NumPy's complex128", lambda: CPU.array(np.zeros(3, complex))),
        wrong(TypeError, "no element type for NumPy's >f4", lambda: CPU.array(np.zeros(3, ">f4"))),
        wrong(TypeError, "no element type for NumPy's object", lambda: CPU.array(np.array([None]))),
        wrong(ValueError, "at least 0, not -1", lambda: CPU.empty(-1, f32)),
        wrong(TypeError, "is an int, not 2.0", lambda: CPU.empty(2.0, f32)),  # type: ignore[arg-type]
        wrong(TypeError, "not an element type", lambda: CPU.empty(2, "f99")),  # type: ignore[arg-type]
        wrong(OverflowError, "u8 holds 0 to 255, not 256", lambda: CPU.full(2, 256, u8)),
        wrong(TypeError, "a whole number", lambda: CPU.full(2, 1.5, i32)),
        wrong(OverflowError, "would become infinite", lambda: CPU.full(2, 1e39, f32)),
        wrong(TypeError, "copy it with .numpy", lambda: CPU.zeros(3, f32)[0]),  # type: ignore[index]
        wrong(TypeError, "copy it with .numpy", lambda: np.asarray(CPU.zeros(3, f32))),
        wrong(TypeError, "not iterable", lambda: list(CPU.zeros(3, f32))),  # type: ignore[call-overload]
        wrong(TypeError, "copy_from", lambda: CPU.zeros(3, f32).__setitem__(0, 1)),
        wrong(ValueError, "not contiguous and cannot be filled", lambda: CPU.zeros(3, f32)[::2].fill(1)),
        wrong(ValueError, "cannot copy 4 elements of f32 to an array of 3", lambda: CPU.zeros(3, f32).copy_from(CPU.zeros(4, f32))),
        wrong(ValueError, "3 elements of f64 to an array of 3 elements of f32", lambda: CPU.zeros(3, f32).copy_from(CPU.zeros(3, f64))),
        wrong(ValueError, "3 elements of float64", lambda: CPU.zeros(3, f32).copy_from(np.zeros(3))),
        wrong(DeviceError, "out of memory on cpu", lambda: CPU.empty(1 << 58, u8)),
    ],
)
def test_mistakes_with_arrays(kind: type[Exception], words: str, action: Any) -> None:
    with pytest.raises(kind, match=words):
        action()


@pytest.mark.parametrize("part", [slice(2, 5), slice(None), slice(-3, None), slice(4, 2), slice(5, 100), slice(-100, 3), slice(None, -1)])
def test_slices_share_memory(part: slice) -> None:
    host = np.arange(10, dtype=np.int32)
    array = CPU.array(host)
    cut = array[part]
    np.testing.assert_array_equal(cut.numpy(), host[part])
    cut.fill(-1)
    host[part] = -1
    np.testing.assert_array_equal(array.numpy(), host)


def test_a_slice_keeps_the_memory() -> None:
    part = CPU.array(np.arange(1000, dtype=np.int32))[10:20][2:4]
    CPU.zeros(1000, i32)
    np.testing.assert_array_equal(part.numpy(), [12, 13])


def test_copying() -> None:
    array = CPU.zeros(5, i32)
    array.copy_from(np.arange(5, dtype=np.int32))
    array[1:].copy_from(array[:4])  # overlapping
    np.testing.assert_array_equal(array.numpy(), [0, 0, 1, 2, 3])
    other = CPU.empty(5, i32)
    other.copy_from(array)
    np.testing.assert_array_equal(other.numpy(), [0, 0, 1, 2, 3])


def test_freed() -> None:
    array = CPU.zeros(5, i32)
    part = array[1:]
    array.free()
    array.free()
    assert repr(part) == "<array of 4 i32 on cpu, freed>"
    for use in (part.numpy, lambda: part.fill(1), lambda: part.copy_from(np.zeros(4, np.int32)), lambda: CPU.zeros(4, i32).copy_from(part)):
        with pytest.raises(DeviceError, match="freed"):
            use()


def test_streams_and_events_of_the_cpu() -> None:
    stream = CPU.stream()
    start, end = stream.record(), CPU.event()
    end.record(stream)
    stream.wait(start)
    assert 0 <= start.elapsed_ms(end) < 1000
    stream.synchronize()
    end.synchronize()
    with pytest.raises(DeviceError, match="recorded"):
        start.elapsed_ms(CPU.event())


@pytest.mark.parametrize("zeroed", [False, True])
@pytest.mark.parametrize("nbytes", [1, 64, (4 << 20) - 1, 4 << 20, (4 << 20) + 5])
def test_large_arrays_begin_at_large_pages(nbytes: int, zeroed: bool) -> None:
    x = (CPU.zeros if zeroed else CPU.empty)(nbytes, u8)
    assert x.address % ((2 << 20) if nbytes >= 4 << 20 else 64) == 0
    assert not zeroed or not x.numpy().any()
    host = np.arange(nbytes, dtype=np.uint32).astype(np.uint8)
    np.testing.assert_array_equal(CPU.array(host).numpy(), host)
