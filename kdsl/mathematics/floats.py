"""Pieces that the functions share: bits of floats, exact sums and products, polynomials.

A function of `Any` is compiled for the type that it gets; `x.dtype == f32` is decided at compile time. An unevaluated sum `high + low` of two floats, `low`
at most half a unit in the last place of `high`, holds about twice the bits of one. Every product and sum that has to fuse is an explicit `fma`, so that
`@kernel(contract=False)` changes nothing here.
"""

from typing import Any

from kdsl.frontend.function import Overloaded, function
from kdsl.lang.intrinsics import bits_double, bits_float, double_bits, float_bits, fma, unroll
from kdsl.lang.intrinsics.library import scale as scale
from kdsl.lang.types import F32, F64, I32, I64, f32, f64, i32, i64

# 1.5 * 2**(p - 1) for a precision of p bits: adding it leaves the nearest integer in the last bits
ROUNDER_F32 = 12582912.0
ROUNDER_F64 = 6755399441055744.0


@function
def copysign_f32(x: f32, y: f32) -> Any:
    """The magnitude of x with the sign of y, which may be a zero or a NaN."""
    return bits_float((float_bits(x) & 0x7FFFFFFF) | (float_bits(y) & -0x80000000))


@function
def copysign_f64(x: f64, y: f64) -> Any:
    """The magnitude of x with the sign of y, which may be a zero or a NaN."""
    return bits_double((double_bits(x) & 0x7FFFFFFFFFFFFFFF) | (double_bits(y) & -0x8000000000000000))


copysign = Overloaded("copysign", {F32: copysign_f32, F64: copysign_f64})


@function
def isnan(x: Any) -> Any:
    """Whether x is a NaN."""
    return x != x


@function
def isinf(x: Any) -> Any:
    """Whether x is an infinity, of either sign."""
    return abs(x) == x.dtype("inf")


@function
def isfinite(x: Any) -> Any:
    """Whether x is neither infinite nor a NaN."""
    return abs(x) < x.dtype("inf")


@function
def is_negative(x: Any) -> Any:
    """Whether the sign bit is set, also that of a zero."""
    if x.dtype == f32:
        return float_bits(x) < 0
    else:
        return double_bits(x) < 0


@function
def power_of_two_f32(n: i32) -> Any:
    """2**n for -126 <= n <= 127."""
    return bits_float((n + 127) << 23)


@function
def power_of_two_f64(n: i64) -> Any:
    """2**n for -1022 <= n <= 1023."""
    return bits_double((n + 1023) << 52)


power_of_two = Overloaded("power_of_two", {I32: power_of_two_f32, I64: power_of_two_f64})


@function
def nearest(x: Any) -> Any:
    """The nearest integer to x, |x| < 2**(p - 2), as a float and as an integer of its width; without a conversion, because those between f64 and i64
    are slow on many processors.
    """
    if x.dtype == f32:
        shifted = x + ROUNDER_F32
        return shifted - ROUNDER_F32, float_bits(shifted) - 0x4B400000
    else:
        shifted = x + ROUNDER_F64
        return shifted - ROUNDER_F64, double_bits(shifted) - 0x4338000000000000


@function
def small_integer_f32(n: i32) -> Any:
    """An integer below 2**22 in magnitude as a float."""
    return bits_float(n + 0x4B400000) - ROUNDER_F32


@function
def small_integer_f64(n: i64) -> Any:
    """An integer below 2**51 in magnitude as a float."""
    return bits_double(n + 0x4338000000000000) - ROUNDER_F64


small_integer = Overloaded("small_integer", {I32: small_integer_f32, I64: small_integer_f64})


@function
def polynomial(x: Any, coefficients: Any) -> Any:
    """c[0] + c[1] x + c[2] x**2 + ..., by Horner's rule."""
    sum_ = x.dtype(coefficients[len(coefficients) - 1])
    for i in unroll(len(coefficients) - 2, -1, -1):
        sum_ = fma(sum_, x, coefficients[i])
    return sum_


@function
def ordered_sum(a: Any, b: Any) -> Any:
    """a + b exactly as high + low, where |a| >= |b| or a is 0 (Dekker 1971)."""
    high = a + b
    return high, b - (high - a)


@function
def exact_sum(a: Any, b: Any) -> Any:
    """a + b exactly as high + low (Knuth, The Art of Computer Programming, volume 2, 4.2.2)."""
    high = a + b
    b_part = high - a
    a_part = high - b_part
    return high, (a - a_part) + (b - b_part)


@function
def exact_product(a: Any, b: Any) -> Any:
    """a * b exactly as high + low."""
    high = a * b
    return high, fma(a, b, -high)


@function
def multiply_pairs(a: Any, a_low: Any, b: Any, b_low: Any) -> Any:
    """(a + a_low) * (b + b_low) as high + low."""
    high, low = exact_product(a, b)
    return high, low + fma(a, b_low, a_low * b)


@function
def divide_pairs(a: Any, a_low: Any, b: Any, b_low: Any) -> Any:
    """(a + a_low) / (b + b_low) as high + low, with one division."""
    inverse = 1.0 / b
    high = a * inverse
    rest = fma(-high, b, a) + fma(-high, b_low, a_low)
    return high, rest * inverse
