"""Elsewhere an f64 became an f16 or a bf16 by way of f32, which rounds twice; or an f32 was cut to a bf16 instead of rounded.

Numbers beside the ties of the narrow type tell the ways apart: 1 + 2**-11 + 2**-40 is above the tie between 1 and the next f16, and on it once it is an f32.
All 16-bit patterns, there and back, are in tests/kdsl/types/test_conversions_exhaustive.py.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from from_text import DEVICES, kernel_of, mapped, result_of

import kdsl
from kdsl import bf16, f16, f32, f64

NARROW = {"f16": (f16, np.float16, 11), "bf16": (bf16, ml_dtypes.bfloat16, 8)}


def beside_ties(bits: int, wide: Any) -> npt.NDArray[Any]:
    """Numbers on and right beside the ties of a type of so many bits, of both signs, from subnormal to large."""
    steps = np.array([0, 2.0**-18, -(2.0**-18)] if wide is np.float32 else [0, 2.0**-40, -(2.0**-40), 2.0**-50])
    ties = 1 + np.arange(8)[:, None] * 2.0 ** (1 - bits) + 2.0**-bits + steps
    scales = 2.0 ** np.array([-26, -24, -16, -14, -1, 0, 7, 15, 100, -130])[:, None]
    found = (ties.reshape(1, -1) * scales).reshape(-1)
    more = np.array([0.0, np.inf, np.nan, 65504, 65519.99, 65520, 3.39e38, 2.0**-149, 2.0**-134, 1e-40, 3.3961775292304957e38])
    found = np.concatenate([found, more])
    return np.concatenate([found, -found]).astype(wide)


@DEVICES
@pytest.mark.parametrize("narrow", list(NARROW))
@pytest.mark.parametrize("wide", ["f32", "f64"])
def test_once_to_nearest_even(device: Any, narrow: str, wide: str) -> None:
    of, host, bits = NARROW[narrow]
    x = beside_ties(bits, np.dtype(wide.replace("f", "float")).type)
    y = result_of(device, mapped([f"{narrow}(x[i])"], narrow, f"x: Slice[{wide}]"), len(x), of, x)
    with np.errstate(over="ignore"):
        exact = x.astype(np.float64)
        expected = rounded(exact, bits, host)
    np.testing.assert_array_equal(y.astype(np.float64), expected.astype(np.float64))
    assert (np.signbit(y) == np.signbit(expected))[~np.isnan(exact)].all()


def rounded(x: npt.NDArray[Any], bits: int, host: Any) -> npt.NDArray[Any]:
    """`x` in units of the narrow type's last place, to the nearest even integer, in f64, where all of this is exact."""
    least, most = {11: (-24, 65504.0), 8: (-133, 3.3895313892515355e38)}[bits]
    with np.errstate(invalid="ignore", divide="ignore"):
        exponent = np.floor(np.log2(np.abs(np.where((x == 0) | ~np.isfinite(x), 1, x))))
        unit = 2.0 ** np.maximum(exponent - (bits - 1), least)
        result = np.where(np.isfinite(x), np.rint(x / unit) * unit, x)
    result = np.where(np.isfinite(x) & (np.abs(result) > most), np.copysign(np.inf, x), result)
    return np.copysign(result, x).astype(host)


@DEVICES
def test_the_numbers_of_the_report(device: Any) -> None:
    y = result_of(device, kernel_of("y: SliceMut[f16], x: f64", "y[0] = f16(x)"), 1, f16, 1 + 2**-11 + 2**-40)
    assert y.view(np.uint16)[0] == 0x3C01
    y = result_of(device, kernel_of("y: SliceMut[bf16], x: f64", "y[0] = bf16(x)"), 1, bf16, 1 + 2**-8 + 2**-40)
    assert y.view(np.uint16)[0] == 0x3F81


@DEVICES
def test_literals_and_parameters_are_rounded_once_too(device: Any) -> None:
    x = 1 + 2**-11 + 2**-40
    y = result_of(
        device, kernel_of("y: SliceMut[f16], s: f16", f"y[0] = {x!r}\ny[1] = f16({x!r})\ny[2] = s\ny[3] = {x!r} * f16(1)"), 4, f16, x
    )
    np.testing.assert_array_equal(y.view(np.uint16), 0x3C01)


@DEVICES
def test_products_of_narrow_numbers_are_rounded_once(device: Any) -> None:
    rng = np.random.default_rng(1)
    for narrow, (of, host, bits) in NARROW.items():
        a, b = (rng.standard_normal(4000).astype(host) for _ in range(2))
        k = kernel_of(
            f"y: SliceMut[{narrow}], a: Slice[{narrow}], b: Slice[{narrow}]",
            "i = thread_index()\nif i in y:\n    y[i] = a[i] * b[i]",
            "grid=elements('y')",
        )
        y = result_of(device, k, 4000, of, a, b)
        np.testing.assert_array_equal(
            y.astype(np.float64), rounded(a.astype(np.float64) * b.astype(np.float64), bits, host).astype(np.float64)
        )


def test_the_types_are_those_of_numpy() -> None:
    assert kdsl.f16.numpy == np.float16
    assert (f32.itemsize, f64.itemsize) == (4, 8)
