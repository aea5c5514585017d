"""Elsewhere a name that only one branch assigns, or a loop that may make no trip, was read all the same: whatever lay there, or zero.

It is an error at the use, which shows the assignment that does not always run; what is assigned on every way is fine.
"""

from __future__ import annotations

from typing import Any

import pytest
from from_text import DEVICES, kernel_of, result_of

import kdsl
from kdsl import i64

PARAMETERS = "y: SliceMut[i64], n: i32, c: bool"


@pytest.mark.parametrize(
    "body",
    [
        "if c:\n    v = 1\ny[0] = v",
        "for j in range(n):\n    v = 1\ny[0] = v",
        "for v in range(n):\n    pass\ny[0] = i64(v)",
        "while n > 3 and c:\n    v = 1\n    break\ny[0] = v",
        "if c:\n    v = 1\nelif n > 2:\n    v = 2\ny[0] = v",
        "for j in range(n):\n    if j == 2:\n        v = 1\n        break\ny[0] = v",
        "for j in range(n):\n    if c:\n        continue\n    v = 1\ny[0] = v",
        "for j in range(n):\n    y[0] = v\n    v = 1",
        "if c:\n    a, v = 1, 2\ny[0] = v",
        "y[0] = v if c else 0\nv = 1",
        "if c:\n    v = 1\nv += 1\ny[0] = v",
        "v += 1\ny[0] = v",
    ],
)
def test_a_use_that_may_come_first(body: str) -> None:
    with pytest.raises(kdsl.KernelError, match=r"`v` (may have|has) no value here") as caught:
        kernel_of(PARAMETERS, body).ir()
    lines = body.splitlines()
    used = lines[caught.value.location.line - 3]
    assert "v" in used
    assert [note for note in caught.value.notes if note[1].line != 0]
    assert "assign `v`" in caught.value.hint


@DEVICES
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if c:\n    v = 1\nelse:\n    v = 2\ny[0] = v", {True: 1, False: 2}),
        ("if c:\n    v = 1\nelse:\n    return\ny[0] = v", {True: 1}),
        ("for j in range(3):\n    v = j\ny[0] = v", {True: 2, False: 2}),
        ("while True:\n    v = n\n    break\ny[0] = v", {True: 5, False: 5}),
        ("for j in range(n):\n    if j == 2:\n        v = 7\n        break\nelse:\n    v = 8\ny[0] = v", {True: 7, False: 7}),
        ("if c:\n    v = 1\nif c:\n    pass\nelse:\n    v = 3\n    y[0] = v", {False: 3}),
    ],
)
def test_a_name_that_every_way_assigns(device: Any, body: str, expected: dict[bool, int]) -> None:
    for c, value in expected.items():
        assert result_of(device, kernel_of(PARAMETERS, body), 1, i64, 5, c)[0] == value
