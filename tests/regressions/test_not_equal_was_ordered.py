"""Elsewhere `!=` of floats was an ordered comparison, false for a NaN, and `x != x` was folded to False.

With a NaN on either side only `!=` is true; `not (a < b)` is not `a >= b`; zeros of both signs are equal. On numbers from memory, on parameters and on what the
compiler knows, as values and as conditions.
"""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from from_text import DEVICES, column, mapped, result_of

from kdsl import f32, function, i32

OPERATORS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
SPECIAL = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.0, -1.0, 1e-45]
HOST = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


@DEVICES
@pytest.mark.parametrize("of", list(HOST))
def test_every_pair(device: Any, of: str) -> None:
    a, b = (v.reshape(-1).astype(HOST[of]) for v in np.meshgrid(SPECIAL, SPECIAL))
    forms = [
        form for op in OPERATORS for form in (f"i32(x[i] {op} b[i])", f"1 if x[i] {op} b[i] else 0", f"1 if not (x[i] {op} b[i]) else 0")
    ]
    y = result_of(device, mapped(forms, "i32", f"x: Slice[{of}], b: Slice[{of}]"), len(forms) * len(a), i32, a, b)
    expected = []
    for op in OPERATORS.values():
        holds = op(a.astype(np.float64), b.astype(np.float64)).astype(np.int32)
        expected += [holds, holds, 1 - holds]
    np.testing.assert_array_equal(y, np.concatenate(expected))


@DEVICES
@pytest.mark.parametrize("of", ["f32", "f64"])
def test_a_number_beside_itself(device: Any, of: str) -> None:
    forms = [f"i32(x[i] {op} x[i])" for op in OPERATORS] + [
        "1 if x[i] != x[i] else 0",
        "1 if x[i] - x[i] == 0 else 0",
        "1 if min(x[i], 1.0) != min(x[i], 1.0) else 0",
    ]
    x = np.array(SPECIAL, HOST[of])
    y = result_of(device, mapped(forms, "i32", f"x: Slice[{of}]"), len(forms) * len(x), i32, x).reshape(len(forms), -1)
    nan = np.isnan(x)
    for row, op in zip(y, OPERATORS.values(), strict=False):
        np.testing.assert_array_equal(row, op(x, x))
    np.testing.assert_array_equal(y[6], nan)
    np.testing.assert_array_equal(y[7], np.isfinite(x))
    np.testing.assert_array_equal(y[8], nan)


@DEVICES
def test_what_the_compiler_knows_and_what_it_is_given(device: Any) -> None:
    nan = 'f32("nan")'
    known = [f"i32({nan} {op} {other})" for op in OPERATORS for other in (nan, "1.0", 'f32("inf")')]
    given = [f"i32(s {op} {other})" for op in OPERATORS for other in ("s", "1.0", nan)]
    expected = [int(op == "!=") for op in OPERATORS for _ in range(3)]
    np.testing.assert_array_equal(result_of(device, column(known, "i32", "s: f32"), 18, i32, float("nan")), expected)
    np.testing.assert_array_equal(result_of(device, column(given, "i32", "s: f32"), 18, i32, float("nan")), expected)


@function
def counted(v: f32) -> i32:
    n = i32(0)
    while not v <= 3.0 and n < 5:
        v -= 1.0
        n += 1
    return n


@DEVICES
def test_loops_and_guards_take_the_same_side(device: Any) -> None:
    """A `while` on a comparison, an `and` of two, a chain, and a clamp that must not lose a NaN."""
    forms = [
        "counted(x[i])",
        "1 if 0.0 <= x[i] < 2.0 else 0",
        "1 if x[i] >= 0.0 or x[i] < 0.0 else 0",
        "1 if not x[i] < 2.0 and not x[i] >= 2.0 else 0",
    ]
    x = np.array([*SPECIAL, 5.5], np.float32)
    y = result_of(device, mapped(forms, "i32", "x: Slice[f32]", counted=counted), 4 * len(x), i32, x).reshape(4, -1)
    nan = np.isnan(x)
    np.testing.assert_array_equal(y[0], np.where(nan | (x == np.inf), 5, np.where(x > 3, 3, 0)))
    np.testing.assert_array_equal(y[1], (x >= 0) & (x < 2))
    np.testing.assert_array_equal(y[2], ~nan)
    np.testing.assert_array_equal(y[3], nan)
