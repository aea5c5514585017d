"""Compiling a shift by an amount that guards say is both positive and negative, which therefore never runs, ended with a ValueError of the compiler's."""

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import Slice, SliceMut, i64, kernel, thread_idx


@kernel(grid=1, block=4, requires=("len(y) == 4", "len(x) == 4"))
def never(y: SliceMut[i64], x: Slice[i64]) -> None:
    n = x[thread_idx.x]
    if n > 5:
        if n < -2:
            y[8 >> n] = 1
            y[8 << n] = 1
        y[thread_idx.x] = n


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_what_never_runs_compiles(device: Any) -> None:
    y = device.zeros(4, kdsl.i64)
    never(y, device.array(np.array([-9, 0, 6, 70])))
    assert y.numpy().tolist() == [0, 0, 6, 70]
