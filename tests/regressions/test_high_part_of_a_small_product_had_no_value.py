"""On a CPU `u16(multiply_high(i32(s), i32(t)))` of small s and t was anything, and `i16(i64(a) * i64(b) >> 20)` lost its sign: LLVM's code generator for x86
makes `vpmulhw` of them, whose upper 16 bits it then shifts by the rest of the amount."""

import re
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, i16, i32, i64, kernel, multiply_high, thread_idx, thread_index, u8, u16, u64
from kdsl.backend.cpu import HostCpu, compile_assembly


@kernel(grid=1, block=13, requires="len(y) == 13")
def shared(y: SliceMut[u16], s: u8) -> None:
    t = thread_idx.x
    y[t] = u16(multiply_high(i32(s), i32(t))) - u16(5)


@kernel(grid=1, block=64, requires=("len(y) == 6 * len(a)", "len(b) == len(a)"))
def products(y: SliceMut[i16], a: Slice[i16], b: Slice[i16], n: u64) -> None:
    i = thread_index()
    if i in a:
        product = i64(a[i]) * i64(b[i])
        y[i] = i16(multiply_high(i32(a[i]), i32(b[i])))
        y[i + len(a)] = i16(product >> 20)
        y[i + 2 * len(a)] = i16(product // 1048576)
        y[i + 3 * len(a)] = i16(product >> i64(n))
        y[i + 4 * len(a)] = i16((product >> 10) >> 10)
        y[i + 5 * len(a)] = i16(multiply_high(u64(u16(a[i])), u64(u16(b[i])))) - i16(i)


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_values(device: Any) -> None:
    y = device.array(np.full(13, 77, np.uint16))
    shared(y, 250)
    assert y.numpy().tolist() == [65531] * 13
    rng = np.random.default_rng(5)
    a, b = rng.integers(-(2**15), 2**15, (2, 33)).astype(np.int16)
    y = device.array(np.full(6 * 33, 77, np.int16))
    products(y, device.array(a), device.array(b), 40)
    product = a.astype(np.int64) * b
    for found, shift in zip(y.numpy().reshape(6, 33), (32, 20, 20, 40, 20), strict=False):
        np.testing.assert_array_equal(found, (product >> shift).astype(np.int16))
    assert y.numpy()[5 * 33 :].tolist() == [-i for i in range(33)]


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("generation", ["x86-64-v3", "x86-64-v4"])
def test_the_whole_product_is_formed(generation: str, level: int) -> None:
    """In code that need not run here."""
    for kernel_ in (shared, products):
        code = compile_assembly(kernel_.ir(), HostCpu(generation), optimise=level)
        assert "vpmulh" not in code
        assert re.search("vpmul(u?dq|l[dq])|vpmaddwd", code)
