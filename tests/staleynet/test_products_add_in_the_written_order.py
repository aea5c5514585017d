"""The fp32 product on every device, bit for bit against a model of the order that its documentation gives, in NumPy.

Parts along k where `parts_along_k` says so, each from zero in ascending order by fused multiply-adds; the parts added in ascending order; then alpha, then the
bias or what was in C, each rounded by itself. All ways through the kernels (small and large, with k along and across the rows, whole tiles or not) must agree.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kdsl
import kdsl.testing
from staleynet import ops
from staleynet.kernels import matmul_border
from staleynet.kernels.convert import Ending
from staleynet.kernels.matmul_pipelined import Schedule
from staleynet.kernels.matmul_pipelined import product as pipelined
from staleynet.ops.matmul_operands import parts_along_k
from staleynet.ops.schedules import SCHEDULES, asked, forced, suits

Floats = NDArray[np.float32]
DEVICES = pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)


def fused(a: Floats, b: Floats, c: Floats) -> Floats:
    """a b + c, rounded once.

    The product is exact in f64. The sum is rounded to odd there: what is not exact gets an odd last bit, so that rounding again, to f32, rounds as if from the
    exact sum (Boldo and Melquiond 2008, https://doi.org/10.1109/TC.2007.70819).
    """
    p, c = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    s = p + c
    of_p = s - c
    error = (p - of_p) + (c - (s - of_p))  # exact (Knuth's sum of two)
    bits = s.view(np.int64)
    inexact, is_even = error != 0, (bits & 1) == 0
    towards_larger = (error > 0) == (s > 0)
    odd = np.where(inexact & is_even, np.where(towards_larger, bits + 1, bits - 1), bits)
    return odd.view(np.float64).astype(np.float32)


def to_f32(x: Fraction) -> float:
    """The nearest f32, ties to even, of a number in its range."""
    if not x:
        return 0.0
    exponent = -150
    while abs(x) >= Fraction(2) ** (exponent + 25):
        exponent += 1
    unit = Fraction(2) ** (max(exponent, -149) if abs(x) < Fraction(2) ** (exponent + 24) else exponent + 1)
    return float(round(x / unit) * unit)


def test_the_model_of_a_fused_multiply_add() -> None:
    random = np.random.default_rng(0)
    a, b, c = (random.standard_normal(3000).astype(np.float32) for _ in range(3))
    c[:1000] = -(a[:1000] * b[:1000])  # all but the rounding error cancels
    c[1000:1500] *= np.float32(2.0) ** random.integers(-60, 60, 500).astype(np.float32)
    a[1500:2500] *= np.float32(1e-20)
    b[1500:2500] *= np.float32(1e-20)  # subnormal products, and below
    c[1500:2500] = (np.float32(1e-39) * random.integers(-2, 3, 1000)).astype(np.float32)
    c[2500:] = (random.integers(-9, 10, 500) * 2.0**-24).astype(np.float32)  # ties
    a[2500:], b[2500:] = random.integers(1, 3, 500), random.integers(1, 3, 500)
    found = fused(a, b, c)
    wanted = [to_f32(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))) for x, y, z in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))


def modelled(a: Floats, b: Floats, parts: int, alpha: float) -> Floats:
    """alpha A B before anything is added."""
    m, k = a.shape
    each = k // parts
    total = np.zeros((m, b.shape[1]), np.float32)
    for part in range(parts):
        sums = np.zeros_like(total)
        for i in range(part * each, (part + 1) * each):
            sums = fused(a[:, i, None], b[i], sums)
        total = sums if part == 0 else total + sums
    return np.float32(alpha) * total


def operand(device: kdsl.Device, x: Floats, turned: bool) -> ops.Operand:
    rows, columns = x.shape
    array = device.array(np.ascontiguousarray(x.T if turned else x).ravel())
    return ops.transposed(ops.row_major(array, rows)) if turned else ops.row_major(array, columns)


SMALL = [(17, 33, 9), (5, 129, 31), (70, 66, 33)]
LARGE = [(160, 136, 100), (150, 140, 104), (129, 257, 65)]
"""Enough for the kernels that a large product takes on a GPU; k is no multiple of their tiles'."""
LONG = [(24, 40, 4096), (33, 31, 2048), (9, 260, 2112)]
"""In parts along k."""


@DEVICES
@pytest.mark.parametrize("scale", [1.0, 1e-23], ids=["usual", "vanishing"])
@pytest.mark.parametrize("size", [*SMALL, *LARGE, *LONG], ids=str)
def test_the_bits_are_those_of_the_model(device: kdsl.Device, size: tuple[int, int, int], scale: float) -> None:
    """With numbers so small that products vanish, their sums are zeros with signs, which must not be lost either."""
    m, n, k = size
    random = np.random.default_rng(m)
    a, b, c = ((random.standard_normal(shape) * scale).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    bias = (random.standard_normal(n) * scale).astype(np.float32)
    parts = parts_along_k("fp32", m, n, k, 1)
    assert (parts > 1) == (size in LONG)
    alpha = 0.7
    plain = modelled(a, b, parts, alpha)
    ways: list[tuple[dict[str, Any], Floats]] = [
        ({}, plain),
        ({"accumulate": True}, c + plain),
        ({"bias": device.array(bias)}, plain + bias),
    ]
    for turned, (options, wanted) in [*product(product((False, True), repeat=2), ways[:1]), *(((False, False), way) for way in ways[1:])]:
        out = device.array((c if options.get("accumulate") else np.full_like(c, np.nan)).ravel())
        left, right = operand(device, a, turned[0]), operand(device, b, turned[1])
        ops.matmul(ops.row_major(out, n), left, right, m=m, n=n, k=k, alpha=alpha, **options)
        found = out.numpy().reshape(m, n)
        np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32), err_msg=f"{turned} {list(options)}")


@DEVICES
@pytest.mark.parametrize("version", ["naive", "tiled", "register_blocked"])
def test_every_version_has_the_bits_of_the_model(device: kdsl.Device, version: ops.Version) -> None:
    random = np.random.default_rng(1)
    for (m, n, k), scale in product(SMALL, (1.0, 1e-23)):
        a, b = ((random.standard_normal(shape) * scale).astype(np.float32) for shape in ((m, k), (k, n)))
        out = device.array(np.full(m * n, np.nan, np.float32))
        ops.matmul(ops.row_major(out, n), operand(device, a, False), operand(device, b, True), m=m, n=n, k=k, alpha=0.7, version=version)
        np.testing.assert_array_equal(out.numpy().view(np.uint32), modelled(a, b, 1, 0.7).view(np.uint32).ravel())


@DEVICES
@pytest.mark.parametrize(("a_across", "b_across"), [(False, False), (True, True), (False, True), (True, False)])
def test_the_pipelined_kernel_has_the_bits_of_the_model(device: kdsl.Device, a_across: bool, b_across: bool) -> None:
    """With a tile small enough to be compiled for the CPU, which does not take this kernel by itself."""
    random = np.random.default_rng(2)
    schedule = Schedule(32, 32, 1, 2, depth=8)
    for (m, n, k), rest, each in (
        ((36, 68, 20), True, 4),
        ((4, 33 if not b_across else 36, 4), True, 1),
        ((40, 38 if not b_across else 36, 8), True, 2),
        ((32, 40, 24), False, 4),
    ):
        kernel = pipelined(schedule, a_across=a_across, b_across=b_across, each=each, rest=rest)
        for accumulate, scale in ((0, 1.0), (1, 1e-23)):
            a, b, c = ((random.standard_normal(shape) * scale).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
            left, right = (np.ascontiguousarray(x)[None, None] for x in (a.T if a_across else a, b if b_across else b.T))
            out = device.array((c if accumulate else np.full_like(c, np.nan))[None, None])
            kernel(out, device.array(left), device.array(right), Ending(alpha=0.7, accumulate=accumulate))
            wanted = modelled(a, b, 1, 0.7)
            wanted = c + wanted if accumulate else wanted
            np.testing.assert_array_equal(out.numpy()[0, 0].view(np.uint32), wanted.view(np.uint32))


@DEVICES
@pytest.mark.parametrize("a_across", [False, True])
def test_the_border_has_the_bits_of_the_model(device: kdsl.Device, a_across: bool) -> None:
    """What is computed elsewhere stays as it is; B has columns that C lacks."""
    random = np.random.default_rng(5)
    for (m, n, k), (rows, columns), accumulate, scale in (
        ((200, 37, 33), (128, 32), 0, 1.0),
        ((130, 34, 64), (130, 32), 1, 1e-23),
        ((68, 64, 31), (64, 64), 1, 1e-23),
        ((100, 50, 3), (64, 50), 0, 1.0),
        ((33, 5, 129), (32, 4), 0, 1e-23),
        ((1, 1, 1), (0, 0), 0, 1.0),
    ):
        kernel = matmul_border.product_of_border(a_across=a_across, rest=k % matmul_border.DEPTH != 0)
        a, b, c = ((random.standard_normal(shape) * scale).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
        left, right = (in_fours(device, x) for x in (a.T if a_across else a, np.pad(b, ((0, 0), (0, -n % 4)))))
        c = c if accumulate else np.full_like(c, np.nan)
        out = device.array(c[None, None])
        kernel(out, left, right, matmul_border.Border(alpha=0.7, accumulate=accumulate, rows=rows, columns=columns))
        wanted = modelled(a, b, 1, 0.7)
        wanted = c + wanted if accumulate else wanted
        wanted[:rows, :columns] = c[:rows, :columns]
        np.testing.assert_array_equal(out.numpy()[0, 0].view(np.uint32), wanted.view(np.uint32))


def in_fours(device: kdsl.Device, x: Floats) -> kdsl.Array:
    """The matrix in memory with rows that begin at multiples of four numbers."""
    wide = np.pad(x, ((0, 0), (0, -x.shape[1] % 4)), constant_values=np.nan)
    return device.array(wide.ravel()).strided((1, 1, *x.shape), (wide.size, wide.size, wide.shape[1], 1))


@pytest.mark.parametrize("name", SCHEDULES["fp32"])
def test_every_schedule_has_the_bits_of_the_model(name: str) -> None:
    if (device := kdsl.testing.devices()[-1]).target == "cpu":
        pytest.skip("its tiles are for a GPU")
    random = np.random.default_rng(3)
    m, n, k = 260, 392, 100
    for scale in (1.0, 1e-23):
        a, b = ((random.standard_normal(shape) * scale).astype(np.float32) for shape in ((m, k), (k, n)))
        wanted = modelled(a, b, 1, 0.7).view(np.uint32).ravel()
        for turned in (False, True):  # A along k and B across, and the other way round
            if not suits(SCHEDULES["fp32"][name], (turned, not turned)):
                continue
            out = device.array(np.full(m * n, np.nan, np.float32))
            with forced("fp32", name):
                ops.matmul(ops.row_major(out, n), operand(device, a, turned), operand(device, b, turned), m=m, n=n, k=k, alpha=0.7)
            np.testing.assert_array_equal(out.numpy().view(np.uint32), wanted)
            assert asked("fp32") is not None
