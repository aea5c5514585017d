"""Hyperbolic functions."""

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import float_bits
from kdsl.lang.types import f32
from kdsl.mathematics.exponential import exp_f32


@function
def tanh_f32(x: f32) -> f32:
    """Hyperbolic tangent: an odd polynomial below 0.625 (Cephes, Moshier 1992), 1 - 2 / (exp(2 |x|) + 1) above."""
    y = abs(x)
    z = y * y
    small = -0.00570498872745 * z + 0.0206390887954
    small = small * z - 0.0537397155531
    small = small * z + 0.133314422036
    small = small * z - 0.333332819422
    small = (small * z) * y + y
    large = 1.0 - 2.0 / (exp_f32(2.0 * y) + 1.0)
    value = small if y < 0.625 else large
    return -value if float_bits(x) < 0 else value  # the sign of a zero, too
