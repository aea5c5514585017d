"""A table read at an index far outside, which its check keeps from happening, could not be linked: the offset did not fit the address.

LLVM folds known offsets into addresses, however far below zero they are (random program 1000000018206).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES

from kdsl import BoundsError, SliceMut, constant_array, kernel, local_array, thread_idx, thread_index, u8, u8x16, unroll

TABLE = constant_array([3, 0], u8)


@kernel(grid=1, block=33)
def far(y: SliceMut[u8]) -> None:
    i = thread_index()
    t = thread_idx.x
    v = t << 31
    taken = local_array(3, u8x16)
    for q in unroll(3):
        taken[q] = u8x16(v, 1, t, v, 1, TABLE[v], t, i, v, t, t, v, t, v, t, v)
    y[i] = taken[t % 3][5]


def run(device: Any) -> np.ndarray:
    y = device.zeros(33, u8)
    far(y)
    return y.numpy()


@DEVICES
def test_check_is_reported(device: Any) -> None:
    with pytest.raises(BoundsError, match="read outside array TABLE"):
        run(device)
