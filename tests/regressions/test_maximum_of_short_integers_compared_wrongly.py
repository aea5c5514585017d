"""On a GPU `max(x, 0) == 0` of short integers was wrong: ptxas 13.0 makes one instruction for two halves of it, with both predicates in one register."""

import re
from typing import Any, TypeVar

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, i8, i16, kernel, thread_index, u8, u16
from kdsl.backend.nvptx import compile_ptx
from kdsl.testing.ptx import assemble

T = TypeVar("T", i8, i16, u8, u16)
SHORT = ["i8", "i16", "u8", "u16"]


@kernel(grid=1, block=32, requires=("len(same) == 5 * len(x)", "len(y) == 5 * len(x)"))
def compared(same: SliceMut[bool], y: SliceMut[T], x: Slice[T]) -> None:
    i = thread_index()
    if i in x:
        a = x[i]
        low, high, chosen = min(a, 5), max(a, 0), a if a > 5 else x.dtype(5)
        pair = max(a, x[0])
        same[5 * i] = high == 0
        same[5 * i + 1] = low != 5
        same[5 * i + 2] = chosen == 5
        same[5 * i + 3] = pair == x[0]
        same[5 * i + 4] = a != high
        y[5 * i] = high
        y[5 * i + 1] = low
        y[5 * i + 2] = chosen
        y[5 * i + 3] = pair
        y[5 * i + 4] = a // high


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
@pytest.mark.parametrize("of", SHORT)
def test_comparison_with_an_operand(device: Any, of: str) -> None:
    bounds = np.iinfo({"i": "int", "u": "uint"}[of[0]] + of[1:])
    x = [v for v in (3, bounds.min, bounds.min + 1, -2, -1, 0, 1, 2, 4, 5, 6, 255, bounds.max) if bounds.min <= v <= bounds.max]
    same, y = device.zeros(5 * len(x), kdsl.dtype(bool)), device.zeros(5 * len(x), kdsl.dtype(bounds.dtype))
    compared(same, y, device.array(np.array(x, bounds.dtype)))
    wanted = [(max(a, 0) == 0, min(a, 5) != 5, max(a, 5) == 5, max(a, x[0]) == x[0], a != max(a, 0)) for a in x]
    assert same.numpy().reshape(-1, 5).tolist() == [list(row) for row in wanted]
    numbers = [(max(a, 0), min(a, 5), max(a, 5), max(a, x[0]), a // max(a, 0) if a > 0 else 0) for a in x]
    assert y.numpy().reshape(-1, 5).tolist() == [list(row) for row in numbers]


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("of", SHORT)
def test_no_maximum_of_16_bits_reaches_ptxas(of: str, level: int) -> None:
    ptx = compile_ptx(compared.ir(T=of), "sm_90", optimise=level)
    assert not re.search(r"\b(min|max)\.[su]16\b", ptx)
    assert len(re.findall(r"\b(?:min|max)\.[su]32\b", ptx)) >= 3
    assemble(ptx, "sm_90")
