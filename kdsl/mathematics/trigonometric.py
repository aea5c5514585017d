"""Sine, cosine, tangent of angles in radians."""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import fma
from kdsl.lang.types import f32
from kdsl.mathematics.floats import divide_pairs, is_negative, ordered_sum, polynomial
from kdsl.mathematics.reduction import reduce

# (sin(r) / r - 1) / r**2 and ((cos(r) - 1) / r**2 + 1/2) / r**2 in r**2 for |r| <= pi/4: minimax, relative errors 2**-28, 2**-33; 2**-58, 2**-64
SIN_F32 = (-0.16666655, 0.008332174, -0.00019516697)
COS_F32 = (0.041666646, -0.0013887362, 2.4437808e-05)
SIN_F64 = (
    -0.16666666666666632, 0.008333333333322318, -0.00019841269829726877, 2.7557313662560002e-06, -2.5050753337732396e-08, 1.5896509058954322e-10
)  # fmt: skip
COS_F64 = (
    0.0416666666666666, -0.0013888888888873997, 2.4801587289398592e-05, -2.7557314327116795e-07, 2.0875719710032224e-09, -1.1359456692689397e-11
)  # fmt: skip


@function
def sine_and_cosine(r: Any, r_low: Any) -> Any:
    """sin and cos of r + r_low for |r| <= pi/4, each as a float and a correction (the sine's is not small)."""
    z = r * r
    half = 0.5 * z
    cosine = 1.0 - half
    sine_rest = fma(r * z, polynomial(z, SIN_F32 if r.dtype == f32 else SIN_F64), r_low * cosine)
    # what 1 - z/2 loses in rounding, and what z does
    lost = fma(-0.5, fma(r, r, -z), (1.0 - cosine) - half)
    cosine_rest = fma(z * z, polynomial(z, COS_F32 if r.dtype == f32 else COS_F64), fma(-r, r_low, lost))
    return r, sine_rest, cosine, cosine_rest


@function
def sine_of(r: Any, r_low: Any, quadrant: Any) -> Any:
    """sin(r + r_low + quadrant * pi/2)."""
    sine, sine_rest, cosine, cosine_rest = sine_and_cosine(r, r_low)
    odd = quadrant & 1 == 1
    value = (cosine if odd else sine) + (cosine_rest if odd else sine_rest)
    return -value if quadrant & 2 == 2 else value


@function
def sin(x: Any) -> Any:
    """Sine of an angle in radians; NaN of an infinity."""
    r, r_low, quadrant = reduce(abs(x))
    value = sine_of(r, r_low, quadrant)
    return -value if is_negative(x) else value


@function
def cos(x: Any) -> Any:
    """Cosine of an angle in radians; NaN of an infinity."""
    r, r_low, quadrant = reduce(abs(x))
    return sine_of(r, r_low, quadrant + 1)


@function
def tan(x: Any) -> Any:
    """Tangent of an angle in radians; NaN of an infinity."""
    r, r_low, quadrant = reduce(abs(x))
    sine, sine_rest, cosine, cosine_rest = sine_and_cosine(r, r_low)
    sine, sine_rest = ordered_sum(sine, sine_rest)
    cosine, cosine_rest = ordered_sum(cosine, cosine_rest)
    odd = quadrant & 1 == 1
    high, low = divide_pairs(
        -cosine if odd else sine, -cosine_rest if odd else sine_rest, sine if odd else cosine, sine_rest if odd else cosine_rest
    )
    value = high + low
    return -value if is_negative(x) else value
