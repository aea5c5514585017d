"""Powers and roots: pow, cbrt, hypot."""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import bits_double, bits_float, double_bits, float_bits, fma, sqrt, trunc
from kdsl.lang.types import f32
from kdsl.mathematics.exponential import LN2_F32, LN2_F64, exp_pair
from kdsl.mathematics.floats import (
    copysign,
    exact_product,
    is_negative,
    multiply_pairs,
    nearest,
    ordered_sum,
    polynomial,
    power_of_two,
    scale,
)
from kdsl.mathematics.logarithm import split

# (atanh(s) / s - 1 - s**2 / 3) / s**4 in s**2 for |s| <= 0.1716: minimax, relative errors of the logarithm 2**-37 and 2**-66
TAIL_F32 = (0.20000076, 0.1427357, 0.11709197)
TAIL_F64 = (
    0.20000000000001128, 0.1428571428505017, 0.11111111259887868, 0.09090892190275933,
    0.07693378349051984, 0.06628416340152299, 0.06598094550301713,
)  # fmt: skip
THIRD_F32 = (0.33333334, -9.934108e-09)
THIRD_F64 = (0.3333333333333333, 1.850371707708594e-17)
TWO_BY_LN2_F32 = (2.88539, 3.851926e-08)
TWO_BY_LN2_F64 = (2.8853900817779268, 4.0710547481862066e-17)
# m**(-1/3) for 1 <= m < 8, relative error 2**-7
ROOT = (1.3377155648100083, -0.44085032904788707, 0.1085095463583793, -0.012987237945684094, 0.0005853162838373394)


@function
def log2_pair(x: Any) -> Any:
    """Binary logarithm of a positive, finite x, as a pair with about 12 bits more than a float: e + 2 atanh(f / (2 + f)) / ln 2."""
    third = THIRD_F32 if x.dtype == f32 else THIRD_F64
    factor = TWO_BY_LN2_F32 if x.dtype == f32 else TWO_BY_LN2_F64
    e, f = split(x)
    bottom, bottom_low = ordered_sum(x.dtype(2), f)
    inverse = 1.0 / bottom
    s = f * inverse
    s_low = fma(-s, bottom_low, fma(-s, bottom, f)) * inverse
    s, s_low = ordered_sum(s, s_low)
    z, z_low = exact_product(s, s)
    z_low = fma(s + s, s_low, z_low)
    part, part_low = exact_product(z, third[0])
    part_low += fma(z, third[1], z_low * third[0])
    tail = z * z * polynomial(z, TAIL_F32 if x.dtype == f32 else TAIL_F64)
    part, rest = ordered_sum(part, tail)
    series, series_low = ordered_sum(x.dtype(1), part)
    high, low = multiply_pairs(s, s_low, series, series_low + (rest + part_low))
    high, low = multiply_pairs(high, low, x.dtype(factor[0]), x.dtype(factor[1]))
    total, total_low = ordered_sum(e, high)
    return ordered_sum(total, total_low + low)


@function
def pow(x: Any, y: Any) -> Any:
    """x ** y with the special cases of C: 1 for y = 0 and x = 1 whatever the other is, NaN for negative x where y is no integer."""
    infinity = x.dtype("inf")
    size = abs(x)
    high, low = log2_pair(size)
    high = infinity if size == infinity else high
    high = -infinity if size == 0.0 else high
    exponent = y * high
    exponent_low = fma(y, low, fma(y, high, -exponent))
    limit = 200.0 if x.dtype == f32 else 1200.0  # beyond, the result is 0 or infinite anyway
    if not abs(exponent) < limit:
        exponent, exponent_low = copysign(x.dtype(limit), exponent), x.dtype(0)
    n, power = nearest(exponent)
    rest = exponent - n
    ln2 = LN2_F32 if x.dtype == f32 else LN2_F64
    r = rest * ln2[0]
    # what the product with y leaves may be large beside r
    r, r_low = ordered_sum(r, fma(rest, ln2[0], -r) + fma(rest, ln2[1], exponent_low * ln2[0]))
    value, value_low = exp_pair(r, r_low)
    value = scale(value + value_low, power)
    half = 0.5 * y
    whole = trunc(y) == y
    value = -value if is_negative(x) and whole and trunc(half) != half else value
    value = x.dtype("nan") if x < 0.0 and not whole and size < infinity else value
    value = value if x == x and y == y else x.dtype("nan")
    return x.dtype(1) if x == 1.0 or y == 0.0 or (x == -1.0 and abs(y) == infinity) else value


@function
def cbrt(x: Any) -> Any:
    """Cube root. |x| = 2**(3 q) m with 1 <= m < 8; m**(-1/3) by steps of Halley's kind without a division, and the root corrected by its exact residual."""
    size = abs(x)
    if x.dtype == f32:
        tiny = size < 2.0**-126
        bits = float_bits(size * 2.0**24 if tiny else size)
        exponent = (bits >> 23) + 2  # 127 more than the true one, and 3 * 43
        third = (exponent * 43691) >> 17  # by 3
        q = third - 43 - (8 if tiny else 0)
        m = bits_float((bits & 0x7FFFFF) | ((exponent - 3 * third + 127) << 23))
    else:
        tiny = size < 2.0**-1022
        bits = double_bits(size * 2.0**54 if tiny else size)
        exponent = (bits >> 52) + 3  # 1023 more than the true one, and 3 * 342
        third = (exponent * 43691) >> 17
        q = third - 342 - (18 if tiny else 0)
        m = bits_double((bits & 0xFFFFFFFFFFFFF) | ((exponent - 3 * third + 1023) << 52))
    y = polynomial(m, ROOT)
    e = fma(-m * y, y * y, 1.0)
    y = fma(y * e, polynomial(e, (0.3333333333333333, 0.2222222222222222, 0.1728395061728395)), y)
    if x.dtype != f32:
        e = fma(-m * y, y * y, 1.0)
        y = fma(y * e, polynomial(e, (0.3333333333333333, 0.2222222222222222)), y)
    square = y * y
    root = m * square
    root2, root2_low = exact_product(root, root)
    residual = fma(-root2_low, root, fma(-root2, root, m))
    root = fma(residual * square, 0.3333333333333333, root) * power_of_two(q)
    return copysign(root, x) if size < x.dtype("inf") and size != 0.0 else x


@function
def hypot(x: Any, y: Any) -> Any:
    """sqrt(x**2 + y**2) without overflow or underflow on the way, the root corrected by its residual (Borges 2019); infinite if either is, also
    beside a NaN.
    """
    a, b = max(abs(x), abs(y)), min(abs(x), abs(y))
    factor, back = x.dtype(1), x.dtype(1)
    if x.dtype == f32:
        large, small = a > 2.0**60, a < 2.0**-50
        factor, back = 2.0**-100 if large else factor, 2.0**100 if large else back
        factor, back = 2.0**100 if small else factor, 2.0**-100 if small else back
    else:
        large, small = a > 2.0**480, a < 2.0**-400
        factor, back = 2.0**-700 if large else factor, 2.0**700 if large else back
        factor, back = 2.0**700 if small else factor, 2.0**-700 if small else back
    a, b = a * factor, b * factor
    root = sqrt(fma(a, a, b * b))
    root2, a2 = root * root, a * a
    excess = fma(-b, b, root2 - a2) + fma(root, root, -root2) - fma(a, a, -a2)
    least = 2.0**-126 if x.dtype == f32 else 2.0**-1022
    value = (root - excess / max(root + root, least)) * back
    return x.dtype("inf") if abs(x) == x.dtype("inf") or abs(y) == x.dtype("inf") else value
