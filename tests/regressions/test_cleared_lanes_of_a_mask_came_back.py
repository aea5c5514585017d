"""With AVX-512 threads beyond a block of 8 or 16 came back in the second trip of a loop, and their accesses were checked and made.

LLVM clears lanes of a mask by moving it from register to register, takes the move for a copy, and drops it where it spills (random program 1000000016447).
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from from_text import DEVICES

from kdsl import D2, BoundsError, Slice, SliceMut, f16, i64, kernel, thread_idx, thread_index, u32, u64, warp_sum
from kdsl.backend.cpu import HostCpu
from kdsl.backend.cpu.cleared_masks import without_cleared_masks
from kdsl.backend.cpu.compile import compile_ir


@kernel(grid=2, block=(2, 4), requires=("m0.shape[1] == 3",))
def in_a_loop(oi: SliceMut[i64], y0: SliceMut[u64], x1: Slice[f16], m0: Slice[f16, D2], s0: u32) -> None:
    i = thread_index()
    t = thread_idx.x
    n3 = 0
    n3 += 1
    for _ in range(m0.shape[1], 1, -1):
        oi[i * 4] = t
        if s0:
            pass
        elif x1[n3 - 2] or t:
            continue
    warp_sum(1)
    y0[i] = u64(x1[abs(t)])


def run(device: Any) -> None:
    in_a_loop(
        device.array(np.zeros(61, np.int64)),
        device.array(np.zeros(16, np.uint64)),
        device.array(np.ones(2, np.float16)),
        device.array(np.zeros((2, 3), np.float16)),
        0,
    )
    device.synchronize()


@DEVICES
def test_block_of_eight(device: Any) -> None:
    """The first array ends where the threads do; what fails is another check."""
    with pytest.raises(BoundsError, match="read outside array x1: index -1"):
        run(device)


def test_no_lanes_are_cleared_by_a_shuffle() -> None:
    text = compile_ir(in_a_loop.ir(), HostCpu("x86-64-v4"))
    assert "and <32 x i1> %cleared." in text
    for line in text.splitlines():
        assert not ("= shufflevector <32 x i1>" in line and "i1 false" in line), line


FORMS = {
    "lanes stay": ("<4 x i1> %m, <4 x i1> zeroinitializer, <4 x i32> <i32 0, i32 1, i32 4, i32 7>", "<i1 true, i1 true, i1 false, i1 false>"),
    "of fewer": (
        "<4 x i1> %m, <4 x i1> zeroinitializer, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 4, i32 4, i32 4>",
        "<i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false>",
    ),
    "anything": (
        "<4 x i1> %m, <4 x i1> <i1 poison, i1 poison, i1 false, i1 poison>, <4 x i32> <i32 0, i32 poison, i32 6, i32 3>",
        "<i1 true, i1 true, i1 false, i1 true>",
    ),
    "lanes move": ("<4 x i1> %m, <4 x i1> zeroinitializer, <4 x i32> <i32 1, i32 1, i32 4, i32 7>", None),
    "lanes are set": ("<4 x i1> %m, <4 x i1> splat (i1 true), <4 x i32> <i32 0, i32 1, i32 4, i32 7>", None),
    "nothing is cleared": ("<4 x i1> %m, <4 x i1> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 poison>", None),
}  # fmt: skip
"""Operands of a shuffle and the constant of the `and` that takes its place."""


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    operands, constant = FORMS[form]
    width = operands.rpartition("x i32> ")[0].rpartition("<")[2].strip()
    text = f"define <{width} x i1> @f(<4 x i1> %m) {{\n  %r = shufflevector {operands}\n  ret <{width} x i1> %r\n}}\n"
    llvm.initialize_all_targets()
    parsed = llvm.parse_assembly(text)
    mended = without_cleared_masks(parsed)
    if constant is None:
        assert mended is parsed
    else:
        assert f"%r = and <{width} x i1> %cleared." in str(mended)
        assert constant in str(mended)
