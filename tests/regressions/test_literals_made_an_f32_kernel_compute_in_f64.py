"""Elsewhere `x * 0.1` of an f32 computed in f64, or the constant of an f64 kernel was cut to f32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, mapped, result_of

import kdsl
from kdsl.testing.ptx import assemble

F32, F64 = kdsl.dtype("f32"), kdsl.dtype("f64")
_STATEMENTS = [
    "y[i] = x[i] * 0.1 + 1.5",
    "y[i] = 1 / x[i] - PI * 2",
    "half = 0.5\ny[i] = half * x[i]",
    "t = 0.0\nfor k in range(4):\n    t += x[i] * 1e-3\ny[i] = t",
    "y[i] = 2.5 if x[i] > 0.3 else 1e4",
    "y[i] = max(x[i], 0.0) + min(1.0, x[i])",
    "y[i] = x[i] ** 2 + x[i] ** 0.5 + x[i] ** -1",
    "y[i] = sqrt(x[i] + 1e-5) + exp(-0.5 * x[i]) + sin(x[i]) + pow(x[i], 0.3) + log(x[i] + 1.0)",
    "y[i] = x[i] // 0.3 + x[i] % 0.7 + float(i)",
    "y[i] = f32(i) * 0.1 + float(3) * 0.3 + SCALAR",
    "y[i] = scaled(x[i])",
    "s = shared_array(32, f32)\ns[thread_idx.x] = x[i] * 0.3\nsync_threads()\ny[i] = warp_sum(s[0] * 0.1) + given",
]


@kdsl.function
def _scaled(x, by=0.1):  # type: ignore[no-untyped-def]
    """With a default that is a literal."""
    a, b = 0.25, 1.0
    for _ in range(2):
        a, b = b, a * x + by
    return a + b


@pytest.mark.parametrize("statement", _STATEMENTS)
@pytest.mark.parametrize("of", ["f32", "f16", "bf16"])
def test_no_f64_unless_it_is_written(statement: str, of: str) -> None:
    if of != "f32" and any(name in statement for name in ("** 0.5", "float(", "f32", "PI")):
        pytest.skip("it says f32, or more digits than the type has")
    kernel = kernel_of(
        f"y: SliceMut[{of}], x: Slice[{of}], given: Const[float]",
        f"i = thread_index()\n{statement}",
        PI=math.pi,
        SCALAR=np.float64(0.1),
        scaled=_scaled,
    )
    ptx = kernel.ptx("sm_90", given=0.1)
    body = ptx[: ptx.index("\n}\n", ptx.index(".entry"))]
    assert ".f64" not in body
    assemble(ptx, "sm_90")


@DEVICES
def test_an_f64_kernel_keeps_all_digits(device: Any) -> None:
    x = np.array([1.0, 0.1, -3.7, 1e300])
    forms = [
        "x[i] * PI",
        "x[i] + 0.1",
        "0.1 - x[i]",
        "third(x[i])",
        "x[i] * given",
        "x[i] * SCALAR",
        "f64(0.1) + x[i]",
        "x[i] * n",
        "x[i] * u",
    ]
    kernel = mapped(
        forms, "f64", "x: Slice[f64], given: Const[float], n: f64, u: f64 = 0.1", PI=math.pi, SCALAR=np.float64(1 / 3), third=_third
    )
    found = result_of(device, kernel, len(forms) * 4, F64, x, given=0.1, n=math.e).reshape(len(forms), 4)
    expected = [x * math.pi, x + 0.1, 0.1 - x, x * (1 / 3) + 1 / 7, x * 0.1, x * (1 / 3), 0.1 + x, x * math.e, x * 0.1]
    for k in range(len(forms)):
        if k != 3:
            assert found[k].tolist() == expected[k].tolist(), forms[k]
    assert found[3].tolist() == [
        math.fma(v, 1 / 3, 1 / 7) if hasattr(math, "fma") else f for v, f in zip(x.tolist(), found[3].tolist(), strict=True)
    ]


@kdsl.function
def _third(x):  # type: ignore[no-untyped-def]
    """Names that are bound to quotients of literals."""
    third, seventh = 1.0 / 3.0, 1.0 / 7.0
    return x * third + seventh
