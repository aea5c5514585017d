"""Elsewhere `i32(-1) < u32(1)` compared bits, and the repair of one pair of types broke five others.

A comparison is of the exact integers, or it is refused; so are minimum, maximum, sums and `in`.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, INTEGERS, kernel_of, mapped, result_of

import kdsl
from kdsl.lang.types import DType, promote

_BOOL = kdsl.dtype("bool")
_COMPARISONS = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge}


def values(of: DType) -> list[int]:
    return sorted({0, 1, of.minimum, of.maximum, of.maximum // 2, of.maximum // 2 + 1, max(-1, of.minimum), max(-2, of.minimum)})


@DEVICES
@pytest.mark.parametrize("left", INTEGERS, ids=str)
def test_all_pairs_of_types(device: Any, left: DType) -> None:
    forms = [f"x[i] {symbol} z[i]" for symbol in _COMPARISONS] + ["min(x[i], z[i]) == x[i]", "max(x[i], z[i]) == x[i]"]
    for right in INTEGERS:
        kernel = mapped(forms, "bool", f"x: Slice[{left}], z: Slice[{right}]")
        if promote(left, right) is None:
            with pytest.raises(kdsl.KernelError, match=f"{left}.*{right}") as caught:
                kernel.ir()
            assert "(" in caught.value.hint  # the conversion to write
            continue
        pairs = list(itertools.product(values(left), values(right)))
        x, z = (np.array(side, of.numpy) for side, of in zip(zip(*pairs, strict=True), (left, right), strict=True))
        found = result_of(device, kernel, len(forms) * len(pairs), _BOOL, x, z).reshape(len(forms), len(pairs))
        expected = [[f(a, b) for a, b in pairs] for f in (*_COMPARISONS.values(), operator.le, operator.ge)]
        np.testing.assert_array_equal(found, expected, f"{left}, {right}")


def test_the_pairs_that_are_refused() -> None:
    """Only those for which no type holds all values."""
    refused = {(a.name, b.name) for a, b in itertools.product(INTEGERS, repeat=2) if promote(a, b) is None}
    signed = ("i8", "i16", "i32", "i64")
    assert refused == {(s, "u64") for s in signed} | {("u64", s) for s in signed}


@DEVICES
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_literals_on_either_side(device: Any, of: DType) -> None:
    numbers = [0, 1, of.maximum, max(-1, of.minimum), of.minimum]
    x = np.array(values(of), of.numpy)
    kernel = mapped([form for n in numbers for s in _COMPARISONS for form in (f"x[i] {s} {n}", f"{n} {s} x[i]")], "bool", f"x: Slice[{of}]")
    found = result_of(device, kernel, 12 * len(numbers) * len(x), _BOOL, x).reshape(-1, len(x))
    expected = [
        [f(*order) for order in orders]
        for n in numbers
        for f in _COMPARISONS.values()
        for orders in ([(v, n) for v in x.tolist()], [(n, v) for v in x.tolist()])
    ]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("literal", ["-1", "256", "2 ** 70"])
def test_a_literal_that_the_type_cannot_hold_is_refused(literal: str) -> None:
    with pytest.raises(kdsl.KernelError, match=r"does not fit|more digits"):
        kernel_of("y: SliceMut[bool], x: Slice[u8]", f"y[0] = x[0] < {literal}").ir()


@DEVICES
def test_guards_by_a_number_without_a_sign(device: Any) -> None:
    """`i in y` and `i < len(y)` for indices of every type: large u64 are no negative indices, negative ones no large ones."""
    for of, numbers in (
        ("u64", [0, 4, 5, 2**63, 2**64 - 1]),
        ("i64", [0, 4, 5, -1, -(2**63)]),
        ("u32", [0, 4, 5, 2**31, 2**32 - 1]),
        ("i8", [0, 4, 5, -1, -128]),
    ):
        j = np.array(numbers, kdsl.dtype(of).numpy)
        convert = "i64(j[i])" if of == "u64" else "j[i]"
        kernel = kernel_of(
            f"y: SliceMut[bool], j: Slice[{of}], z: Slice[f32]",
            f"i = thread_index()\nif i in j:\n    y[i] = {convert} in z\n    y[i + 5] = 0 <= {convert} < len(z)\n    y[i + 10] = {convert} not in z",
        )
        found = result_of(device, kernel, 15, _BOOL, j, np.zeros(5, np.float32)).reshape(3, 5).tolist()
        assert found == [[True, True, False, False, False]] * 2 + [[False, False, True, True, True]]
