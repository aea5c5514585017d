"""Inverse trigonometric functions: asin, acos, atan, atan2."""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import fma, sqrt
from kdsl.lang.types import f32
from kdsl.mathematics.floats import copysign, is_negative, ordered_sum, polynomial

PI_F32 = (3.1415927, -8.742278e-08)
PI_F64 = (3.141592653589793, 1.2246467991473532e-16)
PI_HALF_F32 = (1.5707964, -4.371139e-08)
PI_HALF_F64 = (1.5707963267948966, 6.123233995736766e-17)
# (atan(q) / q - 1) / q**2 in q**2 for |q| <= 7/16: minimax, relative errors of the result 2**-34, 2**-58
ATAN_F32 = (-0.3333333, 0.19999845, -0.1428032, 0.110238574, -0.08360616, 0.04507165)
ATAN_F64 = (
    -0.3333333333333293, 0.19999999999876147, -0.1428571427247953, 0.11111110404566756, -0.09090887113550798, 0.07691875926010631,
    -0.06661070595507855, 0.05833555127147585, -0.04976822575249316, 0.03653040889570768, -0.016284758935481168,
)  # fmt: skip
# atan(1/2), atan(1), atan(3/2), atan(infinity), each in two parts
BASES_F32 = (0.4636476, 5.0121587e-09, 0.7853982, -2.1855694e-08, 0.98279375, -2.5131424e-08, 1.5707964, -4.371139e-08)
BASES_F64 = (
    0.4636476090008061, 2.2698777452961687e-17, 0.7853981633974483, 3.061616997868383e-17,
    0.982793723247329, 1.3903311031230998e-17, 1.5707963267948966, 6.123233995736766e-17,
)  # fmt: skip
# (asin(y) / y - 1) / y**2 in y**2 for 0 <= y <= 1/2: minimax, relative errors of the result 2**-31, 2**-59
ASIN_F32 = (0.1666666, 0.07500511, 0.04451574, 0.031817462, 0.014403111, 0.037564564)
ASIN_F64 = (
    0.16666666666666763, 0.07499999999970279, 0.04464285717510752, 0.030381942684161396, 0.02237221564662903, 0.01735160031725331,
    0.01398095892421902, 0.01139779557471769, 0.01078642412326088, 0.0036834232600408156, 0.021762602463102368,
    -0.02107606135787052, 0.03267614120594938,
)  # fmt: skip


@function
def angle(a: Any, b: Any) -> Any:
    """atan(a / b) for a, b >= 0 as a float and a correction: the addition theorem takes off 0, atan(1/2), atan(1), atan(3/2) or pi/2 so that at most 7/16
    remains (the intervals of fdlibm, Sun Microsystems 1993), with one division for all of them.
    """
    bases = BASES_F32 if a.dtype == f32 else BASES_F64
    below1, below2 = a < 0.4375 * b, a < 0.6875 * b
    below3, below4 = a < 1.1875 * b, a < 2.4375 * b
    top = fma(-1.5, b, a) if below4 else -b
    bottom = fma(1.5, a, b) if below4 else a
    base = a.dtype(bases[4]) if below4 else bases[6]
    base_low = a.dtype(bases[5]) if below4 else bases[7]
    top, bottom = a - b if below3 else top, a + b if below3 else bottom
    base, base_low = bases[2] if below3 else base, bases[3] if below3 else base_low
    top, bottom = fma(2.0, a, -b) if below2 else top, fma(2.0, b, a) if below2 else bottom
    base, base_low = bases[0] if below2 else base, bases[1] if below2 else base_low
    top, bottom = a if below1 else top, b if below1 else bottom
    base, base_low = 0.0 if below1 else base, 0.0 if below1 else base_low
    q = top / bottom
    z = q * q
    rest = q * z * polynomial(z, ATAN_F32 if a.dtype == f32 else ATAN_F64)
    high, low = ordered_sum(base, q)
    return high, low + (base_low + rest)


@function
def atan(x: Any) -> Any:
    """Arc tangent, in [-pi/2, pi/2]."""
    high, low = angle(abs(x), x.dtype(1))
    return copysign(high + low, x)


@function
def atan2(y: Any, x: Any) -> Any:
    """Angle of the point (x, y), in [-pi, pi]; signs of zeros and infinities count as in C."""
    a, b = abs(y), abs(x)
    # bring pairs that are so large or so small that products with them are not exact to the middle; where that rounds, the quotient is beyond all floats
    largest = max(a, b)
    factor = x.dtype(1)
    if x.dtype == f32:
        factor = 2.0**-20 if largest > 2.0**100 else factor
        factor = 2.0**40 if largest < 2.0**-90 else factor
    else:
        factor = 2.0**-20 if largest > 2.0**1000 else factor
        factor = 2.0**110 if largest < 2.0**-900 else factor
    p, q = a * factor, b * factor
    # equal ones, infinite ones too, are at pi/4; a zero y is at 0, a zero x too
    p = 1.0 if a == b else p
    q = 1.0 if a == b or a == 0.0 else q
    p = 0.0 if a == 0.0 else p
    high, low = angle(p, q)
    pi = PI_F32 if x.dtype == f32 else PI_F64
    away, away_low = ordered_sum(x.dtype(pi[0]), -high)
    value = away + (away_low + (pi[1] - low)) if is_negative(x) else high + low
    value = copysign(value, y)
    return value if x == x and y == y else x.dtype("nan")


@function
def arc(x: Any) -> Any:
    """Whether |x| is above 1/2; y, which is |x| below and sqrt((1 - |x|) / 2) above; and a small rest with asin(y) = y + rest."""
    size = abs(x)
    large = size > 0.5
    z = fma(-0.5, size, 0.5) if large else x * x
    y = sqrt(z) if large else size
    # what the root loses in rounding
    lost = fma(-y, y, z) / max(y + y, 1e-30) if large else x.dtype(0)
    return large, y, fma(y * z, polynomial(z, ASIN_F32 if x.dtype == f32 else ASIN_F64), lost)


@function
def asin(x: Any) -> Any:
    """Arc sine, in [-pi/2, pi/2]; NaN outside of [-1, 1]."""
    large, y, rest = arc(x)
    pi_half = PI_HALF_F32 if x.dtype == f32 else PI_HALF_F64
    high, low = ordered_sum(x.dtype(pi_half[0]), -2.0 * y)  # asin(|x|) = pi/2 - 2 asin(y)
    value = high + fma(-2.0, rest, low + pi_half[1]) if large else y + rest
    return copysign(value, x)


@function
def acos(x: Any) -> Any:
    """Arc cosine, in [0, pi]; NaN outside of [-1, 1]."""
    large, y, rest = arc(x)
    pi_half = PI_HALF_F32 if x.dtype == f32 else PI_HALF_F64
    negative = is_negative(x)
    # 2 asin(y) above 1/2; pi/2 - asin(x) in the middle; pi - 2 asin(y) below -1/2
    times = x.dtype(2) if large else x.dtype(1)
    part, part_rest = times * y, times * rest
    near = part + part_rest
    away = copysign(x.dtype(1), x) if not large else x.dtype(1)
    high, low = ordered_sum(times * pi_half[0], -away * part)
    return near if large and not negative else high + (low + fma(-away, part_rest, times * pi_half[1]))
