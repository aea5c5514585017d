"""Elsewhere a name that one branch made an integer and the other a float had the type of whichever came first, or the compiler failed far from both.

Names that start as literals take the join of all that is assigned to them; of anything else two types are an error that shows both places, in either order. A
name that nobody reads behind the branches may have two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, result_of

import kdsl
from kdsl import f32, f64, i32


@DEVICES
@pytest.mark.parametrize(("first", "second"), [("1", "2.5"), ("2.5", "1")])
def test_literals_join(device: Any, first: str, second: str) -> None:
    body = f"v = {first}\nif c:\n    v = {second}\ny[0] = v\ny[1] = v / 2"
    for c in (False, True):
        chosen = float(second if c else first)
        np.testing.assert_array_equal(result_of(device, kernel_of("y: SliceMut[f32], c: bool", body), 2, f32, c), [chosen, chosen / 2])


@DEVICES
def test_a_literal_joins_what_is_typed(device: Any) -> None:
    for body in (
        "v = 0\nif c:\n    v = x\ny[0] = v",
        "if c:\n    v = x\nelse:\n    v = 0\ny[0] = v",
        "v = x\nif not c:\n    v = 0\ny[0] = v",
    ):
        k = kernel_of("y: SliceMut[f64], c: bool, x: f64", body)
        assert result_of(device, k, 1, f64, True, 0.1)[0] == 0.1
        assert result_of(device, k, 1, f64, False, 0.1)[0] == 0


@pytest.mark.parametrize(
    ("first", "second"), [("f16(1)", "f32(2)"), ("f32(2)", "f16(1)"), ("n", "f32(2)"), ("i64(n)", "n"), ("n", "u32(n)"), ("n > 0", "n")]
)
@pytest.mark.parametrize(
    "form",
    [
        "if c:\n    v = {0}\nelse:\n    v = {1}\ny[0] = f32(v)",
        "v = {0}\nif c:\n    v = {1}\ny[0] = f32(v)",
        "v = {0}\nfor i in range(n):\n    y[0] = f32(v)\n    v = {1}",
        "v = {0}\nwhile v != 0:\n    v = {1}\ny[0] = 1.0",
    ],
)
def test_two_types_show_both_places(first: str, second: str, form: str) -> None:
    if first == "n > 0" and "while" in form:
        form = form.replace("v != 0", "bool(v)")
    with pytest.raises(kdsl.KernelError, match=r"`v` would have two types") as caught:
        kernel_of("y: SliceMut[f32], c: bool, n: i32", form.format(first, second)).ir()
    lines = {caught.value.location.line, *(place.line for _, place in caught.value.notes)}
    assert len(lines) == 2
    assert caught.value.hint


@DEVICES
def test_a_name_that_nobody_reads_later_may_have_two(device: Any) -> None:
    body = "if c:\n    v = n\n    y[0] = f32(v) + 1\nelse:\n    v = f32(n)\n    y[0] = v + 0.5"
    k = kernel_of("y: SliceMut[f32], c: bool, n: i32", body)
    assert [result_of(device, k, 1, f32, c, 3)[0] for c in (True, False)] == [4, 3.5]


@DEVICES
def test_a_dead_branch_has_no_say(device: Any) -> None:
    k = kernel_of("y: SliceMut[i32], n: i32, WIDE: Const[bool]", "if WIDE:\n    v = f64(n)\nelse:\n    v = n\ny[0] = i32(v)")
    assert [result_of(device, k, 1, i32, 3, wide)[0] for wide in (True, False)] == [3, 3]


def test_the_sides_of_a_conditional_expression() -> None:
    with pytest.raises(kdsl.KernelError, match=r"i32.*f32|f32.*i32"):
        kernel_of("y: SliceMut[f32], c: bool, n: i32", "y[0] = n if c else f32(n)").ir()
