"""Constants fold to what the operation gives at run time: Python's exact integers wrapped, NumPy's floats, one rounding."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from text import kernel_of, ops

from kdsl.frontend import folding
from kdsl.ir import nodes
from kdsl.lang.types import DTYPES, F32, F64, DType, wrap

INTEGERS = [t for t in DTYPES.values() if t.is_integer]
FLOATS = (0.0, -0.0, 1.0, -1.5, 3.4028234663852886e38, 1.1754943508222875e-38, 1e-45, -1e-45, 0.1, 16777217.0, math.inf, -math.inf)


def edges(of: DType) -> list[int]:
    return [
        v for v in (of.minimum, of.minimum + 1, -7, -5, -1, 0, 1, 2, 3, 6, 7, of.maximum - 1, of.maximum) if of.minimum <= v <= of.maximum
    ]


@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_integers(of: DType) -> None:
    for a, b in itertools.product(edges(of), repeat=2):
        assert folding.binary("add", of, a, b) == wrap(of, a + b)
        assert folding.binary("sub", of, a, b) == wrap(of, a - b)
        assert folding.binary("mul", of, a, b) == wrap(of, a * b)
        assert folding.binary("floordiv", of, a, b) == (wrap(of, a // b) if b else 0)
        assert folding.binary("mod", of, a, b) == (a % b if b else 0)
        inside = 0 <= b < of.bits
        assert folding.binary("shl", of, a, b) == (wrap(of, a << b) if inside else 0)
        assert folding.binary("shr", of, a, b) == (a >> b if inside else -1 if a < 0 else 0)


@pytest.mark.parametrize("of", [F32, F64], ids=str)
@pytest.mark.parametrize(("op", "numpy"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)])
def test_floats(of: DType, op: str, numpy: np.ufunc) -> None:
    with np.errstate(all="ignore"):
        for a, b in itertools.product([float(of.numpy.type(v)) for v in FLOATS], repeat=2):
            value = folding.binary(op, of, a, b)
            if value is not None:
                expected = of.numpy.type(numpy(of.numpy.type(a), of.numpy.type(b)))
                assert of.numpy.type(value).tobytes() == expected.tobytes()


@given(*[st.floats(allow_nan=False, allow_infinity=False)] * 3)
@example(0.1, 10.0, -1.0)
@example(1e308, 10.0, -1e308)
@example(5e-324, 0.5, 5e-324)
def test_fma_of_doubles_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    value = folding.fma(F64, a, b, c)
    if value is None:
        assert exact == 0
        return
    try:
        expected = float(exact)
    except OverflowError:
        expected = math.inf if exact > 0 else -math.inf
    assert value == expected


@given(*[st.floats(allow_nan=False, allow_infinity=False, width=32)] * 3)
@example(1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60)
@example(1 + 2.0**-23, 1 - 2.0**-24, -(2.0**-75))
def test_fma_of_floats_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    value = folding.fma(F32, a, b, c)
    if value is None or math.isinf(value):
        return
    # no other f32 is nearer
    here = np.float32(value)
    for other in (np.nextafter(here, np.float32(np.inf)), np.nextafter(here, np.float32(-np.inf))):
        if np.isfinite(other):
            assert abs(Fraction(float(other)) - exact) >= abs(Fraction(value) - exact)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(-5) // 3 + (-5) % 3", -1),
        ("2 ** 10 - 1", 1023),
        ("7 // -2", -4),
        ("1 << 20 >> 18", 4),
        ("~5 & 0xFF", 250),
        ("max(1, 2, 3) - min(4, 5)", -1),
        ("abs(-4)", 4),
        ("int(2.9)", 2),
        ("i32(3) * i32(5) // i32(-4)", -4),
        ("i8(100) + i8(100)", -56),
        ("u8(3) - u8(5)", 254),
        ("i32(2.9) + i32(-2.9)", 0),
        ("i32(1e20)", 2147483647),
        ("i32(True) + i32(7 > 3)", 2),
    ],
)
def test_expressions(expression: str, expected: int) -> None:
    (store,) = ops(kernel_of(f"y[0] = i32({expression})", "y: SliceMut[i32]"), nodes.Store)
    assert store.value.value == expected
