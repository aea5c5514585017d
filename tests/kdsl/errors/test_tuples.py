"""Tuples where something else is wanted, of other lengths, and what they do not do."""

from __future__ import annotations

from typing import Any

import pytest
from refusal import refused
from text import define

from kdsl import f32, function, i32


@function
def first(pair: tuple[f32, i32]) -> f32:
    return pair[0]


@function
def twice(x: f32) -> tuple[f32, f32]:
    return x, x, x


@function
def any_length(items: tuple[f32, ...]) -> f32:
    return items[0]


def kernel_of(body: str) -> Any:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"@kernel(grid=1, block=32)\ndef tested(y: SliceMut[f32], n: i32) -> None:\n{lines}"
    return define(text, first=first, twice=twice, any_length=any_length)["tested"]


CASES = [
    ("if (1, 2) == 1:\n    pass", ("a tuple of 2 and the literal 1 cannot be compared",), "(1, 2) == 1", "compare two tuples"),
    ("if (n, y[0]) < (1, 2, (3, 4)) and (n, 1) > (n, (1, 2)):\n    pass", ("the literal 1 and a tuple of 2",), "(n, 1) > (n, (1, 2))", "items"),
    ("if (n, True) == (n, 1):\n    pass", ("`==` of a bool and a number",), "(n, True) == (n, 1)", "write 1 and 0"),
    ("if (n, y[0]) == (y[0], n):\n    pass", ("`==` of an i32 and an f32",), "(n, y[0]) == (y[0], n)", "f32(n)"),
    ("if y[0] in (1, (2, 3)):\n    pass", ("f32 and a tuple of 2 cannot be compared",), "y[0] in (1, (2, 3))", "compare two tuples"),
    ("if (1, n):\n    pass", ("a tuple of 2 is neither true nor false",), "(1, n)", "compare something"),
    ("y[0] = (1, 2)", ("an element of `y` must be a number, not a tuple of 2",), "(1, 2)", "items one by one"),
    ("a = (1, 2) + (3, 4)", ("an operand of `+` must be a number, not a tuple of 2",), "(1, 2)", "items one by one"),
    ("a = (1.0, n)\ny[0] = a[n]", ("a tuple is indexed by a number that the compiler knows",), "n", "local_array"),
    ("a = (1.0, n)\ny[0] = a[2]", ("index 2 of a tuple of 2",), "2", "0 to 1"),
    ("a = (1.0, n)\ny[0] = a[-3]", ("index -3 of a tuple of 2",), "-3", "0 to 1"),
    ("a = (1.0, n)\na[0] = 2.0", ("a tuple cannot be changed",), "a[0]", "elements of arrays only"),
    ("a, b = 1, 2, 3", ("3 values cannot be assigned to 2 names",), "1, 2, 3", "must agree"),
    ("a, b = n", ("i32 cannot be taken apart into 2 names",), "n", "only a tuple"),
    ("a = (1, 2)\na = (1, 2, 3)", ("`a` was a tuple of 2 and would become a tuple of 3",), "a", "use another name"),
    ("a = (1, 2)\na = (1, (2, 3))", ("`a[1]` was a number (i64) and would become a tuple of 2",), "a", "use another name"),
    ("a = (n, 2)\na = (1.5, 2)", ("`a[0]` would have two types, i32 and f32",), "a", "convert to i32"),
    ("a = (1, 2) if n > 0 else (1, 2, 3)", ("a tuple of 2 and a tuple of 3",), "(1, 2) if n > 0 else (1, 2, 3)", "as many items"),
    ("a = (1, 2) if n > 0 else 3", ("each side of a conditional expression must be a number, not a tuple of 2",), "(1, 2)", "items"),
    ("y[0] = first((1.0, 2, 3))", ("`pair` of first is a tuple of 2, not a tuple of 3",), "(1.0, 2, 3)", "as many values"),
    ("y[0] = first(1.0)", ("`pair` of first is a tuple of 2, not the literal 1.0",), "1.0", "pass a tuple"),
    ("y[0] = first((1.0, 2.5))", ("the float 2.5 is not an i32", "`pair` of first"), "(1.0, 2.5)", "i32(2.5)"),
    ("a = twice(y[0])", ("`twice` returns a tuple of 3 where a tuple of 2 is announced",), "x, x, x", "as many values"),
    ("y[0] = any_length((1.0, 2.0))", ("the annotation of `items` of any_length has no meaning in a kernel",), "any_length", "tuple[f32, i32]"),
    ("a: tuple[f32, i32] = (1.0, 2.5)", ("the float 2.5 is not an i32 (`a[1]` is i32)",), "(1.0, 2.5)", "i32(2.5)"),
    ("a: tuple[f32, i32] = (1.0, 2, 3)", ("`a` was a tuple of 2 and would become a tuple of 3",), "a", "use another name"),
    ("a: tuple[f32, i32] = 1.0", ("`a` was a tuple of 2 and would become the literal 1.0",), "a", "use another name"),
    ("a: tuple[f32, n] = (1.0, 2)", ("`n` is no element type",), "n", "tuple[f32, i64]"),
    ("for a in (1, 2):\n    pass", ("a loop runs over range(…) or unroll(…)",), "(1, 2)", "range"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "words", "at", "hint"), CASES, ids=[case[0] for case in CASES])
def test_refused(body: str, words: tuple[str, ...], at: str, hint: str) -> None:
    refused(kernel_of(body), *words, at=at, hint=hint)
