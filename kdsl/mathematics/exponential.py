"""Exponential and logarithm."""

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import bits_float, float_bits, fma, rint
from kdsl.lang.types import f32, i32

LOG2_E = 1.4426950408889634
# ln 2 in two parts, the first with so few bits that its product with an exponent is exact (Cody and Waite 1980)
LN2_HIGH = 0.693359375
LN2_LOW = -2.12194440054690583e-4


@function
def exp_f32(x: f32) -> f32:
    """e ** x: x = n ln 2 + r with |r| <= ln 2 / 2, the Taylor polynomial of degree 7 in r (error under 2**-27), scaled by 2**n in two exact steps."""
    t = min(max(x, -105.0), 90.0)  # beyond, the result is 0 or infinite anyway; a NaN passes through
    n = rint(t * LOG2_E)
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, t))
    p = 0.00019841270 * r + 0.0013888889
    p = p * r + 0.0083333333
    p = p * r + 0.041666667
    p = p * r + 0.16666667
    p = p * r + 0.5
    p = fma(p * r, r, r) + 1.0
    power = i32(n)
    half = power >> 1
    # 2**n itself may be out of range where the result is not; both halves are in range, and only the last product rounds
    result: f32 = p * bits_float((half + 127) << 23) * bits_float((power - half + 127) << 23)
    return result


@function
def log_f32(x: f32) -> f32:
    """Natural logarithm: x = 2**e m with m in [sqrt(1/2), sqrt(2)), a polynomial in m - 1 (Cephes, Moshier 1992), plus e ln 2 in two parts."""
    scaled, extra = x, 0.0
    if x < 1.1754944e-38:  # a subnormal has no hidden bit: scale it up by 2**25
        scaled, extra = x * 33554432.0, -25.0
    # moving the origin to sqrt(1/2) makes the exponent field of the difference the exponent of m in that interval
    moved = float_bits(scaled) - 0x3F3504F3
    e = f32(moved >> 23) + extra
    f = bits_float((moved & 0x7FFFFF) + 0x3F3504F3) - 1.0
    z = f * f
    p = 0.070376836292 * f - 0.11514610310
    p = p * f + 0.11676998740
    p = p * f - 0.12420140846
    p = p * f + 0.14249322787
    p = p * f - 0.16668057665
    p = p * f + 0.20000714765
    p = p * f - 0.24999993993
    p = p * f + 0.33333331174
    p = p * f * z
    p = e * LN2_LOW + p
    p = p - 0.5 * z
    result: f32 = e * LN2_HIGH + (f + p)
    if x == f32("inf"):
        result = x
    if x == 0.0:
        result = f32("-inf")
    if not x >= 0.0:
        result = f32("nan")
    return result
