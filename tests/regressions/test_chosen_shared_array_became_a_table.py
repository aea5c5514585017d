"""Elsewhere a choice among four shared arrays by a number became a table of their addresses in global memory, which ptxas refuses; an address was computed
in one branch and used in the other; or two kernels of a module called their arrays by one name.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, result_of

from kdsl import f32
from kdsl.backend.nvptx import compile_module
from kdsl.testing.ptx import assemble

STAGES = """
a, b, c, d = shared_array(32, f32), shared_array(32, f32), shared_array(32, f32), shared_array(32, f32)
t = thread_idx.x
a[t], b[t], c[t], d[t] = f32(t), f32(t) + 100, f32(t) + 200, f32(t) + 300
sync_threads()
for s in range(n):
    stage = s % 4
    if stage == 0:
        v = a[(t + s) % 32]
    elif stage == 1:
        v = b[(t + s) % 32]
    elif stage == 2:
        v = c[(t + s) % 32]
    else:
        v = d[(t + s) % 32]
    y[32 * s + t] = v
""".strip()
BRANCHES = """
t = thread_idx.x
if n > 3:
    a = shared_array(64, f32)
    a[t] = f32(t)
    sync_threads()
    y[t] = a[63 - t]
else:
    b = shared_array(64, f32)
    b[t] = f32(2 * t)
    sync_threads()
    y[t] = b[63 - t]
""".strip()
PARAMETERS = "y: SliceMut[f32], n: i32"


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize(("body", "block"), [(STAGES, 32), (BRANCHES, 64)])
def test_it_assembles(target: str, body: str, block: int) -> None:
    ptx = kernel_of(PARAMETERS, body, f"grid=1, block={block}").ptx(target)
    assert "switch" not in ptx
    assemble(ptx, target)


@DEVICES
def test_each_stage(device: Any) -> None:
    y = result_of(device, kernel_of(PARAMETERS, STAGES), 32 * 7, f32, 7).reshape(7, 32)
    s, t = np.ogrid[:7, :32]
    np.testing.assert_array_equal(y, (t + s) % 32 + 100 * (s % 4))


@DEVICES
def test_each_branch(device: Any) -> None:
    for n, factor in ((5, 1), (2, 2)):
        y = result_of(device, kernel_of(PARAMETERS, BRANCHES, "grid=1, block=64"), 64, f32, n)
        np.testing.assert_array_equal(y, factor * (63 - np.arange(64)))


def test_two_kernels_with_shared_arrays_in_one_module() -> None:
    kernels = [kernel_of(PARAMETERS, body, f"grid=1, block={block}").ir() for body, block in ((STAGES, 32), (BRANCHES, 64), (STAGES, 32))]
    ptx = compile_module(kernels, "sm_90")
    assert ptx.count(".entry") == 3
    assemble(ptx, "sm_90")
