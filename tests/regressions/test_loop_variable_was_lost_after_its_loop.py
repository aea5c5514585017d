"""Elsewhere a name that is the variable of a `for` first and a counter of a `while` later held 0, or the value of the wrong loop, or of one trip too many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, module, result_of

import kdsl
from kdsl.lang.types import wrap

I64 = kdsl.dtype("i64")
CASES = {
    "for, then while": "acc = 0\nfor i in range(2):\n    acc += i\ni = 0\nwhile i < 3:\n    acc += 10\n    i += 1\nreturn acc * 100 + i",
    "while, then for": "i = 5\nwhile i > a:\n    i -= 1\nfor i in range(i, i + 3):\n    b += i\nreturn b * 100 + i",
    "after break": "i = -1\nfor i in range(10):\n    if i == a:\n        break\nreturn i * 10 + b",
    "no trip leaves the old value": "i = 77\nfor i in range(a, a):\n    b += 1\nreturn i + b",
    "the last value, not the end": "for i in range(0, 10, 4):\n    b += i\nreturn i * 1000 + b",
    "downwards": "for i in range(9, 0, -4):\n    b += i\nreturn i * 1000 + b",
    "nested loops of one name": "t = 0\nfor i in range(3):\n    for i in range(a % 4):\n        t += i\n    t = t * 10 + i\nreturn t * 10 + i",
    "assigned inside": "t = 0\nfor i in range(4):\n    i = i * i\n    t += i\nreturn t * 100 + i",
    "unrolled": "t = 0\nfor i in unroll(3):\n    t += i * a\nfor i in range(b % 3 + 1):\n    t += i\nreturn t * 100 + i",
    "unrolled with break": "i = 9\nfor i in unroll(5):\n    if i == a:\n        break\nreturn i",
    "unrolled, then assigned": "for i in unroll(2, 8, 3):\n    b += i\ni += a\nreturn b * 100 + i",
    "in a branch": "i = 4\nif a > 2:\n    for i in range(3):\n        b += i\nelse:\n    i = a\nreturn b * 100 + i",
    "else sees it": "for i in range(3):\n    b += 1\nelse:\n    b += i * 10\nreturn b + i",
    "continue": "for i in range(6):\n    if i % 2 == a % 2:\n        continue\n    b += i\nreturn b * 10 + i",
    "swapped with another": "i, j = a, b\nfor _ in range(3):\n    i, j = j, i + 1\nfor i in range(j % 5 + 1):\n    j += i\nreturn i * 1000 + j",
}
INPUTS = [(a, b) for a in (-2, 0, 1, 3, 4, 7) for b in (0, 1, 5)]


def compiled(body: str) -> tuple[Any, Callable[[int, int], int]]:
    """The kernel that applies a function of this body, and Python's own function."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    plain: dict[str, Any] = {"unroll": range}
    exec(f"def f(a, b):\n{lines}", plain)
    text = (
        f"@function\ndef f(a: i64, b: i64) -> i64:\n{lines}@kernel(grid=elements('a'), block=32)\n"
        f"def k(y: SliceMut[i64], a: Slice[i64], b: Slice[i64]) -> None:\n"
    )
    return module(text + "    i = thread_index()\n    if i in a:\n        y[i] = f(a[i], b[i])\n")["k"], plain["f"]


@DEVICES
@pytest.mark.parametrize("case", CASES)
def test_same_as_python(device: Any, case: str) -> None:
    kernel, plain = compiled(CASES[case])
    a, b = (np.array(side, np.int64) for side in zip(*INPUTS, strict=True))
    assert result_of(device, kernel, len(INPUTS), I64, a, b).tolist() == [wrap(I64, plain(*pair)) for pair in INPUTS]
