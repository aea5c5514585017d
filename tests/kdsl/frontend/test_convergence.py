"""Control flow around barriers and exchanges that is allowed, because all threads (or lanes) agree on it or have returned."""

from __future__ import annotations

import pytest
from text import kernel_of, ops

from kdsl.ir import nodes

PARAMETERS = "y: SliceMut[f32], index: Slice[i32], n: i32"


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(n):\n    sync_threads()",
        "if n > 3 and block_idx.x == 0:\n    sync_threads()",
        "if thread_index() >= len(y):\n    return\nsync_threads()",
        "for i in range(n):\n    if y[i] > 3:\n        break\n    sync_threads()",
        "for i in range(4):\n    if thread_idx.x == i:\n        y[i] = 0\n    sync_threads()",
        "for i in range(4):\n    if thread_idx.x == i:\n        return\n    sync_threads()",
        "s = shared_array(4, i32)\nwhile s[0] < 5:\n    sync_threads()",
        "j = 0\nwhile True:\n    j += 1\n    sync_threads()\n    if j > n:\n        break",
        "while thread_idx.x > 5 and n > 3:\n    break\nsync_threads()",
        "for i in unroll(3):\n    if i == 1:\n        continue\n    sync_threads()",
    ],
)
def test_barrier(body: str) -> None:
    assert ops(kernel_of(body, PARAMETERS, "grid=1, block=64"), nodes.Barrier)


@pytest.mark.parametrize(
    "body",
    [
        "if warp_index() == 1:\n    y[0] = warp_sum(y[lane_index()])",
        "row = row_index()\nif row >= n:\n    return\ny[row] = warp_max(y[row])",
        "if warp_any(y[thread_idx.x] > 0):\n    y[0] = warp_sum(1.0)",
        "if thread_index() >= len(y):\n    return\ny[0] = warp_sum(1.0)",
        "for i in range(n):\n    y[i] = warp_sum(y[thread_idx.x])",
    ],
)
def test_exchange(body: str) -> None:
    assert ops(kernel_of(body, PARAMETERS, "grid=1, block=64"), nodes.Exchange)
