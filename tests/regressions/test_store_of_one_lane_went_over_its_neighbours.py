"""With AVX-512 a store of the only thread of a group, of a number that was shortened for it, wrote all bytes of the long number.

LLVM's code generator makes a scalar store of a masked one whose mask names one lane, and forgets that the masked one shortens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, INTEGERS, kernel_of

from kdsl import DType

LINES = """i = thread_index()
t, p = i64(0), i64(x[i])
a = local_array(70, {of})
if p % 4 != 0:
    p = (p + 1) % 97
a[(i % 7 * 4 + 2) % 70] = {of}((i64(a[(i % 7 * 4 + 2) % 70]) + 2) % 100)
for k in unroll(3):
    a[i * 4 % 70] = {of}(p % 50 + 5)
    t = (t * 3 + i64(a[(p * 4 + 2) % 70])) % 1000003
    p = (p + 1) % 97
b = local_array(70, i16)
p = (p * 5 + i64(b[(p * 4 + 5) % 70]) + 1) % 97
y[i] = t * 100 + p
"""


def by_python(i: int, p: int) -> int:
    """What the thread `i` writes, whose element of x is `p`."""
    t, a = 0, [0] * 70
    if p % 4 != 0:
        p = (p + 1) % 97
    a[(i % 7 * 4 + 2) % 70] = 2
    for _ in range(3):
        a[i * 4 % 70] = p % 50 + 5
        t = (t * 3 + a[(p * 4 + 2) % 70]) % 1000003
        p = (p + 1) % 97
    return t * 100 + (p * 5 + 1) % 97


@DEVICES
@pytest.mark.parametrize("of", [of for of in INTEGERS if of.bits < 64], ids=str)
@pytest.mark.parametrize("block", [1, 3, 5, 9, 17, 33])
def test_what_lies_behind_is_left_alone(device: Any, of: DType, block: int) -> None:
    kernel = kernel_of("y: SliceMut[i64], x: Slice[i32]", LINES.format(of=of), f"grid=4, block={block}")
    x = (np.arange(4 * block) % 3 * (3 - np.arange(4 * block) % 4)).astype(np.int32)
    y = device.array(np.zeros(4 * block, np.int64))
    kernel(y, device.array(x))
    assert y.numpy().tolist() == [by_python(i, int(p)) for i, p in enumerate(x)]
