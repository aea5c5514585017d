"""Without optimisation `u8(multiply_high(t, t))` had any value in a block of one group on a CPU: where its lanes stand is constant there, and LLVM's code
generator for x86 loses the high halves of products that turn out to be constant while it works on them."""

import ctypes
import struct

import numpy as np
import pytest

from kdsl import SliceMut, i64, kernel, multiply_high, thread_idx, u8, u16, u32
from kdsl.backend.cpu import HostCpu, compile_object, load
from kdsl.backend.cpu.compile import build_module
from kdsl.ir import abi


@kernel(grid=1, block=3)
def high(y: SliceMut[i64]) -> None:
    t = thread_idx.x
    y[t] = i64(u16(1) != u8(multiply_high(u32(t), u32(t))))


def test_module_has_no_sum_of_constants() -> None:
    module, _, _ = build_module(high.ir(), HostCpu("x86-64-v3"))
    body = str(module).partition("group:")[2].partition("\n}")[0]
    assert "<i64 0, i64 1, i64 4, i64 0>" in body
    assert "shufflevector" not in body.partition("\ncheck:")[0]


@pytest.mark.parametrize("level", [0, 3])
def test_high_half_of_constant_lanes(level: int) -> None:
    kernel = high.ir()
    code = load(compile_object(kernel, HostCpu.detect(), optimise=level))
    y, record, claim = np.full(3, 77), np.zeros(abi.RECORD_SIZE, np.uint8), np.zeros(1, np.uint64)
    layout = abi.layout(kernel)
    packed = struct.pack(layout.format, y.ctypes.data, len(y), claim.ctypes.data, record.ctypes.data, 7, 1, 1, 1)
    arguments, scratch = ctypes.create_string_buffer(packed, layout.size), np.zeros(code.scratch_bytes + 64, np.uint8)
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(code.address)
    entry(ctypes.addressof(arguments), 0, 1, scratch.ctypes.data + -scratch.ctypes.data % 64)
    assert y.tolist() == [1, 1, 1]
