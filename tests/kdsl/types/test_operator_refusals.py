"""Pairs of types that the language refuses, with every operator: an error at the expression whose hint is the conversion to write."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import pytest
from numpy_grid import FLOATS, INTEGERS, MEETS, NUMBERS, TYPES

from kdsl import Const, KernelError, Slice, SliceMut, kernel

T = TypeVar("T")
U = TypeVar("U")
OPERATORS = (
    "x[0] + y[0]", "x[0] - y[0]", "x[0] * y[0]", "x[0] / y[0]", "x[0] // y[0]", "x[0] % y[0]", "x[0] & y[0]", "x[0] | y[0]", "x[0] ^ y[0]",
    "x[0] << y[0]", "x[0] >> y[0]", "min(x[0], y[0])", "max(x[0], y[0])", "x[0] < y[0]", "x[0] <= y[0]", "x[0] > y[0]", "x[0] >= y[0]",
    "x[0] == y[0]", "x[0] != y[0]", "x[0] if flag[0] else y[0]", "x[0] ** y[0]",
)  # fmt: skip
POWER = len(OPERATORS) - 1
OF_BITS = range(6, 11)


@kernel(grid=1, block=1)
def one(flag: SliceMut[bool], x: Slice[T], y: Slice[U], which: Const[int]) -> None:
    """One operator: a branch on a constant is not even checked unless it is taken."""
    if which == 0:
        flag[0] = bool(x[0] + y[0])
    if which == 1:
        flag[0] = bool(x[0] - y[0])
    if which == 2:
        flag[0] = bool(x[0] * y[0])
    if which == 3:
        flag[0] = bool(x[0] / y[0])
    if which == 4:
        flag[0] = bool(x[0] // y[0])
    if which == 5:
        flag[0] = bool(x[0] % y[0])
    if which == 6:
        flag[0] = bool(x[0] & y[0])
    if which == 7:
        flag[0] = bool(x[0] | y[0])
    if which == 8:
        flag[0] = bool(x[0] ^ y[0])
    if which == 9:
        flag[0] = bool(x[0] << y[0])
    if which == 10:
        flag[0] = bool(x[0] >> y[0])
    if which == 11:
        flag[0] = bool(min(x[0], y[0]))
    if which == 12:
        flag[0] = bool(max(x[0], y[0]))
    if which == 13:
        flag[0] = x[0] < y[0]
    if which == 14:
        flag[0] = x[0] <= y[0]
    if which == 15:
        flag[0] = x[0] > y[0]
    if which == 16:
        flag[0] = x[0] >= y[0]
    if which == 17:
        flag[0] = x[0] == y[0]
    if which == 18:
        flag[0] = x[0] != y[0]
    if which == 19:
        flag[0] = bool(x[0] if flag[0] else y[0])
    if which == 20:
        flag[0] = bool(x[0] ** y[0])


def refusal(first: str, second: str, which: int) -> KernelError:
    with pytest.raises(KernelError) as caught:
        one.ir(T=first, U=second, which=which)
    error = caught.value
    assert OPERATORS[which] in str(error)
    location = error.location
    text = OPERATORS[which]
    width = location.end_column - location.column
    assert width == len(text), f"{first}, {second}: the caret marks {width} characters of {text}"
    return error


@pytest.mark.parametrize("first", TYPES)
def test_types_that_do_not_meet(first: str) -> None:
    for second in TYPES:
        if MEETS[first, second] is not None:
            continue
        for which in range(len(OPERATORS)):
            if which == POWER and "bool" not in (first, second):
                continue  # the exponent has no say in the type
            error = refusal(first, second, which)
            what = f"{OPERATORS[which]} of {first} and {second}: {error.message} ({error.hint})"
            if which != POWER:
                assert first in error.message, what
                assert second in error.message, what
            assert re.search(r"\b(?:[iuf]\d+|bf16|bool)\((?:[xy]\[0\]|flag)\)", error.hint), what
            if "bool" not in (first, second):
                real = first if first in FLOATS else second if second in FLOATS else None
                # the float keeps its width, the integers lose nothing but half of the u64
                assert f"{real or 'i64'}(" in error.hint, what


@pytest.mark.parametrize("of", FLOATS)
def test_floats_have_no_bits(of: str) -> None:
    for which in OF_BITS:
        assert "only integers have bits" in refusal(of, of, which).hint
        assert "only integers have bits" in refusal(of, "i8", which).hint


@pytest.mark.parametrize("of", INTEGERS)
def test_integers_have_no_true_quotient(of: str) -> None:
    assert "f32(x[0]) / f32(y[0])" in refusal(of, of, 3).hint
    assert "f32(x[0])" in refusal(of, "f32", POWER).hint


def test_bools_are_no_numbers() -> None:
    for which in (0, 1, 2, 3, 4, 5, 9, 10, 11, 12, POWER):
        assert "i32(" in refusal("bool", "bool", which).hint


@pytest.mark.parametrize("of", FLOATS)
def test_a_float_takes_no_integer_power_at_run_time(of: str) -> None:
    for power in INTEGERS:
        assert f"{of}(y[0])" in refusal(of, power, POWER).hint


@kernel(grid=1, block=1)
def unary(flag: SliceMut[bool], x: Slice[T], which: Const[int]) -> None:
    if which == 0:
        flag[0] = bool(-x[0])
    if which == 1:
        flag[0] = bool(+x[0])
    if which == 2:
        flag[0] = bool(~x[0])
    if which == 3:
        flag[0] = bool(abs(x[0]))


@pytest.mark.parametrize(("of", "which"), [*(("bool", n) for n in range(4)), *((of, 2) for of in FLOATS)])
def test_one_operand(of: str, which: int) -> None:
    with pytest.raises(KernelError) as caught:
        unary.ir(T=of, which=which)
    assert of in str(caught.value)
    assert caught.value.hint


@kernel(grid=1, block=1)
def augmented(z: SliceMut[T], y: Slice[U], element: Const[bool]) -> None:
    if element:
        z[0] += y[0]
    else:
        t = z[0]
        t += y[0]
        z[0] = t


@pytest.mark.parametrize("first", NUMBERS)
def test_augmented_assignment_keeps_the_type(first: str) -> None:
    """`t += y` is an error where the sum has another type than t, with both types in the message."""
    for second in NUMBERS:
        for element in (True, False):
            settings: dict[str, Any] = {"T": first, "U": second, "element": element}
            if MEETS[first, second] == first:
                augmented.ir(**settings)
                continue
            with pytest.raises(KernelError) as caught:
                augmented.ir(**settings)
            assert first in str(caught.value)
            wanted = r"\b\w+\((?:[yz]\[0\]|t)\)" if MEETS[first, second] is None else rf"convert to {first}\b|\b{first}\("
            assert re.search(wanted, caught.value.hint), f"{first} += {second}: {caught.value}"
