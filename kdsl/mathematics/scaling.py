"""Powers of 2 put to a float, and taken out of one."""

from typing import Any, TypeVar

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import bits_double, bits_float, double_bits, float_bits, unroll
from kdsl.lang.types import f32, f64, i32, i64
from kdsl.mathematics.floats import power_of_two

F = TypeVar("F", f32, f64)


@function
def ldexp(x: F, n: i32) -> Any:
    """x * 2**n for every n, rounded once: exact but where the result is subnormal, 0 or infinite."""
    return scaled(x, n)


@function
def frexp(x: F) -> Any:
    """m and n (an i32) with x = m * 2**n exactly and |m| in [1/2, 1), also of a subnormal; x itself and 0 of a zero, an infinity and a NaN."""
    return taken_apart(x)


@function
def scaled(x: Any, n: i32) -> Any:
    """What `ldexp` gives."""
    if x.dtype == f32:
        up, down, least = i32(127), i32(-102), -126
        rest = min(max(n, -280), 280)
    else:
        up, down, least = i64(1023), i64(-969), -1022
        rest = i64(min(max(n, -2100), 2100))
    # a step down leaves so many bits that one whose result is subnormal, and may have been rounded, is followed by one that leaves 0
    for _ in unroll(2):
        step = up if rest > up else down if rest < least else 0
        x *= power_of_two(step)
        rest -= step
    return x * power_of_two(rest)


@function
def taken_apart(x: Any) -> Any:
    """What `frexp` gives."""
    plain = abs(x) < x.dtype("inf") and x != 0.0
    if x.dtype == f32:
        tiny = abs(x) < 2.0**-126
        bits = float_bits(x * 2.0**24 if tiny else x)
        n = ((bits >> 23) & 0xFF) - 126 - (24 if tiny else 0)
        m = bits_float((bits & -0x7F800001) | 0x3F000000)
    else:
        tiny = abs(x) < 2.0**-1022
        bits = double_bits(x * 2.0**54 if tiny else x)
        n = i32((bits >> 52) & 0x7FF) - 1022 - (54 if tiny else 0)
        m = bits_double((bits & -0x7FF0000000000001) | 0x3FE0000000000000)
    return m if plain else x, n if plain else 0
