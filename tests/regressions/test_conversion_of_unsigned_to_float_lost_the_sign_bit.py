"""Elsewhere a u8 of 200 became -56.0: an unsigned integer went to a float as if it were signed.

Explicit, on assignment, through promotion and in arguments: from every integer type to every float, and back, are NumPy's results where it has one, and
the language's (saturation, NaN gives 0) where it has none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, FLOATS, INTEGERS, column, mapped, result_of

import kdsl
from kdsl.lang.types import DType, can_convert_implicitly, round_float

_NUMBERS = (
    0,
    1,
    127,
    128,
    200,
    255,
    256,
    32767,
    32768,
    60000,
    65535,
    2**24 + 1,
    3_000_000_000,
    2**31,
    2**32 - 1,
    2**53 + 1,
    2**63,
    2**64 - 1,
    2**64 - 2**39 + 1,
)


def values(of: DType) -> list[int]:
    found = {n for n in _NUMBERS if n <= of.maximum} | {of.maximum, of.maximum - 1, of.minimum}
    return sorted(found | {-n for n in _NUMBERS if -n >= of.minimum})


@DEVICES
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_to_floats(device: Any, source: DType) -> None:
    x = np.array(values(source), source.numpy)
    for target in FLOATS:
        fits = can_convert_implicitly(source, target)
        forms = [f"{target}(x[i])", *(["x[i]", "x[i] + zero[0]", "pick(x[i], zero[0])"] if fits else [f"{target}(x[i]) * {target}(1)"])]
        kernel = mapped(forms, target.name, f"x: Slice[{source}], zero: Slice[{target}]", pick=_pick)
        found = result_of(device, kernel, len(forms) * len(x), target, x, np.zeros(1, target.numpy)).astype(np.float64)
        expected = np.array([round_float(target, n) for n in x.tolist()])
        np.testing.assert_array_equal(found, np.tile(expected, len(forms)), f"{source} to {target}")


@kdsl.function
def _pick(a, b):  # type: ignore[no-untyped-def]
    """Its result is of the type in which both meet."""
    return a if a != 0 else b


@DEVICES
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_from_floats(device: Any, target: DType) -> None:
    for source in FLOATS:
        numbers = [0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1.0, 127.0, 128.0, 200.0, 255.0, 255.75, 256.0, -1.0, -1.5, -128.0, -129.0, 32767.5, 65535.0,
                   2.0**31, 3e9, 2.0**32,
                   2.0**63, 2.0**64, -(2.0**63), 1e300, -1e300, math.inf, -math.inf, math.nan, float(target.maximum), float(target.minimum)]  # fmt: skip
        x = np.array([round_float(source, n) for n in numbers]).astype(source.numpy)
        found = result_of(device, mapped([f"{target}(x[i])"], target.name, f"x: Slice[{source}]"), len(x), target, x)
        exact = [0 if math.isnan(v) else v for v in x.astype(np.float64).tolist()]
        expected = [
            int(min(max(v, target.minimum), target.maximum)) if math.isfinite(v) else target.maximum if v > 0 else target.minimum
            for v in exact
        ]
        expected = [min(max(v, target.minimum), target.maximum) for v in expected]  # a float next to the limit may be beyond it
        assert found.tolist() == expected, f"{source} to {target}"


@DEVICES
@pytest.mark.parametrize("source", [of for of in INTEGERS if not of.is_signed], ids=str)
def test_parameters(device: Any, source: DType) -> None:
    """A scalar argument and a field take the same way."""
    kernel = column(["f64(n)", "f64(p.n)", "f64(f32(n))", "f64(f32(p.n))"], "f64", f"n: {source}, p: Fields", Fields=_fields(source))
    for n in values(source):
        y = device.zeros(4, kdsl.dtype("f64"))
        kernel(y, n, kernel.declaration.parameters[2].python_class(n=n))
        f64, f32 = float(n), float(np.float32(round_float(kdsl.dtype("f32"), n)))
        assert y.numpy().tolist() == [f64, f64, f32, f32], n


def _fields(of: DType) -> Any:
    from from_text import module

    return module(f'@struct\nclass Fields:\n    """One number."""\n    n: {of}\n    """It."""\n')["Fields"]
