"""Arithmetic in f16 and bf16: every operation rounds once, on every device, checked against rational numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pytest
from rounding import BOTH, EVERY, F16, Bits, Doubles, Narrow, assert_same, specials, tricky

import kdsl
from kdsl import DisjointSlice, Slice, ceil, elements, floor, fma, fmax, fmin, kernel, rint, sqrt, thread_index, trunc
from kdsl.testing import devices

T = TypeVar("T", kdsl.f16, kdsl.bf16)
every_device = pytest.mark.parametrize("device", devices(), ids=str)
narrow = pytest.mark.parametrize("of", BOTH, ids=lambda of: of.type.name)
BINARY = ("add", "sub", "mul", "div", "min", "max", "fmin", "fmax", "floordiv", "mod")
UNARY = ("neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint", "cube", "plus", "times")


@kernel(grid=elements("x"), requires=("len(x) == len(y)", f"len(z) == {len(BINARY)} * len(x)"))
def binary(z: kdsl.SliceMut[T], x: Slice[T], y: Slice[T]) -> None:
    """All operations on two operands."""
    i = thread_index()
    if i in x:
        a, b, n = x[i], y[i], len(x)
        z[i] = a + b
        z[i + n] = a - b
        z[i + 2 * n] = a * b
        z[i + 3 * n] = a / b
        z[i + 4 * n] = min(a, b)
        z[i + 5 * n] = max(a, b)
        z[i + 6 * n] = fmin(a, b)
        z[i + 7 * n] = fmax(a, b)
        z[i + 8 * n] = a // b
        z[i + 9 * n] = a % b


@kernel(grid=elements("x"), requires=(f"len(z) == {len(UNARY)} * len(x)",))
def unary(z: kdsl.SliceMut[T], x: Slice[T]) -> None:
    """All operations on one operand, and some with a literal."""
    i = thread_index()
    if i in x:
        a, n = x[i], len(x)
        z[i] = -a
        z[i + n] = abs(a)
        z[i + 2 * n] = sqrt(a)
        z[i + 3 * n] = floor(a)
        z[i + 4 * n] = ceil(a)
        z[i + 5 * n] = trunc(a)
        z[i + 6 * n] = rint(a)
        z[i + 7 * n] = a**3
        z[i + 8 * n] = a + 0.1
        z[i + 9 * n] = 3 * a


@kernel(grid=elements("d"))
def fused(d: DisjointSlice[T], x: Slice[T], y: Slice[T], z: Slice[T]) -> None:
    """x * y + z in one rounding."""
    i = thread_index()
    if i in d:
        d[i] = fma(x[i], y[i], z[i])


@kernel(grid=elements("d"))
def fused_difference(d: DisjointSlice[T], x: Slice[T], y: Slice[T], z: Slice[T]) -> None:
    """z - x * y in one rounding, as the operators fuse."""
    i = thread_index()
    if i in d:
        d[i] = z[i] - x[i] * y[i]


@kernel(grid=elements("x"))
def comparisons(z: kdsl.SliceMut[bool], x: Slice[T], y: Slice[T]) -> None:
    """All comparisons."""
    i = thread_index()
    if i in x:
        a, b, n = x[i], y[i], len(x)
        z[i] = a < b
        z[i + n] = a <= b
        z[i + 2 * n] = a > b
        z[i + 3 * n] = a >= b
        z[i + 4 * n] = a == b
        z[i + 5 * n] = a != b


def operands(of: Narrow, seed: int, count: int = 6000) -> tuple[Bits, Bits]:
    """All pairs of specials, and random ones."""
    ends = specials(of)
    pairs = np.repeat(ends, ends.size), np.tile(ends, ends.size)
    return tuple(np.concatenate([pair, tricky(of, count, seed + i)]) for i, pair in enumerate(pairs))  # type: ignore[return-value]


def run(kern: Any, device: Any, of: Narrow, results: int, *inputs: Bits) -> list[Doubles]:
    """The results of a kernel, one array for each operation."""
    z = device.zeros(results * inputs[0].size, of.type)
    kern(z, *(device.array(bits.view(of.numpy)) for bits in inputs))
    return list(of.values(z.numpy().view(np.uint16)).reshape(results, -1))


def exact_sum(of: Narrow, terms: tuple[Fraction, ...], signs: tuple[float, ...]) -> float:
    """A rounded sum; one that is 0 is -0 only if all its terms are."""
    total = sum(terms, Fraction(0))
    if total:
        return of.rounded_fraction(total)
    return -0.0 if not any(terms) and all(math.copysign(1, s) < 0 for s in signs) else 0.0


def product(of: Narrow, a: float, b: float) -> float:
    exact = Fraction(a) * Fraction(b)
    return of.rounded_fraction(exact) if exact else a * b


def quotient(of: Narrow, a: float, b: float) -> float:
    if b == 0 or a == 0:
        return a / b if b else math.copysign(math.inf, a) * math.copysign(1, b) if a else math.nan
    return of.rounded_fraction(Fraction(a) / Fraction(b))


def floored(of: Narrow, a: float, b: float) -> tuple[float, float]:
    """Quotient and remainder as Python has them; through f32, in which the former is what it is in NumPy."""
    if b == 0:
        return math.nan, math.nan
    rest = math.fmod(a, b)
    if rest == 0:
        rest = math.copysign(0.0, b)
    elif (rest < 0) != (b < 0):
        rest = exact_sum(of, (Fraction(rest), Fraction(b)), (rest, b))
    with np.errstate(all="ignore"):
        whole = float(np.floor_divide(np.float32(a), np.float32(b)))
    return whole, rest


WITH_SPECIALS: dict[str, Callable[[np.float64, np.float64], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
}  # fmt: skip


def reference(of: Narrow, op: str, a: float, b: float) -> float:
    """One operation on exact numbers, rounded once."""
    if op in WITH_SPECIALS and not (math.isfinite(a) and math.isfinite(b)):
        with np.errstate(all="ignore"):
            return float(WITH_SPECIALS[op](np.float64(a), np.float64(b)))
    match op:
        case "add":
            return exact_sum(of, (Fraction(a), Fraction(b)), (a, b))
        case "sub":
            return exact_sum(of, (Fraction(a), -Fraction(b)), (a, -b))
        case "mul":
            return product(of, a, b)
        case "div":
            return quotient(of, a, b)
    nans = math.isnan(a) + math.isnan(b)
    if nans:
        return (b if math.isnan(a) else a) if op in ("fmin", "fmax") and nans == 1 else math.nan
    choose = min if op.endswith("min") else max
    return choose(a, b, key=lambda v: (v, math.copysign(1, v)))


@every_device
@narrow
def test_two_operands(device: Any, of: Narrow) -> None:
    x, y = operands(of, 10)
    a, b = of.values(x), of.values(y)
    found = dict(zip(BINARY, run(binary, device, of, len(BINARY), x, y), strict=True))
    for op in BINARY[:8]:
        wanted = np.array([reference(of, op, u, v) for u, v in zip(a.tolist(), b.tolist(), strict=True)])
        assert_same(found[op], wanted, np.full(a.shape, op), a, b)
    usable = np.isfinite(a) & np.isfinite(b)
    pairs = [floored(of, u, v) for u, v in zip(a[usable].tolist(), b[usable].tolist(), strict=True)]
    whole, rest = (np.array(part) for part in zip(*pairs, strict=True))
    assert_same(found["floordiv"][usable], of.rounded(whole), a[usable], b[usable])
    assert_same(found["mod"][usable], rest, a[usable], b[usable])


@every_device
@narrow
def test_one_operand_exhaustively(device: Any, of: Narrow) -> None:
    a = of.values(EVERY)
    found = dict(zip(UNARY, run(unary, device, of, len(UNARY), EVERY), strict=True))
    with np.errstate(invalid="ignore", over="ignore"):
        assert_same(found["neg"], -a)
        assert_same(found["abs"], np.abs(a))
        assert_same(found["sqrt"], of.rounded(np.sqrt(a)), a)  # 53 bits are enough for one rounding to 11
        for op, rounding in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("rint", np.rint)):
            assert_same(found[op], rounding(a), a)
        square = of.rounded(a * a)
        assert_same(found["cube"], of.rounded(a * square), a)
        tenth = of.rounded(np.array([0.1]))[0]
        assert_same(found["plus"], of.rounded(a + tenth), a)
        assert_same(found["times"], of.rounded(3 * a), a)


@every_device
@narrow
def test_products_exhaustively_near_the_least_numbers(device: Any, of: Narrow) -> None:
    """Where results are subnormal, and where a product of two bf16 is smaller than any f32."""
    stored = of.precision - 1
    scale = -of.least // 2
    significands = np.arange(1 << stored, 2 << stored, dtype=np.float64)[:: 1 if of is not F16 else 7]
    for shift in range(-2, of.precision + 2, 2):
        x = of.of(np.ldexp(significands, -scale - stored))
        y = of.of(np.ldexp(significands, of.least + scale + shift - stored))
        first, second = np.repeat(x, y.size), np.tile(y, x.size)
        d = device.zeros(first.size, of.type)
        zero = device.full(first.size, -0.0, of.type)
        operands_ = [device.array(bits.view(of.numpy)) for bits in (first, second)]
        multiply(d, *operands_)
        wanted = of.rounded(of.values(first) * of.values(second))
        assert_same(of.values(d.numpy().view(np.uint16)), wanted, of.values(first), of.values(second))
        fused(d, *operands_, zero)
        assert_same(of.values(d.numpy().view(np.uint16)), wanted, of.values(first), of.values(second))


@kernel(grid=elements("d"))
def multiply(d: DisjointSlice[T], x: Slice[T], y: Slice[T]) -> None:
    """Products."""
    i = thread_index()
    if i in d:
        d[i] = x[i] * y[i]


@every_device
@narrow
def test_fma_rounds_once(device: Any, of: Narrow) -> None:
    x, y = operands(of, 20, 5000)
    z = tricky(of, x.size, 22)
    random = np.random.default_rng(23)
    # The product is the middle of two numbers (an odd integer of one bit more than they have), and the third operand is down to the least there is
    pairs = [(k, m) for k in range(3, 64, 2) for m in range(1, 1 << of.precision, 2) if 1 << of.precision <= k * m < 2 << of.precision]
    first, second = np.array(pairs, dtype=np.float64)[random.integers(0, len(pairs), 6000)].T
    exponent = random.integers(-20 if of is F16 else -100, 3, 6000)
    signs = random.choice([-1.0, 1.0], (2, 6000))
    x = np.concatenate([x, of.of(first * signs[0])])
    y = np.concatenate([y, of.of(of.rounded(np.ldexp(second, exponent)))])
    tiny = np.ldexp(signs[1], random.integers(of.least, -2, 6000))
    z = np.concatenate([z, of.of(tiny)])
    a, b, c = of.values(x), of.values(y), of.values(z)
    for kern, factor in ((fused, 1.0), (fused_difference, -1.0)):
        wanted = []
        with np.errstate(invalid="ignore"):  # NaNs that signal
            a_signed = (a * factor).tolist()
        for u, v, w in zip(a_signed, b.tolist(), c.tolist(), strict=True):
            if math.isfinite(u) and math.isfinite(v) and math.isfinite(w):
                wanted.append(exact_sum(of, (Fraction(u) * Fraction(v), Fraction(w)), (u * v if u * v else u * math.copysign(1, v), w)))
            else:
                with np.errstate(all="ignore"):
                    wanted.append(float(np.float64(u) * np.float64(v) + np.float64(w)))
        assert_same(run(kern, device, of, 1, x, y, z)[0], np.array(wanted), a, b, c)


@every_device
@narrow
def test_comparisons(device: Any, of: Narrow) -> None:
    x, y = operands(of, 30)
    y = np.where(np.random.default_rng(31).random(y.size) < 0.2, x, y)
    a, b = of.values(x), of.values(y)
    z = device.zeros(6 * x.size, kdsl.dtype(bool))
    comparisons(z, device.array(x.view(of.numpy)), device.array(y.view(of.numpy)))
    for found, wanted in zip(z.numpy().reshape(6, -1), (a < b, a <= b, a > b, a >= b, a == b, a != b), strict=True):
        np.testing.assert_array_equal(found, wanted)
