"""Division of floats with an integral quotient: fmod, remainder, and what `//` and `%` mean.

The remainder is exact. Every step takes off a multiple of y * 2**k with a quotient below 2**(p - 1), for a precision of p bits: the truncated quotient is an
integer that the float holds, at most one too large, and the fused difference is exact, because it is a multiple of the last place of y * 2**k and smaller than
it. A step removes p - 2 bits, so that one is enough unless the quotient is huge; at most 13 (f32) or 42 (f64) are needed.
"""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import double_bits, float_bits, floor, fma, trunc
from kdsl.lang.types import f32
from kdsl.mathematics.floats import copysign, is_negative, power_of_two


@function
def exponent(x: Any) -> Any:
    """Exponent of a non-negative x, as it stands in the bits; a subnormal counts as if there were more of them."""
    if x.dtype == f32:
        tiny = x < 2.0**-126
        return (float_bits(x * 2.0**24 if tiny else x) >> 23) - (24 if tiny else 0)
    else:
        tiny = x < 2.0**-1022
        return (double_bits(x * 2.0**54 if tiny else x) >> 52) - (54 if tiny else 0)


@function
def fmod(x: Any, y: Any) -> Any:
    """x - n y exactly, where n is x / y without its fraction: C's fmod, with the sign of x. NaN for an infinite x or a zero y."""
    rest, least = abs(x), abs(y)
    defined = rest < x.dtype("inf") and least > 0.0
    rest = rest if defined else 0.0
    least = least if defined else 1.0
    bits = 22 if x.dtype == f32 else 51
    while rest >= least:
        excess = max(exponent(rest) - exponent(least) - bits, 0)
        half = excess >> 1
        part = least * power_of_two(half) * power_of_two(excess - half)  # exact
        rest = fma(-trunc(rest / part), part, rest)
        rest = rest + part if rest < 0.0 else rest
    return copysign(rest, x) if defined else x.dtype("nan")


@function
def remainder(x: Any, y: Any) -> Any:
    """x - n y exactly, where n is the integer nearest to x / y, the even one of two: IEEE 754's remainder. NaN for an infinite x or a zero y."""
    least = abs(y)
    rest = fmod(abs(x), least + least)  # of an even n, at most 2 too small
    odd = rest - least
    # least - rest against rest is least / 2, which may be no float, against rest
    rest = (odd - least if odd >= least - odd else odd) if rest > least - rest else rest
    return -rest if is_negative(x) else rest


@function
def modulo(x: Any, y: Any) -> Any:
    """Python's x % y: the sign of y, exact but for the last addition; NaN where Python raises."""
    rest = fmod(x, y)
    moved = rest + y if (rest < 0.0) != (y < 0.0) else rest
    return copysign(x.dtype(0), y) if rest == 0.0 else moved


@function
def floor_divide(x: Any, y: Any) -> Any:
    """Python's x // y: the quotient of x less its remainder, rounded to the integral float that it stands for; NaN where Python raises."""
    rest = fmod(x, y)
    quotient = (x - rest) / y
    quotient = quotient - 1.0 if rest != 0.0 and (rest < 0.0) != (y < 0.0) else quotient
    whole = floor(quotient)
    whole = whole + 1.0 if quotient - whole > 0.5 else whole
    return copysign(x.dtype(0), x / y) if quotient == 0.0 else whole
