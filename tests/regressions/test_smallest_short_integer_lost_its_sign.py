"""On a GPU -x of the smallest i16 was 32768 when it was widened next: ptxas takes the result of `neg.s16` for sign-extended."""

from typing import Any, TypeVar

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, f32, i8, i16, i64, kernel, thread_idx

T = TypeVar("T", i8, i16)


@kernel(grid=1, block=32, requires=("len(y) == 192",))
def negated(y: SliceMut[i64], x: Slice[T], s: f32) -> None:
    t = thread_idx.x
    zero = x.dtype(0)
    converted = x.dtype(s)
    y[t] = i64(-converted)
    y[t + 32] = i64(abs(x[0]))
    y[t + 64] = i64(zero - x[0])
    y[t + 96] = i64(x[0] * x.dtype(-1))
    y[t + 128] = i64(~x[0] + x.dtype(1))
    y[t + 160] = i64(x[0] // x.dtype(-1))


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
@pytest.mark.parametrize("of", [np.int8, np.int16])
def test_it_wraps_to_itself(device: Any, of: Any) -> None:
    smallest = int(np.iinfo(of).min)
    y = device.zeros(192, kdsl.dtype(np.int64))
    negated(y, device.array(np.array([smallest], of)), s=-1e9)
    np.testing.assert_array_equal(y.numpy(), smallest)


@pytest.mark.parametrize("of", ["i8", "i16"])
def test_no_negation_of_16_bits_reaches_ptxas(of: str) -> None:
    assert "neg.s16" not in negated.ptx("sm_90", T=of)
