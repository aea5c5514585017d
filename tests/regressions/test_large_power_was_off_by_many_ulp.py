"""`x ** 100` was a chain of products, off by dozens of ulp: beyond an exponent of 16 it is `pow`, within 2 ulp, and of narrow floats rounded once from f32."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest

from kdsl import DisjointSlice, Slice, bf16, elements, f16, f32, f64, kernel, thread_index
from kdsl.testing import devices

T = TypeVar("T", f16, bf16, f32, f64)


@kernel(grid=elements("y"))
def powers(y: DisjointSlice[T], z: DisjointSlice[T], w: DisjointSlice[T], x: Slice[T]) -> None:
    i = thread_index()
    if i in y and i in z and i in w:
        y[i] = x[i] ** 100
        z[i] = x[i] ** -17
        w[i] = x[i] ** 16


@pytest.mark.parametrize("device", devices(), ids=str)
@pytest.mark.parametrize("of", [f16, bf16, f32, f64], ids=str)
def test_large_powers_are_within_2_ulp(device: Any, of: Any) -> None:
    x = np.concatenate([-np.linspace(0.93, 1.07, 100), np.linspace(0.93, 1.07, 100), [0.0, 1.0, -1.0]]).astype(of.numpy)
    y, z, w = (device.array(np.full(len(x), np.nan, of.numpy)) for _ in range(3))
    powers(y, z, w, device.array(x))
    exact = x.astype(np.longdouble)
    bits = {f16: 11, bf16: 8, f32: 24, f64: 53}[of]
    with np.errstate(divide="ignore", invalid="ignore"):
        for found, wanted in ((y, exact**100), (z, exact**-17)):
            ulp = np.exp2(np.floor(np.log2(np.abs(wanted))) - bits + 1)
            kept = np.isfinite(wanted) & (wanted != 0)
            assert (np.abs(found.numpy().astype(np.longdouble) - wanted)[kept] <= (2 * ulp)[kept]).all()
            assert (found.numpy()[~kept] == wanted[~kept].astype(of.numpy)).all()
    chain = x
    for _ in range(4):
        chain = chain * chain
    np.testing.assert_array_equal(w.numpy(), chain)  # no more than 16: squares of squares, bit by bit
