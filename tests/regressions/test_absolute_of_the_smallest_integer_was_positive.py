"""On a GPU `abs(x) >= 0` held for the smallest integer: ptxas 13.0 to 13.5 takes the result of `abs.s32` and `abs.s64` for 0 or more, and that of `abs.s16` for
one of 32 bits. Found by the fuzzer at level 0; LLVM writes the comparison with x itself at level 3, but not a comparison of something made from it."""

from typing import Any, TypeVar

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, i8, i16, i32, i64, kernel, thread_index
from kdsl.backend.nvptx import compile_ptx
from kdsl.testing.ptx import assemble

T = TypeVar("T", i8, i16, i32, i64)
TYPES = [np.int8, np.int16, np.int32, np.int64]


@kernel(grid=1, block=32, requires=("len(sign) == len(x)", "len(wide) == len(x)", "len(half) == len(x)"))
def absolute(sign: SliceMut[i32], wide: SliceMut[i64], half: SliceMut[T], x: Slice[T]) -> None:
    i = thread_index()
    if i in x:
        value = abs(x[i])
        sign[i] = 1 if value >= 0 else 2
        wide[i] = i64(value)
        half[i] = value >> 1
        if i64(value) // 3 < 0:
            sign[i] += 10


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_smallest(device: Any, dtype: Any) -> None:
    least = np.iinfo(dtype).min
    x = np.array([least, least + 1, -1, 0, 1, np.iinfo(dtype).max], dtype)
    sign, wide, half = (device.array(np.full(len(x), 77, of)) for of in (np.int32, np.int64, dtype))
    absolute(sign, wide, half, device.array(x))
    values = [int(least), *(abs(int(value)) for value in x[1:])]
    assert wide.numpy().tolist() == values
    assert half.numpy().tolist() == [value >> 1 for value in values]
    assert sign.numpy().tolist() == [12, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("of", [i8, i16, i32, i64])
def test_no_absolute_value_is_left_to_ptxas(of: Any, level: int) -> None:
    ptx = compile_ptx(absolute.ir(T=of), "sm_80", optimise=level)
    assert "abs.s" not in ptx
    assert "max.s" in ptx
    assemble(ptx, "sm_80")
