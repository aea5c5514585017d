"""Elsewhere `min` and `max` dropped a NaN on one side only, or gave the zero that came first.

`min` and `max` give NaN if either is one, `fmin` and `fmax` ignore one; all put -0.0 below 0.0 (IEEE 754-2019, 9.6: minimum, minimumNumber).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from from_text import DEVICES, FLOATS, kernel_of, mapped, result_of

from kdsl.lang.types import DType

VALUES = (1.0, 2.0, -1.5, 0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40)


def least(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    return min((a, b), key=lambda v: (v, math.copysign(1, v)))


def least_number(a: float, b: float) -> float:
    return b if math.isnan(a) else a if math.isnan(b) else least(a, b)


def most(a: float, b: float) -> float:
    return -least(-a, -b)


def most_number(a: float, b: float) -> float:
    return -least_number(-a, -b)


def same(found: npt.NDArray[Any], expected: list[float], of: DType) -> None:
    exact = np.array(expected, np.float64).astype(of.numpy).astype(np.float64)
    wide = found.astype(np.float64)
    np.testing.assert_array_equal(wide, exact)
    numbers = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(wide[numbers]), np.signbit(exact[numbers]))


@DEVICES
@pytest.mark.parametrize("of", FLOATS, ids=str)
def test_all_pairs(device: Any, of: DType) -> None:
    pairs = [(float(of.numpy.type(a)), float(of.numpy.type(b))) for a, b in itertools.product(VALUES, repeat=2)]
    x, z = (np.array(side, np.float64).astype(of.numpy) for side in zip(*pairs, strict=True))
    forms = ["min(x[i], z[i])", "max(x[i], z[i])", "fmin(x[i], z[i])", "fmax(x[i], z[i])", "min((x[i], z[i]))", "max(x[i], z[i], x[i])"]
    found = result_of(device, mapped(forms, of.name, f"x: Slice[{of}], z: Slice[{of}]"), len(forms) * len(x), of, x, z)
    models = (least, most, least_number, most_number, least, most)
    same(found, [model(a, b) for model in models for a, b in pairs], of)


@DEVICES
@pytest.mark.parametrize("of", FLOATS, ids=str)
def test_against_literals(device: Any, of: DType) -> None:
    """A known operand allows shorter code; it must not change the result. `max(x, 0.0)` of a NaN is NaN."""
    x = np.array(VALUES, np.float64).astype(of.numpy)
    numbers = ["0.0", "-0.0", "1.0", f"{of}('nan')", f"{of}('inf')", "0", f"{of}('-inf')"]
    forms = [f"{name}({order})" for n in numbers for name in ("min", "max", "fmin", "fmax") for order in (f"x[i], {n}", f"{n}, x[i]")]
    found = result_of(device, mapped(forms, of.name, f"x: Slice[{of}]"), len(forms) * len(x), of, x)
    known = [0.0, -0.0, 1.0, math.nan, math.inf, 0.0, -math.inf]
    expected = [
        m(float(v), n) for n in known for m in (least, most, least_number, most_number) for _ in range(2) for v in x.astype(np.float64)
    ]
    same(found, expected, of)


@DEVICES
@pytest.mark.parametrize("of", FLOATS, ids=str)
@pytest.mark.parametrize("block", [32, 17, 96])
def test_reductions(device: Any, of: DType, block: int) -> None:
    """Over a warp and over a block, with a NaN in one place, and with zeros of both signs."""
    body = "i = thread_index()\nv = x[i]\ny[i] = warp_min(v)\ny[len(x) + i] = warp_max(v)\ny[2 * len(x) + i] = block_min(v)\ny[3 * len(x) + i] = block_max(v)"
    kernel = kernel_of(f"y: SliceMut[{of}], x: Slice[{of}]", body, f"grid=1, block={block}")
    plain = np.arange(block, dtype=np.float64) - 5
    zeros = np.where(np.arange(block) == block - 2, -0.0, 0.0)
    for place in (0, block // 2, block - 1):
        with_nan = plain.copy()
        with_nan[place] = math.nan
        for host in (with_nan, zeros, -zeros):
            x = host.astype(of.numpy)
            found = result_of(device, kernel, 4 * block, of, x).reshape(4, block)
            warps = [host[first : first + 32] for first in range(0, block, 32)]
            for row, model in ((0, least), (1, most)):
                one = [_over(model, warp) for warp in warps]
                same(found[row], [v for v, warp in zip(one, warps, strict=True) for _ in warp], of)
                same(found[row + 2], [_over(model, np.array(one))] * block, of)


def _over(model: Any, values: npt.NDArray[Any]) -> float:
    total = float(values[0])
    for value in values[1:]:
        total = model(total, float(value))
    return total
