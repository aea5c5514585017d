"""Elsewhere a function that returned on some ways only gave 0 or what lay in a register on the others, and a kernel's `return 3` was lost without a word.

A `@function` that returns a value returns one on every way, of one type; a kernel returns none. Tuples are returned and taken apart, in their number.
"""

from __future__ import annotations

from typing import Any

import pytest
from from_text import DEVICES, kernel_of, module, result_of

import kdsl
from kdsl import i32


def helper(signature: str, body: str) -> Any:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return module(f"@function\ndef helper{signature}:\n{lines}")["helper"]


@pytest.mark.parametrize(
    "body",
    [
        "if x > 0:\n    return x",
        "for j in range(x):\n    return x",
        "while x > 0:\n    return x",
        "if x > 0:\n    return x\nelif x < -5:\n    return 1",
        "if x > 0:\n    return x\nelse:\n    if x < -5:\n        return 1",
        "for j in range(3):\n    if j == x:\n        return x",
    ],
)
@pytest.mark.parametrize("signature", ["(x: i32) -> i32", "(x: i32)"])
def test_a_way_without_a_return(signature: str, body: str) -> None:
    with pytest.raises(kdsl.KernelError, match=r"helper.*(not on every way|without a `?return|may end without|return)") as caught:
        kernel_of("y: SliceMut[i32], n: i32", "y[0] = helper(n)", helper=helper(signature, body)).ir()
    assert caught.value.hint


@DEVICES
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if x > 0:\n    return x\nreturn -x", 7),
        ("if x > 0:\n    return x\nelse:\n    return -1", -1),
        ("while True:\n    x += 1\n    if x > 0:\n        return x", 1),
        ("for j in range(3):\n    if j == -x - 5:\n        return j\nelse:\n    return 9", 2),
    ],
)
def test_every_way_returns(device: Any, body: str, expected: int) -> None:
    made = helper("(x: i32) -> i32", body if "return j" not in body else body.replace("return j", "return i32(j)"))
    assert result_of(device, kernel_of("y: SliceMut[i32], n: i32", "y[0] = helper(n)", helper=made), 1, i32, -7)[0] == expected


@pytest.mark.parametrize("value", ["3", "y", "n", "(1, 2)", "helper(n)"])
def test_a_kernel_returns_nothing(value: str) -> None:
    with pytest.raises(kdsl.KernelError, match="a kernel returns nothing") as caught:
        kernel_of("y: SliceMut[i32], n: i32", f"y[0] = 1\nreturn {value}", helper=helper("(x: i32) -> i32", "return x")).ir()
    assert "write results to an array" in caught.value.hint


@DEVICES
def test_a_tuple_of_results(device: Any) -> None:
    made = helper("(a: i32, b: i32) -> tuple[i32, i32]", "return a // b, a % b")
    k = kernel_of("y: SliceMut[i32], a: i32, b: i32", "q, r = helper(a, b)\ny[0] = q\ny[1] = r\ny[2] = helper(a, b)[1]", helper=made)
    assert list(result_of(device, k, 3, i32, -7, 3)) == [-3, 2, 2]


@pytest.mark.parametrize(
    "body", ["q, r, s = helper(a, b)\ny[0] = q", "(q,) = helper(a, b)\ny[0] = q", "q, (r, s) = helper(a, b)\ny[0] = q"]
)
def test_another_number_of_results(body: str) -> None:
    made = helper("(a: i32, b: i32) -> tuple[i32, i32]", "return a // b, a % b")
    with pytest.raises(kdsl.KernelError, match=r"2|taken apart"):
        kernel_of("y: SliceMut[i32], a: i32, b: i32", body, helper=made).ir()


def test_the_annotation_is_kept() -> None:
    for body in ("return a, b, a", "return a", "return f32(a), f32(b)"):
        with pytest.raises(kdsl.KernelError):
            kernel_of(
                "y: SliceMut[i32], a: i32, b: i32",
                "q, r = helper(a, b)\ny[0] = q",
                helper=helper("(a: i32, b: i32) -> tuple[i32, i32]", body),
            ).ir()


def test_two_types_of_result() -> None:
    with pytest.raises(kdsl.KernelError) as caught:
        kernel_of(
            "y: SliceMut[f32], n: i32", "y[0] = f32(helper(n))", helper=helper("(x: i32)", "if x > 0:\n    return x\nreturn f32(x)")
        ).ir()
    assert caught.value.notes
