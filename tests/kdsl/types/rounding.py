"""What the 16-bit floats are, written down a second time for the tests: their values, and one exact rounding, in arrays and in rational numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

import kdsl

Bits = npt.NDArray[np.uint16]
Doubles = npt.NDArray[np.float64]
EVERY: Final[Bits] = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


@dataclass(frozen=True)
class Narrow:
    """A 16-bit float."""

    type: Any
    precision: int
    least: int
    """Exponent of the smallest subnormal."""
    largest: float
    numpy: Any

    def values(self, bits: Bits) -> Doubles:
        """The numbers, exactly."""
        if self.precision == 11:
            return bits.view(np.float16).astype(np.float64)
        with np.errstate(invalid="ignore"):  # NaNs that signal
            return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

    def of(self, values: Doubles) -> Bits:
        """Bits of numbers that the type holds exactly."""
        if self.precision == 11:
            return values.astype(np.float16).view(np.uint16)
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)

    def rounded(self, values: Doubles) -> Doubles:
        """Rounded to nearest even, once."""
        with np.errstate(invalid="ignore", over="ignore"):
            finite = np.where(np.isfinite(values), values, 0.0)
            exponent = np.frexp(finite)[1]
            unit = np.maximum(exponent - self.precision, self.least)
            result = np.ldexp(np.rint(np.ldexp(finite, -unit)), unit)
            result = np.where(np.abs(result) > self.largest, np.copysign(np.inf, result), result)
        return np.where(np.isfinite(values), np.copysign(result, values), values)

    def rounded_fraction(self, exact: Fraction) -> float:
        """An exact number other than 0, rounded to nearest even."""
        size = abs(exact)
        exponent = size.numerator.bit_length() - size.denominator.bit_length()  # or one less
        if size < Fraction(2) ** exponent:
            exponent -= 1
        unit = Fraction(2) ** max(exponent - self.precision + 1, self.least)
        result = round(size / unit) * unit
        return math.copysign(math.inf if result > self.largest else float(result), exact)


F16: Final = Narrow(kdsl.f16, 11, -24, 65504.0, np.float16)
BF16: Final = Narrow(kdsl.bf16, 8, -133, float(Fraction(255, 128) * 2**127), ml_dtypes.bfloat16)
BOTH: Final = (F16, BF16)


def assert_same(found: Doubles, wanted: Doubles, *operands: Any) -> None:
    """The same numbers, with the signs of zeros; any NaN is like any other."""
    same = (np.isnan(found) & np.isnan(wanted)) | ((found == wanted) & (np.signbit(found) == np.signbit(wanted)))
    if not same.all():
        places = np.flatnonzero(~same)[:8]
        rows = [(*(o[p] for o in operands), "found", found[p], "wanted", wanted[p]) for p in places]
        raise AssertionError(f"{(~same).sum()} of {same.size} differ:\n" + "\n".join(map(str, rows)))


def tricky(of: Narrow, count: int, seed: int) -> Bits:
    """Random bits, a third of them near 1, so that operands interact; specials among them."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 1 << 16, count, dtype=np.uint16)
    near = of.of(of.rounded(np.ldexp(random.uniform(1, 2, count), random.integers(-12, 13, count))))
    sign = random.integers(0, 2, count, dtype=np.uint16) << np.uint16(15)
    bits = np.where(random.random(count) < 0.4, near | sign, bits)
    return np.where(random.random(count) < 0.05, random.choice(specials(of), count), bits)


def specials(of: Narrow) -> Bits:
    """Zeros, the ends of the subnormal and normal ranges, ones, infinities, a NaN, of both signs."""
    stored = of.precision - 1
    infinity = ((1 << (15 - stored)) - 1) << stored
    one = int(of.of(np.array([1.0]))[0])
    positive = [0, 1, 2, 3, (1 << stored) - 1, 1 << stored, (1 << stored) + 1, one - 1, one, one + 1, infinity - 1, infinity, infinity + 1]
    return np.array([bits | sign for bits in positive for sign in (0, 1 << 15)], dtype=np.uint16)
