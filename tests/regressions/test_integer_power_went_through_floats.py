"""Elsewhere `2 ** -2` of integers was 0, `int(pow(3, 1))` was 2, and a power of floats was 1500 ulp off."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, INTEGERS, column, mapped, result_of

import kdsl
from kdsl.lang.types import DType, wrap

F32, F64 = kdsl.dtype("f32"), kdsl.dtype("f64")


@DEVICES
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_exact_and_wrapped(device: Any, of: DType) -> None:
    """By a literal, by a number read from memory, of one type or of two; a negative exponent that is known at run time only gives 0."""
    bases = sorted({max(of.minimum, -3), max(of.minimum, -1), 0, 1, 2, 3, 10, 127, of.maximum, of.minimum})
    exponents = [n for n in (-2, -1, 0, 1, 2, 3, 4, 7, 31, 64, 100) if n >= of.minimum]
    x, n = (np.array(side, of.numpy) for side in zip(*itertools.product(bases, exponents), strict=True))
    found = result_of(
        device, mapped(["x[i] ** n[i]", "x[i] ** i8(n[i])"], of.name, f"x: Slice[{of}], n: Slice[{of}]"), 2 * len(x), of, x, n
    )
    assert found.tolist() == [wrap(of, b**e) if e >= 0 else 0 for b, e in zip(x.tolist(), n.tolist(), strict=True)] * 2
    literal = [e for e in exponents if e >= 0]
    found = result_of(
        device,
        mapped([f"x[i] ** {e}" for e in literal], of.name, f"x: Slice[{of}]"),
        len(literal) * len(bases),
        of,
        np.array(bases, of.numpy),
    )
    assert found.tolist() == [wrap(of, b**e) for e in literal for b in bases]


@pytest.mark.parametrize(
    "form", ["x[0] ** -1", "x[0] ** (1 - 3)", "2 ** -2", "x[0] ** 0.5", "x[0] ** 2.0", "x[0] ** f32(2)", "3 ** -1 * x[0]"]
)
def test_a_power_that_is_no_integer_is_refused(form: str) -> None:
    with pytest.raises(kdsl.KernelError, match="power") as caught:
        column([form], "i32", "x: Slice[i32]").ir()
    assert "f32(" in caught.value.hint or ".0 **" in caught.value.hint


@DEVICES
@pytest.mark.parametrize("of", [F32, F64], ids=str)
def test_large_powers_of_floats_are_near(device: Any, of: DType) -> None:
    """Through `pow`: within 2 ulp, for bases near 1 and exponents of thousands, where a naive exp(n log x) is far off."""
    pairs = [
        (1.0001, 5000.0),
        (0.9999, 5000.0),
        (1.000001, 1e6),
        (1.5, 200.0),
        (3.0, 1.0),
        (3.0, 0.0),
        (10.0, -30.0),
        (2.0, 0.5),
        (1e-30, -1.0),
        (0.1, 37.0),
        (7.0, 3.0),
    ]
    x, n = (np.array(side, of.numpy) for side in zip(*pairs, strict=True))
    found = result_of(device, mapped(["x[i] ** n[i]"], of.name, f"x: Slice[{of}], n: Slice[{of}]"), len(x), of, x, n)
    exact = np.power(x.astype(np.longdouble), n.astype(np.longdouble))
    error = np.abs(found.astype(np.longdouble) - exact) / np.spacing(np.abs(exact).astype(of.numpy)).astype(np.longdouble)
    assert error.max() <= 2, error
    assert found[4] == 3.0  # exactly


@DEVICES
def test_corner_cases_of_pow(device: Any) -> None:
    """C's `pow` (C23, F.10.4.4), which is Python's where that gives a number."""
    inf, nan = float("inf"), float("nan")
    pairs = [
        (0.0, 0.0),
        (-0.0, 3.0),
        (-0.0, -3.0),
        (0.0, -2.0),
        (-1.0, inf),
        (nan, 0.0),
        (1.0, nan),
        (-8.0, 1 / 3),
        (inf, -1.0),
        (-inf, 3.0),
        (-2.0, 3.0),
        (-2.0, 2.0),
        (0.5, inf),
    ]
    x, n = (np.array(side, np.float64) for side in zip(*pairs, strict=True))
    for of in (F32, F64):
        found = result_of(
            device, mapped(["x[i] ** n[i]"], of.name, f"x: Slice[{of}], n: Slice[{of}]"), len(x), of, x.astype(of.numpy), n.astype(of.numpy)
        )
        with np.errstate(all="ignore"):
            expected = np.power(x, n)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[found == found]), np.signbit(expected[expected == expected]))
