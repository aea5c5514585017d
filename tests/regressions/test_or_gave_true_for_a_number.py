"""`f32(a or 1.0)` was 1 for every `a` but 0, where Python gives `a`: `and` and `or` of numbers had a bool as value, and a hint advised that conversion."""

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, column, kernel_of, result_of

from kdsl import KernelError, f32, i32

NUMBERS = "a: f32, b: f32, n: i32, f: bool, g: bool"


@pytest.mark.parametrize(
    ("expression", "wrong", "hint"),
    [
        ("f32(a or 1.0)", "a or 1.0", "write `a if a != 0 else 1.0`, or bool(a or 1.0)"),
        ("f32(a and b)", "a and b", "write `b if a != 0 else a`, or bool(a and b)"),
        ("a and b", "a and b", "write `b if a != 0 else a`, or bool(a and b)"),
        ("f32(1 if (a and b) == b else 0)", "a and b", "write `b if a != 0 else a`"),
        ("f32(f and n)", "f and n", "write `n if f else 0`"),
        ("f32(f or n)", "f or n", "write `1 if f else n`"),
        ("f32(f and 2)", "f and 2", "write `2 if f else 0`"),
        ("f32(f and (n or g))", "n or g", "write `n if n != 0 else g`"),
        ("f32(f or a > b or n)", "f or a > b or n", "such as `a if a != 0 else b`"),
        ("(a if f else b) or 1.0", "(a if f else b) or 1.0", "write `(a if f else b) if (a if f else b) != 0 else 1.0`"),
    ],
)
def test_a_value_of_numbers_is_refused(expression: str, wrong: str, hint: str) -> None:
    kernel = kernel_of(f"y: SliceMut[f32], {NUMBERS}", f"y[0] = {expression}", "grid=1, block=1")
    with pytest.raises(KernelError) as refused:
        kernel.ir()
    first, line, caret, *rest = str(refused.value).splitlines()
    assert first.endswith("is no bool")
    assert ":3:" in first
    assert line[caret.index("^") : caret.rindex("^") + 1] == wrong
    assert hint in "".join(rest)


@pytest.mark.parametrize("statement", ["flag = a or b\nif flag:\n    y[0] = 1.0", "flag: bool = n and f\ny[0] = f32(flag)"])
def test_a_name_of_numbers_is_refused(statement: str) -> None:
    with pytest.raises(KernelError, match="is one of its operands"):
        kernel_of(f"y: SliceMut[f32], {NUMBERS}", statement, "grid=1, block=1").ir()


@DEVICES
def test_numbers_count_where_only_the_truth_is_asked_for(device: Any) -> None:
    body = (
        "if a or n:\n    y[0] = 1\nelse:\n    y[0] = 2\n"
        "y[1] = 1 if a and n else 2\n"
        "y[2] = i32(not (a and (n or b)))\n"
        "y[3] = i32(bool(n and a))\n"
        "k = i32(0)\nwhile n - k and k < 9 and (f or n):\n    k += 1\ny[4] = k\n"
        "assert n or a, 'neither'\n"
        "y[5] = i32(f and n != 0 and 0 < b < 5 or g)"
    )
    kernel = kernel_of(f"y: SliceMut[i32], {NUMBERS}", body, "grid=1, block=1")
    for a, n, f in ((0.0, 3, True), (2.0, 0, False), (float("nan"), 4, True)):
        b, g = 1.5, False
        expected = [
            1 if a or n else 2,
            1 if a and n else 2,
            int(not (a and (n or b))),
            bool(n and a),
            n,
            (f and n != 0 and 0 < b < 5) or g,
        ]
        np.testing.assert_array_equal(result_of(device, kernel, 6, i32, a, b, n, f, g), expected)


KNOWN = [
    "2.5 and a",
    "0.0 and a",
    "2.5 or a",
    "0 or a",
    "0 or 0.0 or a",
    "WIDTH or 4",
    "NOTHING or 4",
    "WIDTH and 3 and a",
    "True and a",
    "False or a",
]


@DEVICES
def test_a_known_operand_decides(device: Any) -> None:
    kernel = column(KNOWN, "f32", "a: f32", WIDTH=7, NOTHING=0)
    expected = [eval(expression, {"WIDTH": 7, "NOTHING": 0, "a": 1.25}) for expression in KNOWN]
    np.testing.assert_array_equal(result_of(device, kernel, len(KNOWN), f32, 1.25), expected)
