"""Logarithms: log, log2, log10, log1p.

x = 2**e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). With s = f / (2 + f), log(1 + f) = f - f**2/2 + s (f**2/2 + R(s**2)) as in fdlibm (Sun Microsystems
1993), with a minimax polynomial for R.
"""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import bits_double, bits_float, double_bits, float_bits, fma
from kdsl.lang.types import f32
from kdsl.mathematics.exponential import LN2_F32, LN2_F64, LOG10_2_F32, LOG10_2_F64
from kdsl.mathematics.floats import exact_product, exact_sum, ordered_sum, polynomial, small_integer

# (log((1 + s) / (1 - s)) / s - 2) / s**2 in s**2: relative errors of the logarithm 2**-37 and 2**-59
LOG_F32 = (0.6666666, 0.40000334, 0.2853731, 0.2358213)
LOG_F64 = (
    0.6666666666666734, 0.3999999999941462, 0.28571428742416466, 0.22222198569331647,
    0.1818356455683232, 0.15314044100755356, 0.14796018258780044,
)  # fmt: skip
ONE_BY_LN2_F32 = (1.442695, 1.925963e-08)
ONE_BY_LN2_F64 = (1.4426950408889634, 2.0355273740931033e-17)
ONE_BY_LN10_F32 = (0.4342945, -1.010305e-08)
ONE_BY_LN10_F64 = (0.4342944819032518, 1.098319650216765e-17)


@function
def split(x: Any) -> Any:
    """e (a float) and f of a positive, finite x. Moving the origin of the bits to sqrt(1/2) makes the exponent field of the difference e."""
    if x.dtype == f32:
        tiny = x < 2.0**-126  # a subnormal has no hidden bit: scale it up by 2**25
        moved = float_bits(x * 2.0**25 if tiny else x) - 0x3F3504F3
        e = small_integer(moved >> 23) - (25.0 if tiny else 0.0)
        return e, bits_float((moved & 0x7FFFFF) + 0x3F3504F3) - 1.0
    else:
        tiny = x < 2.0**-1022
        moved = double_bits(x * 2.0**54 if tiny else x) - 0x3FE6A09E667F3BCD
        e = small_integer(moved >> 52) - (54.0 if tiny else 0.0)
        return e, bits_double((moved & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0


@function
def rest_of_log(f: Any) -> Any:
    """f**2/2 and the rest of log(1 + f) = f - f**2/2 + rest."""
    s = f / (2.0 + f)
    z = s * s
    half_square = 0.5 * f * f
    return half_square, s * fma(z, polynomial(z, LOG_F32 if f.dtype == f32 else LOG_F64), half_square)


@function
def special(x: Any, value: Any) -> Any:
    """The value, except where the logarithm of x is not finite."""
    value = x if x == x.dtype("inf") else value
    value = x.dtype("-inf") if x == 0.0 else value
    return value if x >= 0.0 else x.dtype("nan")


@function
def log(x: Any) -> Any:
    """Natural logarithm; -inf of a zero, NaN of negative numbers."""
    e, f = split(x)
    half_square, rest = rest_of_log(f)
    ln2 = LN2_F32 if x.dtype == f32 else LN2_F64
    return special(x, fma(e, ln2[0], f - (half_square - fma(e, ln2[1], rest))))


@function
def in_base(x: Any, unit: Any, unit_low: Any, factor: Any, factor_low: Any) -> Any:
    """(e * unit + log(1 + f) * factor), all in pairs."""
    e, f = split(x)
    half_square, rest = rest_of_log(f)
    square_low = fma(0.5 * f, f, -half_square)
    high, low = ordered_sum(f, -half_square)
    low += rest - square_low
    product, product_low = exact_product(high, factor)
    product_low += fma(high, factor_low, low * factor)
    whole, whole_low = exact_product(e, unit)
    total, total_low = ordered_sum(whole, product)
    return special(x, total + (total_low + (product_low + fma(e, unit_low, whole_low))))


@function
def log2(x: Any) -> Any:
    """Binary logarithm; exact for powers of 2."""
    factor = ONE_BY_LN2_F32 if x.dtype == f32 else ONE_BY_LN2_F64
    return in_base(x, x.dtype(1), x.dtype(0), x.dtype(factor[0]), x.dtype(factor[1]))


@function
def log10(x: Any) -> Any:
    """Decimal logarithm; exact for the powers of 10 that are floats."""
    unit = LOG10_2_F32 if x.dtype == f32 else LOG10_2_F64
    factor = ONE_BY_LN10_F32 if x.dtype == f32 else ONE_BY_LN10_F64
    return in_base(x, x.dtype(unit[0]), x.dtype(unit[1]), x.dtype(factor[0]), x.dtype(factor[1]))


@function
def corrected_log(e: Any, f: Any, c: Any, u: Any) -> Any:
    """log(u + c) for u = 2**e (1 + f) and a small c, which adds c / u to the logarithm of u."""
    half_square, rest = rest_of_log(f)
    ln2 = LN2_F32 if f.dtype == f32 else LN2_F64
    # the rounding of f + c / u counts where e is 0 and c is most of what u + c exceeds 1 by
    high, low = ordered_sum(f, c / u)
    return fma(e, ln2[0], high - (half_square - (low + fma(e, ln2[1], rest))))


@function
def log1p(x: Any) -> Any:
    """log(1 + x), without the loss of digits of that formula near 0."""
    u, c = exact_sum(x.dtype(1), x)  # c is what 1 + x loses in rounding
    e, f = split(u)
    value = corrected_log(e, f, c, u)
    return x if x == 0.0 else special(u, value)
