"""Elsewhere the kind or the mask of a shuffle had to be an immediate and was one only after optimisation; 64-bit and half values lost a part on the way.

Values are tested in tests/kdsl/intrinsics/test_warp.py; here is what it takes to be compiled, at every level, for every type, target and width.
"""

from __future__ import annotations

import re

import pytest
from from_text import kernel_of

import kdsl
from kdsl.backend.cpu import HostCpu, compile_object
from kdsl.backend.nvptx import compile_ptx
from kdsl.lang.types import DTYPES
from kdsl.testing.ptx import assemble

_BODY = """v = x[thread_index()]
a = shuffle(v, n, width={width})
b = shuffle_xor(v, 1, {width})
c = shuffle_up(v, n, width={width})
d = shuffle_down(v, amount, width={width})
y[thread_index()] = a
y[thread_index() + 32] = b
y[thread_index() + 64] = c
y[thread_index() + 96] = d"""


@pytest.mark.parametrize("of", [of for of in DTYPES if of != "bool"])
@pytest.mark.parametrize("level", [0, 1, 3])
def test_every_level(of: str, level: int) -> None:
    kernel = kernel_of(f"y: SliceMut[{of}], x: Slice[{of}], n: i32, amount: i64", _BODY.format(width=16), "grid=1, block=32")
    ptx = compile_ptx(kernel.ir(), "sm_80", optimise=level)
    for mode in ("idx", "bfly", "up", "down"):
        found = re.findall(rf"shfl\.sync\.{mode}\.b32", ptx)
        assert len(found) == (2 if DTYPES[of].bits == 64 else 1), mode
    assemble(ptx, "sm_80")
    assert compile_object(kernel.ir(), HostCpu.detect(), optimise=level).bytes


@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120"])
def test_every_width_and_target(width: int, target: str) -> None:
    ptx = kernel_of("y: SliceMut[f32], x: Slice[f32], n: i32, amount: i64", _BODY.format(width=width), "grid=1, block=96").ptx(target)
    assert ptx.count("shfl.sync") == 4


@pytest.mark.parametrize("width", ["0", "1", "3", "24", "64", "-8", "n", "2.0", "True", "i64(x[0])"])
def test_a_width_that_there_is_not(width: str) -> None:
    with pytest.raises(kdsl.KernelError, match=r"the width of shuffle\(\) is one of 2, 4, 8, 16 and 32"):
        kernel_of("y: SliceMut[f32], x: Slice[f32], n: i32, amount: i64", _BODY.format(width=width), "grid=1, block=32").ir()


@pytest.mark.parametrize(
    "call",
    [
        "shuffle(x[0], 0.5)",
        "shuffle(x[0], True)",
        "shuffle(x, 0)",
        "shuffle_xor(x[0])",
        "shuffle((x[0], x[1]), 1)",
        "shuffle(x[0], 1, 8, 9, 9)",
        "shuffle(x[0], mask=3)",
    ],
)
def test_arguments_that_make_no_sense(call: str) -> None:
    with pytest.raises(kdsl.KernelError):
        kernel_of("y: SliceMut[f32], x: Slice[f32]", f"y[0] = f32({call})", "grid=1, block=32").ir()


@pytest.mark.parametrize(
    "body",
    [
        "if lane_index() < 16:\n    y[0] = {call}",
        "y[0] = {call} if x[0] > f32(thread_idx.x) else 0.0",
        "for k in range(lane_index()):\n    y[0] = {call}",
        "while x[lane_index()] > 0:\n    y[0] = {call}",
        "y[0] = 1.0 if x[lane_index()] > 0 and {call} > 0 else 2.0",
        "if x[lane_index()] > 0:\n    for k in unroll(2):\n        y[0] = {call}",
    ],
)
@pytest.mark.parametrize("call", ["shuffle(x[0], 1)", "warp_sum(x[0])", "block_sum(x[0])"])
def test_some_lanes_only(body: str, call: str) -> None:
    """Lanes that are elsewhere cannot answer. (With a mask of those that take part it is possible.)"""
    with pytest.raises(kdsl.KernelError, match="together"):
        kernel_of("y: SliceMut[f32], x: Slice[f32]", body.format(call=call), "grid=1, block=32").ir()
