"""`ops.matmul(precision="3xtf32")` computes in fp32 where there is no `wgmma`, and handed arrays of bf16 and f16 to kernels that take f32: an ArgumentError on
the CPU and on other GPUs than Hopper."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES

from kdsl import bf16, f16, f32
from staleynet.ops.matmul import Operand, matmul, row_major

ROUNDING = {f32: 2.0**-24, bf16: 2.0**-8, f16: 2.0**-11}
"""The largest relative error of rounding to a type."""


ELEMENTS = [(bf16, bf16, bf16), (f16, bf16, f32), (f32, f32, f16), (f32, bf16, f32)]
"""Of A, B and C."""


def numbers(random: np.random.Generator, shape: tuple[int, ...], element: Any) -> np.ndarray:
    return random.standard_normal(shape).astype(element.numpy)


def check(device: Any, elements: tuple[Any, Any, Any], size: tuple[int, int, int]) -> None:
    m, n, k = size
    random = np.random.default_rng(m)
    a, b = numbers(random, (m, k), elements[0]), numbers(random, (n, k), elements[1])
    before, bias = numbers(random, (m, n), elements[2]), numbers(random, (n,), f32)
    left, right = row_major(device.array(a.ravel()), k), Operand(device.array(b.ravel()), 1, k)
    x, y = a.astype(np.float64), b.astype(np.float64).T
    exact, scale = 0.5 * (x @ y), 0.5 * (np.abs(x) @ np.abs(y))
    for accumulate, with_bias in ((False, False), (True, False), (True, True)):
        c = device.array(before.ravel())
        matmul(
            row_major(c, n), left, right, m=m, n=n, k=k, alpha=0.5, precision="3xtf32",
            accumulate=accumulate, bias=device.array(bias) if with_bias else None,
        )  # fmt: skip
        wanted, most = exact, scale
        for added in ([bias] if with_bias else []) + ([before] if accumulate else []):
            wanted, most = wanted + added.astype(np.float64), most + np.abs(added.astype(np.float64))
        got = c.numpy().reshape(m, n).astype(np.float64)
        assert np.all(np.abs(got - wanted) <= 3e-6 * most + 1.01 * ROUNDING[elements[2]] * np.abs(wanted))


@DEVICES
@pytest.mark.parametrize("elements", ELEMENTS, ids=str)
@pytest.mark.parametrize("size", [(1, 1, 1), (33, 31, 19), (130, 70, 257), (40, 24, 4096), (257, 130, 640), (512, 40, 4096)], ids=str)
def test_without_wgmma(device: Any, monkeypatch: pytest.MonkeyPatch, elements: tuple[Any, Any, Any], size: tuple[int, int, int]) -> None:
    """The last three sizes: parts along k, large tiles on a GPU, and both."""
    for module in ("matmul", "matmul_paths"):
        monkeypatch.setattr(importlib.import_module(f"staleynet.ops.{module}"), "on_hopper", lambda _: False)
    check(device, elements, size)


@DEVICES
@pytest.mark.parametrize("elements", ELEMENTS, ids=str)
def test_where_it_may_be(device: Any, elements: tuple[Any, Any, Any]) -> None:
    check(device, elements, (130, 70, 257))


@DEVICES
def test_fp32_says_that_it_takes_f32(device: Any) -> None:
    x = device.zeros(16, bf16)
    with pytest.raises(ValueError, match="a is an array of bf16; fp32 takes f32"):
        matmul(row_major(device.zeros(16, f32), 4), row_major(x, 4), row_major(x, 4), m=4, n=4, k=4)
