"""On a processor with GFNI the bits of `i8` values shifted right by 0 were turned over where LLVM found that 0 late, as in `x >> (s ^ s)` without optimisation:
it multiplies each byte by a matrix of bits there, and the one of 0 is wrong. Found by the fuzzer."""

import ctypes
import struct

import numpy as np
import pytest

from kdsl import SliceMut, i8, kernel, reverse_bits, thread_idx, thread_index
from kdsl.backend.cpu import HostCpu, compile_assembly, compile_object, load
from kdsl.ir import abi


@kernel(grid=2, block=5)
def shifted(y: SliceMut[i8], s: i8) -> None:
    i = thread_index()
    y[i] = y[i] >> (s ^ s)


@kernel(grid=1, block=16, requires="len(y) == 16")
def reversed_and_shifted(y: SliceMut[i8], s: i8) -> None:
    y[thread_idx.x] = reverse_bits(y[thread_idx.x]) >> (s & 7)


@pytest.mark.parametrize("level", [0, 3])
def test_bytes_stay(level: int) -> None:
    lowered = shifted.ir()
    code = load(compile_object(lowered, HostCpu.detect(), optimise=level))
    y, record, claim = np.arange(-125, 128, 26, np.int8), np.zeros(abi.RECORD_SIZE, np.uint8), np.zeros(1, np.uint64)
    before = y.copy()
    layout = abi.layout(lowered)
    packed = struct.pack(layout.format, y.ctypes.data, len(y), 5, claim.ctypes.data, record.ctypes.data, 7, 2, 1, 1)
    arguments, scratch = ctypes.create_string_buffer(packed, layout.size), np.zeros(code.scratch_bytes + 64, np.uint8)
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(code.address)
    entry(ctypes.addressof(arguments), 0, 2, scratch.ctypes.data + -scratch.ctypes.data % 64)
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize("level", [0, 3])
def test_no_matrix_of_bits_is_multiplied(level: int) -> None:
    host = HostCpu.detect()
    assert "-gfni" in host.features or not host.is_x86
    for kernel_ in (shifted, reversed_and_shifted):
        assert "gf2p8" not in compile_assembly(kernel_.ir(), host, optimise=level)
