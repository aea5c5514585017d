"""Elsewhere `sqrt` and `/` were the hardware's approximations, because nobody had said otherwise, and subnormal numbers were flushed.

Without `fast.` nothing in PTX is approximate, and the results are NumPy's to the last bit.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from from_text import DEVICES, kernel_of, mapped, result_of

import kdsl
from kdsl.lang.types import DType

F32, F64 = kdsl.dtype("f32"), kdsl.dtype("f64")


def numbers(of: DType, count: int, seed: int) -> npt.NDArray[Any]:
    """Of every exponent, subnormals and both zeros among them, and infinities."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 1 << of.bits, count, dtype=np.uint64).astype(f"u{of.itemsize}")
    found = bits.view(of.numpy)
    found[:8] = [0.0, -0.0, np.inf, -np.inf, np.finfo(of.numpy).tiny, np.finfo(of.numpy).smallest_subnormal, np.finfo(of.numpy).max, 1.0]
    return found[~np.isnan(found)]


def same(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    words = f"u{found.dtype.itemsize}"
    numbers = ~np.isnan(expected)
    assert np.isnan(found[~numbers]).all()
    np.testing.assert_array_equal(found[numbers].view(words), expected[numbers].view(words))


@DEVICES
@pytest.mark.parametrize("of", [F32, F64], ids=str)
def test_every_bit_is_numpys(device: Any, of: DType) -> None:
    x, z = numbers(of, 4096, 1), numbers(of, 4096, 2)
    n = min(len(x), len(z))
    x, z = x[:n], z[:n]
    forms = [
        "sqrt(x[i])",
        "x[i] / z[i]",
        "1 / x[i]",
        "1 / sqrt(abs(x[i]))",
        "x[i] * z[i]",
        "x[i] - z[i]",
        "sqrt(x[i] * x[i])",
        "x[i] / 3",
        "x[i] * 0.1",
    ]
    found = result_of(device, mapped(forms, of.name, f"x: Slice[{of}], z: Slice[{of}]"), n * len(forms), of, x, z).reshape(len(forms), n)
    one, three, tenth = of.numpy.type(1), of.numpy.type(3), of.numpy.type(0.1)
    with np.errstate(all="ignore"):
        expected = [np.sqrt(x), x / z, one / x, one / np.sqrt(np.abs(x)), x * z, x - z, np.sqrt(x * x), x / three, x * tenth]
    for form, row, wanted in zip(forms, found, expected, strict=True):
        try:
            same(row, wanted)
        except AssertionError as error:
            raise AssertionError(form) from error


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("of", ["f32", "f64", "f16", "bf16"])
def test_nothing_in_ptx_is_approximate(target: str, of: str) -> None:
    """Neither where a result feeds another operation, nor in a loop, nor for a known operand, nor in the library's functions."""
    more = (
        ""
        if of in ("f16", "bf16")
        else "\ny[i] += exp(x[i]) + log(x[i]) + sin(x[i]) + tanh(x[i]) + pow(x[i], 0.3) + exp2(x[i]) + cbrt(x[i]) + atan2(x[i], x[0])"
    )
    body = (
        f"i = thread_index()\ny[i] = sqrt(x[i]) / x[0] + 1 / x[i] + 1 / sqrt(x[i]) + x[i] / 3\n"
        f"for k in range(3):\n    y[i] = y[i] / (x[k] + 1.0) + y[i] // x[k] + y[i] % x[k] + x[i] ** -2{more}"
    )
    ptx = kernel_of(f"y: SliceMut[{of}], x: Slice[{of}]", body).ptx(target)
    assert not re.search(r"\.approx|\.ftz|\.full|rsqrt|ex2|lg2", ptx)
    assert re.search(r"sqrt\.rn\.f(32|64)", ptx)
    assert re.search(r"div\.rn\.f(32|64)", ptx)
