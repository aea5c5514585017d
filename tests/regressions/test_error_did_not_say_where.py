"""Elsewhere an error came without a place, with the line of the decorator, from inside the compiler, or with the name of something internal.

Each of these broken kernels gets one message with file, line and column, a caret below the piece of text that is wrong, a hint, and inside a `@function` the
call that led there.
"""

from __future__ import annotations

from typing import Any

import pytest
from from_text import module

import kdsl
from kdsl.frontend.errors import source_line

HELPERS = """
import math
import numpy as np

LIST, WORD, N = [1, 2], "word", 3

def plain(v):
    return v

@function
def half(v: f32) -> f32:
    return v / 2

@function
def wrong_inside(v: f32) -> f32:
    w = v + 1
    return w[0]

@function
def outer(v: f32) -> f32:
    return 2 * wrong_inside(v)

"""
BROKEN = {
    "y[0] = z": "z",
    "y[0] = x[0] +\\\n        zz": "zz",
    "y[0] = half(x[0], 2.0)": "half(x[0], 2.0)",
    "y[0] = half()": "half()",
    "y[0] = half(w=1.0)": "half(w=1.0)",
    "y[0] = plain(x[0])": "plain",
    "y[0] = math.sin(x[0])": "math.sin",
    "y[0] = np.exp(x[0])": "np.exp",
    "y[0] = LIST[0]": "LIST",
    "y[0] = WORD": "WORD",
    "y[0] = [1.0][0]": "[1.0]",
    "y[0] = {1: 2.0}[1]": "{1: 2.0}",
    "v = [x[j] for j in range(3)]": "[x[j] for j in range(3)]",
    "y[0] = (lambda v: v)(1.0)": "lambda v: v",
    "y[0] = n / 2": "n / 2",
    "y[0] = n + x[0]": "n + x[0]",
    "y[0] = n": "n",
    "y[0] = i64(3) + u64(4)": "i64(3) + u64(4)",
    "y[0] = f32(n << 40)": "n << 40",
    "y[0] = f32(n // 0)": "n // 0",
    "y[0] = f32(i8(300))": "300",
    "x[0] = 1.0": "x[0]",
    "y[0, 1] = 1.0": "0, 1",
    "y[-1] = 1.0": "-1",
    "y[0.5] = 1.0": "0.5",
    "y.z = 1.0": "y.z",
    "y[0] = y.size": "y.size",
    "y[0] = x": "x",
    "y = x": "y",
    "if x:\n        y[0] = 1.0": "x",
    "for j in x:\n        y[0] = 1.0": "x",
    "for j in range(0, n, 0):\n        y[0] = 1.0": "0",
    "for j in range(1.5):\n        y[0] = 1.0": "1.5",
    "while y:\n        y[0] = 1.0": "y",
    "if thread_idx.x > 3:\n        sync_threads()": "sync_threads()",
    "if lane_index() > 3:\n        y[0] = warp_sum(x[0])": "warp_sum(x[0])",
    "y[0] = shuffle(x[0], 0, width=5)": "5",
    "y[0] = warp_sum()": "warp_sum()",
    "t = shared_array(n > 1, f32)": "n > 1",
    "t = local_array(n, f32)": "local_array(n, f32)",
    "t = shared_array(100_000, f64)": "shared_array(100_000, f64)",
    "a, b, c = 1, 2": "1, 2",
    "try:\n        y[0] = 1.0\n    finally:\n        pass": "try:",
    "with x:\n        y[0] = 1.0": "with x:",
    "import os": "import os",
    "raise ValueError": "raise ValueError",
    "return 1.0": "return 1.0",
    "yield 1.0": "yield 1.0",
    "del y": "del y",
    "y[0] = f'{x[0]}'": "f'{x[0]}'",
    "static_assert(N == 4, 'four')": "static_assert(N == 4, 'four')",
    "atomic_add(x, 0, 1.0)": "x",
    "y[0] = x[0] if n > 0 else n": "x[0] if n > 0 else n",
}


def error_of(body: str, before: str = "") -> tuple[Any, str]:
    """The error of a kernel with this body, and the text that it marks."""
    with pytest.raises(kdsl.KernelError) as caught:
        module(
            f"{HELPERS}{before}@kernel(\n    grid=1,\n    block=64,\n)\ndef tested(y: SliceMut[f32], x: Slice[f32], n: i32) -> None:\n    {body}\n"
        )["tested"].ir()
    place = caught.value.location
    line = source_line(place)
    return caught.value, line[place.column : place.end_column if place.end_line == place.line else len(line)]


@pytest.mark.parametrize("body", list(BROKEN))
def test_what_where_and_what_to_do(body: str) -> None:
    error, marked = error_of(body)
    text = str(error)
    assert marked == BROKEN[body], text
    first = text.splitlines()[0]
    assert first.startswith(f"{error.location.file}:{error.location.line}:{error.location.column + 1}: ")
    assert error.hint
    assert "^" * min(len(marked), 1) in text
    for word in ("Traceback", "nodes.", "ValueOp", "NoneType", "<class", "object at 0x", "ArrayRef", "llvm"):
        assert word not in text, text


def test_the_caret_stands_below_wide_letters_and_tabs() -> None:
    error, marked = error_of("größe, 数 = 1.0, 2.0\n    y[0] = größe + 数 + ungültig")
    assert marked == "ungültig"
    shown, caret = (
        next(line for line in str(error).splitlines() if "y[0]" in line),
        next(line for line in str(error).splitlines() if "^" in line),
    )
    width = sum(2 if ord(letter) > 0x2E80 else 1 for letter in shown[: shown.index("ungültig")])
    assert caret.index("^") == width


@pytest.mark.parametrize("call", ["outer(x[0])", "wrong_inside(x[0])"])
def test_the_calls_that_led_there(call: str) -> None:
    error, marked = error_of(f"y[0] = {call}")
    assert "w" in marked
    text = str(error)
    assert call in text
    assert ("wrong_inside(v)" in text) == call.startswith("outer")


def test_a_decorator_above_moves_nothing() -> None:
    error, marked = error_of("y[0] = z", before="\n# a comment\n\n")
    assert marked == "z"
    assert source_line(error.location) == "    y[0] = z"
