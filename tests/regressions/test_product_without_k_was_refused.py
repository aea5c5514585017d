"""With k = 0 a product of arrays of bf16 or f16 was an ArgumentError, and one with a bias or GELU a ValueError: it is 0, as in NumPy, so that C becomes
act(bias), and with `accumulate` that is added to C."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES

from kdsl import bf16, f16, f32
from staleynet.ops.matmul import Operand, matmul, row_major

ROUNDING = {f32: 2.0**-22, bf16: 2.0**-8, f16: 2.0**-11}
"""The largest relative error of a result."""


@DEVICES
@pytest.mark.parametrize("size", [(1, 1), (5, 33), (70, 129)], ids=str)
@pytest.mark.parametrize(("precision", "of_operands", "of_c"), [
    ("fp32", f32, f32), ("3xtf32", bf16, f16), ("3xtf32", f32, f32), ("tf32", f32, bf16), ("tf32", f16, f32), ("bf16", bf16, bf16), ("f16", f16, f32),
], ids=str)  # fmt: skip
def test_c_becomes_what_follows_the_product(device: Any, precision: Any, of_operands: Any, of_c: Any, size: tuple[int, int]) -> None:
    m, n = size
    random = np.random.default_rng(n)
    nothing = row_major(device.zeros(0, of_operands), 1)
    before = random.standard_normal((2, m, n)).astype(of_c.numpy)
    bias = random.standard_normal(n).astype(np.float32)
    for accumulate, with_bias, activation in itertools.product((False, True), (False, True), (None, "gelu")):
        c = device.array((before if accumulate else np.full_like(before, np.nan)).ravel())
        matmul(
            row_major(c, n, sequence=m * n), nothing, nothing, m=m, n=n, k=0, sequences=2, alpha=-0.5, precision=precision,
            accumulate=accumulate, bias=device.array(bias) if with_bias else None, activation=activation,
        )  # fmt: skip
        wanted = np.zeros((2, m, n)) + (bias if with_bias else 0.0)
        if activation:
            wanted = 0.5 * wanted * (1 + np.tanh(np.sqrt(2 / np.pi) * (wanted + 0.044715 * wanted**3)))
        added = before.astype(np.float64) if accumulate else np.zeros_like(wanted)
        got = c.numpy().reshape(2, m, n).astype(np.float64)
        assert np.all(np.abs(got - (wanted + added)) <= ROUNDING[of_c] * (np.abs(wanted + added) + np.abs(added)))


@DEVICES
def test_operands_of_any_length_are_not_read(device: Any) -> None:
    a = device.array(np.full(12, np.nan, np.float16))
    c = device.array(np.arange(8, dtype=np.float16))
    matmul(Operand(c, 1, 3), row_major(a, 4), Operand(a, 2, 1), m=2, n=2, k=0, precision="f16")
    np.testing.assert_array_equal(c.numpy(), np.array([0, 0, 2, 0, 0, 5, 6, 7], np.float16))


@DEVICES
@pytest.mark.parametrize("sizes", [{"m": 0, "n": 4, "k": 4}, {"m": 4, "n": 0, "k": 4}, {"m": 4, "n": 4, "k": 4, "sequences": 0}], ids=str)
def test_a_c_without_elements_stays(device: Any, sizes: dict[str, int]) -> None:
    a, c = row_major(device.zeros(16, bf16), 4), row_major(device.array(np.full(16, 7, np.float32)), 4)
    for more in ({"precision": "bf16"}, {"precision": "3xtf32"}, {"precision": "tf32", "activation": "gelu"}):
        matmul(c, a, a, **sizes, **more)  # type: ignore[arg-type]
    assert (c.array.numpy() == 7).all()
