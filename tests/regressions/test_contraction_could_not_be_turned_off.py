"""Elsewhere no flag kept a product and a sum apart, because each instruction said that it may fuse; before that, nothing fused at all.

What fuses is written in the program (docs/language.md, fusing): the same on every target and level, and `contract=False` leaves explicit `fma` alone.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, mapped, result_of

import kdsl
from kdsl.backend.cpu import HostCpu, compile_assembly
from kdsl.backend.nvptx import compile_ptx
from kdsl.backend.nvptx.layout import SECOND_RUN
from kdsl.lang.types import DType

F32, F64 = kdsl.dtype("f32"), kdsl.dtype("f64")
FORMS: dict[str, int] = {
    "a[i] * b[i] + c[i]": 1,
    "c[i] + a[i] * b[i]": 1,
    "a[i] * b[i] - c[i]": 1,
    "c[i] - a[i] * b[i]": 1,
    "a[i] * b[i] + c[i] * a[i]": 1,
    "(a[i] * b[i]) + c[i]": 1,
    "-(a[i] * b[i]) + c[i]": 0,
    "a[i] * b[i] * c[i] + a[i]": 1,
    "(a[i] + b[i]) * c[i]": 0,
    "a[i] / b[i] + c[i]": 0,
    "product(a[i], b[i]) + c[i]": 0,
    "fma(a[i], b[i], c[i])": 1,
    "kept(a[i], b[i], c[i])": 0,
    "grown(a[i], b[i], c[i])": 2,
    "(a[i] * b[i] if c[i] > 0.0 else b[i]) + c[i]": 0,
    "max(a[i] * b[i], c[i]) + 1.0": 0,
    "a[i] ** 2 + c[i]": 0,
    "a[i] + b[i] - c[i]": 0,
}
"""How many operations of each round once."""


@kdsl.function
def product(x, y):  # type: ignore[no-untyped-def]
    """Never across a call."""
    return x * y


@kdsl.function
def kept(x, y, z):  # type: ignore[no-untyped-def]
    """Never across a name."""
    p = x * y
    return p + z


@kdsl.function
def grown(x, y, z):  # type: ignore[no-untyped-def]
    """`t += a * b` fuses."""
    t = z
    t += x * y
    t -= y * z
    return t


NAMES: dict[str, Any] = {"product": product, "kept": kept, "grown": grown}


def kernel(form: str, of: str, contract: bool) -> Any:
    option = "" if contract else ", contract=False"
    return mapped([form.replace("a[i]", "x[i]")], of, f"x: Slice[{of}], b: Slice[{of}], c: Slice[{of}]", option, **NAMES)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("of", ["f32", "f64"])
def test_ptx_fuses_what_is_written_and_nothing_else(form: str, of: str) -> None:
    for contract in (True, False):
        expected = FORMS[form] if contract or form.startswith("fma") else 0
        for level in (0, 3):
            ptx = compile_ptx(kernel(form, of, contract).ir(), "sm_90", optimise=level)
            runs = 2 if SECOND_RUN in ptx else 1  # what a thread does when a check has failed stands there once more
            assert len(re.findall(rf"fma\.rn\.{of}", ptx)) == runs * expected, level
            assert not re.search(rf"(add|sub|mul)\.{of}", ptx)  # without .rn ptxas may fuse them


@pytest.mark.parametrize("form", FORMS)
def test_the_cpu_fuses_the_same(form: str) -> None:
    for contract in (True, False):
        expected = FORMS[form] if contract or form.startswith("fma") else 0
        for level in (0, 3):
            text = compile_assembly(kernel(form, "f32", contract).ir(), HostCpu("x86-64-v3"), optimise=level)
            assert (len(re.findall(r"vfn?m(add|sub)", text)) > 0) == (expected > 0), level


@DEVICES
@pytest.mark.parametrize("of", [F32, F64], ids=str)
def test_the_bits_show_it(device: Any, of: DType) -> None:
    """Numbers whose product has a tail that one rounding keeps and two lose."""
    tiny = np.finfo(of.numpy).eps
    a = np.array([1 + tiny, 1 - tiny / 2, 3.0, 1 + 2 * tiny], of.numpy)
    b = np.array([1 + tiny, 1 - tiny / 2, 1 / 3, 1 - tiny], of.numpy)
    c = np.array(-(a * b), of.numpy)
    arguments = (a, b, c)
    once = result_of(device, kernel("a[i] * b[i] + c[i]", of.name, True), 4, of, *arguments)
    twice = result_of(device, kernel("a[i] * b[i] + c[i]", of.name, False), 4, of, *arguments)
    by_hand = result_of(device, kernel("fma(a[i], b[i], c[i])", of.name, False), 4, of, *arguments)
    apart = result_of(device, kernel("kept(a[i], b[i], c[i])", of.name, True), 4, of, *arguments)
    assert once.tobytes() == by_hand.tobytes()
    assert twice.tolist() == apart.tolist() == [0.0] * 4
    exact = [float(x) * float(y) + float(z) for x, y, z in zip(*arguments, strict=True)]
    assert (once != 0).all()
    if of is F32:  # f64 holds the exact result of f32 operands
        assert once.tolist() == np.array(exact, np.float32).tolist()
