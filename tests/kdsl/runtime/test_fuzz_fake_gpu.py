"""The fuzzer's way to a GPU, on a GPU that is not there: a launch runs the code of the CPU target on what the driver would hand to the kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kdsl.backend.cpu import HostCpu, load
from kdsl.backend.cpu.compile import compile_object
from kdsl.ir.abi import layout
from tests.fuzz.check import Case, prepare
from tests.fuzz.execute import Entry
from tests.fuzz.on_gpu import check_gpu

STRUCTS = """@struct
class P:
    '''Numbers.'''
    a: i8
    '''First.'''
    b: f64
    '''Second.'''
    c: bool
    '''Third.'''

@kernel(grid=(2, 2), block=5)
def k(n: u8, p: P, y: SliceMut[f64], q: P, m: Slice[i16, D2]) -> None:
    y[thread_index()] = p.b * f64(p.a) + (q.b if q.c else f64(n)) + f64(m[thread_idx.x, 0])
"""
PLAIN = "@kernel(grid=3, block=(2, 2))\ndef k(y: SliceMut[i32], a: i64) -> None:\n    y[thread_index()] = i32(a) + i32(block_idx.x)\n"


def as_kernel(case: Case) -> Callable[[int, tuple[int, ...], int], None]:
    """What runs a program with the address of the addresses of its parameters."""
    slots = layout(case.built.kernel)
    code = load(compile_object(case.built.kernel, HostCpu.detect(), optimise=0))

    def run(blocks: int, block: tuple[int, ...], parameters: int) -> None:
        assert block == case.built.kernel.block_dim
        places = (ctypes.c_void_p * len(slots.arguments)).from_address(parameters)
        packed = ctypes.create_string_buffer(slots.size + 64)
        for argument, place in zip(slots.arguments, places, strict=True):
            size = argument.slots[0].size if argument.struct is None else argument.struct.type.size
            assert place is not None
            ctypes.memmove(ctypes.addressof(packed) + argument.offset, place, size)
        scratch = np.zeros(code.scratch_bytes + 1024, np.uint8)
        Entry(code.address)(ctypes.addressof(packed), 0, blocks, scratch.ctypes.data + -scratch.ctypes.data % 1024)

    return run


def test_programs_reach_the_gpu(fake_driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [(number, prepare(source, number)) for number, source in enumerate((STRUCTS, PLAIN))]
    unloaded: list[Any] = []
    monkeypatch.setattr(type(fake_driver), "do_cuModuleUnload", lambda _, module: unloaded.append(module), raising=False)
    for number, (_, case) in enumerate(cases):
        fake_driver.kernels[f"k{number}"] = as_kernel(case)
    assert check_gpu(cases, "cuda:0") == []
    assert len(unloaded) == 2
    assert len(fake_driver.called("cuLaunchKernel")) == 2 * 2 * 2
    fake_driver.kernels["k0"] = lambda *_: None
    found = check_gpu(cases, "cuda:0")
    assert {seed for seed, _ in found} == {0}
    assert all("y[" in what for _, what in found)
