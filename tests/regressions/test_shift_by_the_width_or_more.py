"""Elsewhere `x << 40` was one number on one target and another on the next, a constant one made the store disappear, and `>>` of an unsigned number copied
its highest bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, INTEGERS, column, mapped, result_of

import kdsl
from kdsl.lang.types import DType, promote, wrap


def amounts(of: DType, bits: int) -> list[int]:
    numbers = {0, 1, 7, bits - 1, bits, bits + 1, 2 * bits, 31, 32, 40, 63, 64, 127, 128, 255, 256, -1, -bits, of.minimum, of.maximum}
    return sorted(n for n in numbers if of.minimum <= n <= of.maximum)


@DEVICES
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_amounts_of_every_type(device: Any, of: DType) -> None:
    for by in INTEGERS:
        common = promote(of, by)
        if common is None:
            continue
        values, shifts = [max(of.minimum, -1), of.minimum, 1, of.maximum, of.maximum // 3], amounts(by, common.bits)
        x, s = np.array([v for v in values for _ in shifts], of.numpy), np.array(shifts * len(values), by.numpy)
        found = result_of(
            device,
            mapped(
                ["x[i] << s[i]", "x[i] >> s[i]", "augmented(x[i], s[i])"],
                common.name,
                f"x: Slice[{of}], s: Slice[{by}]",
                augmented=_augmented,
            ),
            3 * len(x),
            common,
            x,
            s,
        )
        inside = [0 <= n < common.bits for n in s.tolist()]
        left = [wrap(common, a << n) if fits else 0 for a, n, fits in zip(x.tolist(), s.tolist(), inside, strict=True)]
        right = [a >> n if fits else -(a < 0) for a, n, fits in zip(x.tolist(), s.tolist(), inside, strict=True)]
        assert found.tolist() == left + right + right, f"{of} by {by}"


@kdsl.function
def _augmented(x, s):  # type: ignore[no-untyped-def]
    """The result is of the type of both."""
    y = x + s - s
    y >>= s
    return y


@DEVICES
def test_amounts_that_become_known_late(device: Any) -> None:
    """A name that is bound to a literal under a condition, a sum with a minimum: LLVM knows the amount, the language's errors do not."""
    forms = [
        "x[i] << late(40)",
        "x[i] >> late(40)",
        "x[i] << late(-1)",
        "x[i] >> late(-1)",
        "x[i] << late(31)",
        "x[i] << (min(i, 0) + 33)",
        "x[i] >> (min(i, 0) + 64)",
    ]
    kernel = mapped([f"i32({form})" for form in forms], "i32", "x: Slice[i32]", late=_late)
    found = result_of(device, kernel, len(forms) * 2, kdsl.dtype("i32"), np.array([-5, 5], np.int32)).reshape(len(forms), 2)
    wide = [wrap(kdsl.dtype("i32"), v << 33) for v in (-5, 5)]  # the amount is an i64, and so is what is shifted
    assert found.tolist() == [[0, 0], [-1, 0], [0, 0], [-1, 0], [wrap(kdsl.dtype("i32"), v << 31) for v in (-5, 5)], wide, [-1, 0]]


@kdsl.function
def _late(n):  # type: ignore[no-untyped-def]
    """The number, which only an optimiser can see through."""
    m = kdsl.i32(0)
    for _ in range(3):
        m = kdsl.i32(n)
    return m


@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_a_literal_amount_outside_is_an_error(of: DType) -> None:
    for amount in (of.bits, -1, of.bits + 7):
        for op in ("<<", ">>"):
            with pytest.raises(kdsl.KernelError, match=r"shift|does not fit"):
                column([f"x[0] {op} ({amount})"], of.name, f"x: Slice[{of}]").ir()
