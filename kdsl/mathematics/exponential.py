"""Exponentials: exp, exp2, exp10, expm1, and the pieces of them that others use.

x = n ln 2 + r with |r| <= ln 2 / 2, where r is a float and a correction (Cody and Waite 1980, with fused steps, of which the first is exact);
exp(r) from cosh(r) - 1 and sinh(r) - r, which are polynomials in r**2; the result is scaled by 2**n in two exact steps.
"""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import fma
from kdsl.lang.types import f32
from kdsl.mathematics.floats import copysign, nearest, ordered_sum, polynomial, power_of_two, scale

LOG2_E = 1.4426950408889634
# ln 2 in two parts
LN2_F32 = (0.6931472, -1.9046542e-09)
LN2_F64 = (0.6931471805599453, 2.3190468138462996e-17)
LOG2_10 = 3.321928094887362
# log10 2 and ln 10, likewise
LOG10_2_F32 = (0.30103, -1.4320989e-08)
LOG10_2_F64 = (0.3010299956639812, -2.8037281277851704e-18)
LN10_F32 = (2.3025851, -3.1975436e-08)
LN10_F64 = (2.302585092994046, -2.1707562233822494e-16)
# (cosh(r) - 1) / r**2 and (sinh(r) - r) / r**3 in r**2: minimax, relative errors of exp below 2**-28 and 2**-63
EVEN_F32 = (0.5, 0.041666266, 0.0013946326)
ODD_F32 = (0.16666518, 0.008368953)
EVEN_F64 = (
    0.5, 0.04166666666666671, 0.0013888888888863755, 2.480158736373472e-05, 2.7557241541444745e-07, 2.092451272651492e-09
)  # fmt: skip
ODD_F64 = (0.16666666666666685, 0.008333333333316628, 0.00019841269897341056, 2.75572339492906e-06, 2.5112341826518464e-08)


@function
def reduce_by_ln2(x: Any, x_low: Any) -> Any:
    """r, its correction, and n (an integer) with x + x_low = n ln 2 + r + correction."""
    n, power = nearest(x * LOG2_E)
    ln2 = LN2_F32 if x.dtype == f32 else LN2_F64
    r = fma(n, -ln2[0], x)  # exact
    r, low = ordered_sum(r, fma(n, -ln2[1], x_low))
    return r, low, power


@function
def hyperbolic_rests(r: Any) -> Any:
    """cosh(r) - 1 and sinh(r) - r for |r| <= ln 2 / 2."""
    z = r * r
    even = polynomial(z, EVEN_F32 if r.dtype == f32 else EVEN_F64)
    odd = polynomial(z, ODD_F32 if r.dtype == f32 else ODD_F64)
    return z * even, r * z * odd


@function
def exp_pair(r: Any, low: Any) -> Any:
    """exp(r + low) for |r| <= ln 2 / 2 as a float and a correction."""
    even, odd = hyperbolic_rests(r)
    high, rest = ordered_sum(r.dtype(1), r)
    return ordered_sum(high, rest + fma(r, low, low + odd + even))


@function
def exp(x: Any) -> Any:
    """e ** x."""
    # beyond these the result is 0 or infinite anyway; a NaN passes
    lowest = -105.0 if x.dtype == f32 else -750.0
    highest = 90.0 if x.dtype == f32 else 712.0
    t = lowest if x < lowest else x
    t = highest if t > highest else t
    r, low, power = reduce_by_ln2(t, x.dtype(0))
    even, odd = hyperbolic_rests(r)
    return scale(1.0 + (r + (low + odd + even)), power)


@function
def exp2(x: Any) -> Any:
    """2 ** x; exact where x is an integer."""
    lowest = -152.0 if x.dtype == f32 else -1077.0
    highest = 129.0 if x.dtype == f32 else 1025.0
    t = lowest if x < lowest else x
    t = highest if t > highest else t
    n, power = nearest(t)
    rest = t - n
    ln2 = LN2_F32 if x.dtype == f32 else LN2_F64
    r = rest * ln2[0]
    low = fma(rest, ln2[1], fma(rest, ln2[0], -r))
    even, odd = hyperbolic_rests(r)
    return scale(1.0 + (r + (low + odd + even)), power)


@function
def exp10(x: Any) -> Any:
    """10 ** x; exact where x is an integer from 0 on and the power is a float."""
    lowest = -46.0 if x.dtype == f32 else -325.0
    highest = 39.0 if x.dtype == f32 else 309.0
    t = lowest if x < lowest else x
    t = highest if t > highest else t
    n, power = nearest(t * LOG2_10)
    log10_2 = LOG10_2_F32 if x.dtype == f32 else LOG10_2_F64
    ln10 = LN10_F32 if x.dtype == f32 else LN10_F64
    rest, rest_low = ordered_sum(fma(n, -log10_2[0], t), -n * log10_2[1])  # the first exactly
    r = rest * ln10[0]
    low = fma(rest_low, ln10[0], fma(rest, ln10[1], fma(rest, ln10[0], -r)))
    even, odd = hyperbolic_rests(r)
    return scale(1.0 + (r + (low + odd + even)), power)


@function
def grown(r: Any, low: Any, factor: Any) -> Any:
    """factor * exp(r + low) - 1 as a float and a correction, for a power of 2 as factor: (factor - 1) + factor * (exp(r) - 1), the
    first exact where it matters.
    """
    even, odd = hyperbolic_rests(r)
    # at factor 1 the whole is r exactly; at 1/2 and 2 it is at least 1/2 of 1
    whole, rest = ordered_sum(factor - 1.0, factor * r)
    return whole, fma(factor, low + odd + even, rest)


@function
def expm1(x: Any) -> Any:
    """e ** x - 1, without the loss of digits of that formula near 0."""
    lowest = -20.0 if x.dtype == f32 else -40.0  # -1 below
    highest = 89.0 if x.dtype == f32 else 710.0  # infinite above
    t = lowest if x < lowest else x
    t = highest if t > highest else t
    r, low, power = reduce_by_ln2(t, x.dtype(0))
    down = 1 if power > 100 else 0  # 2**n may be out of range where the result is not
    whole, rest = grown(r, low, power_of_two(power - down))
    return copysign((whole + rest) * (2.0 if down == 1 else 1.0), x)
