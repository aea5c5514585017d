"""The runtime on the GPUs that are present (none: nothing to test here; `test_fake_gpu.py` runs everywhere)."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from kdsl.errors import BoundsError, DeviceError
from kdsl.ir.nodes import Location, Site
from kdsl.lang.types import DTYPES, f32, f64, i32, i64, u8, u32
from kdsl.runtime.device import device
from kdsl.runtime.gpu import CudaDevice
from kdsl.runtime.gpu_code import CudaFunction
from kdsl.runtime.record import register_sites
from kdsl.testing import devices

GPUS = [found for found in devices() if isinstance(found, CudaDevice)]
pytestmark = pytest.mark.parametrize("gpu", GPUS, ids=str)

PTX = """
.version 7.0
.target sm_80
.address_size 64

// y[i] = value + y[i], after each thread has waited for so many clock cycles
.visible .entry slow_add(.param .u64 y, .param .s64 n, .param .u32 value, .param .u64 cycles)
{
    .reg .pred %p<3>;
    .reg .b32 %r<8>;
    .reg .b64 %d<12>;
    ld.param.u64 %d1, [y];
    ld.param.s64 %d2, [n];
    ld.param.u32 %r1, [value];
    ld.param.u64 %d3, [cycles];
    mov.u64 %d4, %clock64;
wait:
    mov.u64 %d5, %clock64;
    sub.u64 %d6, %d5, %d4;
    setp.lt.u64 %p1, %d6, %d3;
    @%p1 bra wait;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    cvt.u64.u32 %d7, %r2;
    cvt.u64.u32 %d8, %r3;
    mul.lo.u64 %d7, %d7, %d8;
    cvt.u64.u32 %d8, %r4;
    add.u64 %d7, %d7, %d8;
    setp.ge.s64 %p2, %d7, %d2;
    @%p2 ret;
    cvta.to.global.u64 %d9, %d1;
    shl.b64 %d10, %d7, 2;
    add.u64 %d9, %d9, %d10;
    ld.global.u32 %r5, [%d9];
    add.u32 %r5, %r5, %r1;
    st.global.u32 [%d9], %r5;
    ret;
}

// Every thread fails a check: index 7 of 4, check 0
.visible .entry failing(.param .u64 claim, .param .u64 record, .param .u32 kernel)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %d<6>;
    ld.param.u64 %d1, [claim];
    ld.param.u64 %d2, [record];
    ld.param.u32 %r1, [kernel];
    cvta.to.global.u64 %d1, %d1;
    cvta.to.global.u64 %d2, %d2;
    atom.global.exch.b32 %r2, [%d1], 1;
    setp.ne.u32 %p1, %r2, 0;
    @%p1 ret;
    st.global.u32 [%d2 + 4], %r1;
    mov.u64 %d3, 7;
    st.global.u64 [%d2 + 16], %d3;
    mov.u64 %d3, 4;
    st.global.u64 [%d2 + 24], %d3;
    mov.u32 %r3, %tid.x;
    st.global.u32 [%d2 + 44], %r3;
    membar.sys;
    mov.u32 %r4, 1;
    st.volatile.global.u32 [%d2], %r4;
    ret;
}
"""


class Loaded:
    """An entry of `PTX` on one GPU."""

    def __init__(self, gpu: CudaDevice, name: str, format: str) -> None:
        self.function = CudaFunction(gpu, PTX, name)
        self.stream = gpu.default_stream
        self._codes = format

    def __call__(self, blocks: int, threads: int, *values: int, stream: Any = None) -> None:
        slots = [
            ctypes.create_string_buffer(struct.pack(code, value), struct.calcsize(code))
            for code, value in zip(self._codes, values, strict=True)
        ]
        pointers = (ctypes.c_void_p * len(slots))(*(ctypes.addressof(slot) for slot in slots))
        self.function.launch(stream or self.stream, blocks, (threads, 1, 1), ctypes.addressof(pointers))


SLOW = 20_000_000
"""Cycles of about ten milliseconds."""


def slow_add(gpu: CudaDevice) -> Loaded:
    return Loaded(gpu, "slow_add", "QqIQ")


def test_what_it_is(gpu: CudaDevice) -> None:
    assert str(gpu).startswith(f"{gpu.name} (")
    assert gpu.target == "sm_{}{}".format(*gpu.capability)
    assert device(gpu.name) is gpu


@pytest.mark.parametrize("of", DTYPES.values(), ids=str)
def test_arrays(gpu: CudaDevice, of: Any) -> None:
    host = (np.arange(100_001) % 100).astype(of.numpy)
    array = gpu.array(host)
    np.testing.assert_array_equal(array.numpy(), host)
    np.testing.assert_array_equal(array[77:-5].numpy(), host[77:-5])
    array[33:].fill(True if of.is_bool else 3)
    host[33:] = 3
    array[1:].copy_from(array[:-1])  # overlapping
    host[1:] = host[:-1].copy()
    np.testing.assert_array_equal(array.numpy(), host)
    np.testing.assert_array_equal(gpu.zeros(5, of).numpy(), np.zeros(5, of.numpy))
    assert gpu.zeros(0, of).numpy().shape == (0,)


@pytest.mark.parametrize(
    ("of", "value"), [(f32, -0.0), (f32, 1.5), (f64, 1.5), (f64, -0.0), (i64, -1), (i64, 2**40 + 1), (u8, 200), (i32, -7)]
)
def test_fill(gpu: CudaDevice, of: Any, value: float) -> None:
    assert gpu.full(1001, value, of).numpy().tobytes() == np.full(1001, value, of.numpy).tobytes()


def test_more_blocks_than_65535(gpu: CudaDevice) -> None:
    y = gpu.zeros(3_000_001, u32)
    slow_add(gpu)(3_000_001, 1, y.address, y.size, 5, 0)
    np.testing.assert_array_equal(y.numpy(), np.full(3_000_001, 5, np.uint32))


def test_the_first_use_on_another_stream_waits_for_the_array(gpu: CudaDevice) -> None:
    add, stream = slow_add(gpu), gpu.stream()
    for _ in range(5):
        y = gpu.zeros(1 << 20, u32)
        add(1, 1, y.address, 1, 1, SLOW)  # the home stream is busy
        y.fill(7)
        y.memory.join(stream)
        add((1 << 20) // 256, 256, y.address, y.size, 1, 0, stream=stream)
        np.testing.assert_array_equal(y.numpy(), np.full(1 << 20, 8, np.uint32))


def test_memory_is_not_reused_while_another_stream_uses_it(gpu: CudaDevice) -> None:
    add, stream = slow_add(gpu), gpu.stream()
    for _ in range(5):
        y = gpu.zeros(1 << 16, u32)
        y.memory.join(stream)
        add((1 << 16) // 256, 256, y.address, y.size, 1, SLOW, stream=stream)
        del y
        other = gpu.zeros(1 << 16, u32)  # the pool may give it the same memory, but only after the slow kernel
        stream.synchronize()
        np.testing.assert_array_equal(other.numpy(), np.zeros(1 << 16, np.uint32))


def test_many_small_arrays(gpu: CudaDevice) -> None:
    for number in range(10_000):
        array = gpu.empty(number % 1000, f32)
    np.testing.assert_array_equal(gpu.array(np.ones(10, np.float32)).numpy(), np.ones(10))
    del array
    gpu.synchronize()


def test_events_and_streams(gpu: CudaDevice) -> None:
    add, first, second = slow_add(gpu), gpu.stream(), gpu.stream()
    y = gpu.zeros(256, u32)
    y.memory.join(first)
    y.memory.join(second)
    start = first.record()
    add(1, 256, y.address, y.size, 1, SLOW, stream=first)
    end = first.record()
    second.wait(end)
    add(1, 256, y.address, y.size, 2, 0, stream=second)
    second.synchronize()
    end.synchronize()
    assert 1.0 < start.elapsed_ms(end) < 1000.0
    np.testing.assert_array_equal(y.numpy(), np.full(256, 3, np.uint32))


def test_threads(gpu: CudaDevice) -> None:
    add, wrong = slow_add(gpu), []

    def work(number: int) -> None:
        y = gpu.full(1000, number, u32)
        for _ in range(20):
            add(4, 256, y.address, y.size, 1, 0)
        if not (y.numpy() == number + 20).all():
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_failures(gpu: CudaDevice) -> None:
    number = register_sites("failing", [Site("store", "y", Location("failing.py", 3, 0, 3, 5), None)])
    failing, stream = Loaded(gpu, "failing", "QQI"), gpu.stream()
    y = gpu.zeros(4, i32)
    for synchronize in (gpu.synchronize, gpu.default_stream.synchronize, y.numpy, lambda: gpu.default_stream.record().synchronize()):
        failing(100, 64, gpu.failures.claim, gpu.failures.record, number)
        with pytest.raises(BoundsError, match=r"failing.py:3: write outside array y: index 7 .* 4 elements"):
            synchronize()
        gpu.synchronize()  # cleared
    failing(1, 1, gpu.failures.claim, gpu.failures.record, number, stream=stream)
    with pytest.raises(BoundsError):
        stream.synchronize()
    gpu.synchronize()


def test_ptx_that_the_driver_refuses(gpu: CudaDevice) -> None:
    with pytest.raises(DeviceError, match="CUDA_ERROR_INVALID_PTX") as caught:
        CudaFunction(gpu, PTX.replace("membar.sys", "nonsense.instruction"), "failing")
    assert "nonsense" in str(caught.value)
    with pytest.raises(DeviceError, match="CUDA_ERROR_NOT_FOUND"):
        CudaFunction(gpu, PTX, "absent")
    assert slow_add(gpu).function.attribute("NUM_REGS") > 0


def test_out_of_memory(gpu: CudaDevice) -> None:
    with pytest.raises(DeviceError, match="out of memory on"):
        gpu.empty(1 << 50, u8)
    np.testing.assert_array_equal(gpu.zeros(3, u8).numpy(), [0, 0, 0])


def test_the_end_of_a_program(gpu: CudaDevice) -> None:
    code = (
        "import threading\nfrom kdsl.runtime.device import device\nfrom kdsl.lang.types import f32\n"
        f"gpu = device({gpu.name!r})\nkept = gpu.zeros(1000, f32); stream = gpu.stream(); event = stream.record(); kept.memory.join(stream)\n"
        "cycle = [gpu.zeros(5, f32)]; cycle.append(cycle)\nprint('done')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_a_forked_child_is_told(gpu: CudaDevice) -> None:
    code = (
        "import os, sys\nfrom kdsl.runtime.device import device\nfrom kdsl.lang.types import f32\n"
        f"gpu = device({gpu.name!r})\narray = gpu.zeros(1000, f32)\nchild = os.fork()\n"
        "if child == 0:\n"
        "    try:\n        array.numpy()\n"
        "    except Exception as error:\n        sys.exit(0 if 'forked' in str(error) else 3)\n"
        "    sys.exit(4)\n"
        "assert os.waitpid(child, 0)[1] == 0\nassert array.numpy().sum() == 0\n"
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
