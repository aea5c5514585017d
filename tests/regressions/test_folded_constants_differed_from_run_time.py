"""Elsewhere `(-5) % 3` was one number when the compiler computed it and another when the device did.

Every operator on operands that the compiler knows gives the bits that it gives on operands read from memory.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, INTEGERS, kernel_of, mapped, result_of

import kdsl
from kdsl.lang.types import DType

BOOL, I8, I16, I64, F16, BF16, F32, F64 = (kdsl.dtype(name) for name in ("bool", "i8", "i16", "i64", "f16", "bf16", "f32", "f64"))


def compare(device: Any, of: DType, result: DType, values: list[str], *forms: str) -> None:
    """For every pair of values (as text): the forms with `{a}` and `{b}` written out, and with both read from memory."""
    pairs = list(itertools.product(values, repeat=2 if any("{b}" in form for form in forms) else 1))
    known = [form.format(a=f"{of}({pair[0]})", b=f"{of}({pair[-1]})") for form in forms for pair in pairs]
    body = "\n".join(f"y[{number}] = {text}" for number, text in enumerate(known))
    folded = kernel_of(f"y: SliceMut[{result}]", body, "grid=1, block=1, contract=False")
    computed = mapped(
        [form.format(a="x[i]", b="z[i]") for form in forms], result.name, f"x: Slice[{of}], z: Slice[{of}]", ", contract=False"
    )
    x, z = (np.array([of(float(pair[k].strip("'")) if of.is_float else int(pair[k])) for pair in pairs], of.numpy) for k in (0, -1))
    early, late = result_of(device, folded, len(known), result), result_of(device, computed, len(known), result, x, z)
    if result.is_float:
        early, late = (np.where(np.isnan(r), np.array(np.nan, r.dtype), r) for r in (early, late))  # the sign of a NaN is unspecified
    words = f"u{result.itemsize}"
    different = np.flatnonzero(early.view(words) != late.view(words))
    assert not len(different), [(known[n], early[n], late[n]) for n in different[:5]]


@DEVICES
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_integers(device: Any, of: DType) -> None:
    values = [str(v) for v in (of.minimum, -5, 3, of.maximum) if of.minimum <= v]
    compare(
        device,
        of,
        of,
        values,
        *(f"{{a}} {op} {{b}}" for op in ("+", "-", "*", "&", "|", "^")),
        "min({a}, {b})",
        "max({a}, {b})",
        "{a} - {b} * {a}",
    )
    compare(device, of, of, [v for v in values if v != "0"], "{a} // {b}", "{a} % {b}", "multiply_high({a}, {b})")
    compare(
        device,
        of,
        of,
        values,
        "-{a}",
        "~{a}",
        "abs({a})",
        "+{a}",
        "{a} ** 3",
        "popcount({a})",
        "leading_zeros({a})",
        "{a} if {a} > 3 else 1",
    )


@DEVICES
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_shifts(device: Any, of: DType) -> None:
    """By amounts that a literal may have."""
    values = (of.minimum, of.maximum, 1)
    compare(device, of, of, ["0", "1", str(of.bits - 1)], *(f"{of}({v}) {op} {{a}}" for v in values for op in ("<<", ">>")))


@DEVICES
@pytest.mark.parametrize("of", [I8, I64, F16, BF16, F32, F64], ids=str)
def test_comparisons_and_truth(device: Any, of: DType) -> None:
    values = ["'nan'", "'-inf'", "-0.0", "0.0", "1e-40", "2.5"] if of.is_float else [str(v) for v in (of.minimum, -1, 0, of.maximum)]
    compare(
        device,
        of,
        BOOL,
        values,
        *(f"{{a}} {op} {{b}}" for op in ("<", "<=", "==", "!=", ">", ">=")),
        "bool({a} and {b})",
        "bool({a} or {b})",
        "{a} < {b} <= {a}",
    )
    compare(device, of, BOOL, values, "bool({a})", "not {a}", "{a} != {a}", "{a} == {a}")


@DEVICES
@pytest.mark.parametrize("of", [F16, BF16, F32, F64], ids=str)
def test_floats(device: Any, of: DType) -> None:
    values = ["'inf'", "-1.5", "-0.0", "1e-5", "'nan'"]
    compare(
        device,
        of,
        of,
        values,
        *(f"{{a}} {op} {{b}}" for op in "+-*/"),
        *(f"{name}({{a}}, {{b}})" for name in ("min", "max", "fmin", "fmax")),
    )
    compare(device, of, of, ["0.1", "1e-5", "65000.0"], "fma({a}, {b}, {a})", "{a} if {a} < {b} else {b}")
    compare(device, of, of, ["-1.5", "0.1"], "{a} // {b}", "{a} % {b}")
    compare(device, of, of, values, "-{a}", "abs({a})", "sqrt({a})", "floor({a})", "rint({a} * {a})", "{a} ** 3", "{a} ** -2", "trunc({a})")


@DEVICES
@pytest.mark.parametrize("of", [I8, I16, I64, F16, F32, F64], ids=str)
def test_conversions(device: Any, of: DType) -> None:
    if of.is_float:
        values = [
            "'nan'",
            "'-inf'",
            "-300.7",
            "-1.5",
            "-0.0",
            "0.99",
            "127.5",
            "255.5",
            "65504.0" if of is F16 else "65520.0",
            "3e4" if of is F16 else "1e19",
        ]
    else:
        values = [str(v) for v in (of.minimum, -3, -1, 0, 100, of.maximum)]
    for target in ("i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "bool"):
        compare(device, of, kdsl.dtype(target), values, f"{target}({{a}})")
