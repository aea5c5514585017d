"""On a GPU `y[i] = u32(double_bits(x))` stored the number x as an integer: ptxas 13.0 converts where a float's register is stored narrower than it is."""

import re
from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, double_bits, f32, f64, float_bits, kernel, thread_index, u8, u16, u32
from kdsl.backend.nvptx import compile_ptx
from kdsl.testing.ptx import assemble

NUMBERS = [3.0, 1.1, -2.5, 0.1, 1e10, -0.0, 5e-324, 7.25]


@kernel(
    grid=1, block=32, requires=("len(words) == 2 * len(x)", "len(halves) == 2 * len(x)", "len(bytes) == 2 * len(x)", "len(x) == len(y)")
)
def stored(words: SliceMut[u32], halves: SliceMut[u16], bytes: SliceMut[u8], x: Slice[f64], y: Slice[f32]) -> None:
    i = thread_index()
    if i in x:
        wide, narrow = x[i] + x[0], y[i] * y[0]
        words[2 * i] = u32(double_bits(wide))
        words[2 * i + 1] = u32(double_bits(x[i] if x[i] > 0 else 1.5))
        halves[2 * i] = u16(double_bits(wide))
        halves[2 * i + 1] = u16(float_bits(narrow))
        bytes[2 * i] = u8(double_bits(f64(narrow)))
        bytes[2 * i + 1] = u8(float_bits(narrow))


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_bits_are_cut(device: Any) -> None:
    x = np.array(NUMBERS)
    y = x.astype(np.float32)
    found = [device.zeros(2 * x.size, of) for of in (kdsl.u32, kdsl.u16, kdsl.u8)]
    stored(*found, device.array(x), device.array(y))
    wide, narrow = (x + x[0]).view(np.uint64), (y * y[0]).view(np.uint32)
    chosen, widened = np.where(x > 0, x, 1.5).view(np.uint64), (y * y[0]).astype(np.float64).view(np.uint64)
    for array, of, pair in zip(found, (np.uint32, np.uint16, np.uint8), ((wide, chosen), (wide, narrow), (widened, narrow)), strict=True):
        np.testing.assert_array_equal(array.numpy().reshape(-1, 2), np.stack([bits.astype(of) for bits in pair], axis=1))


@pytest.mark.parametrize("level", [0, 3])
def test_no_store_cuts_the_register_of_a_float(level: int) -> None:
    ptx = compile_ptx(stored.ir(), "sm_90", optimise=level)
    entry = ptx[ptx.index(".entry") :].split("\n}\n")[0]
    floats = set(re.findall(r"\b(?:add|mul|selp|cvt)[\w.]*\.f(?:32|64)(?:\.f32)?\s+(%\w+),", entry))
    cut = set(re.findall(r"\bst\.global\.b(?:8|16|32)\s+\[[^]]*\], (%\w+);", entry))
    assert floats
    assert not floats & cut
    assemble(ptx, "sm_90")
