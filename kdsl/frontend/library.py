"""What operators of the language need and is itself written in the language."""

from __future__ import annotations

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import floor


@function
def integer_power(base: Any, exponent: Any) -> Any:
    """base ** exponent for integers, wrapping like their product; 0 for a negative exponent."""
    result = base.dtype(1)
    square = base
    rest = exponent
    while rest > 0:
        if rest & 1 != 0:
            result = result * square
        square = square * square
        rest = rest >> 1
    return result if exponent >= 0 else base.dtype(0)


@function
def remainder(x: Any, y: Any) -> Any:
    """C's fmod for floats, exactly: shift and subtract, where each difference is exact (Sterbenz 1974); NaN for an infinite x or a zero y."""
    rest, least = abs(x), abs(y)
    if not rest < x.dtype("inf") or not least > 0:
        return x.dtype("nan")
    if least == x.dtype("inf"):
        return x
    part = least
    while part <= rest * 0.5:
        part += part
    while part >= least:  # rest < 2 * part
        if rest >= part:
            rest -= part
        part *= 0.5
    return -rest if x < 0 else rest


@function
def modulo(x: Any, y: Any) -> Any:
    """Python's x % y for floats: the sign of y, exact but for the last addition; NaN where Python raises."""
    rest = remainder(x, y)
    if rest == 0:
        return x.dtype(0) if y > 0 else -x.dtype(0)
    return rest + y if (rest < 0) != (y < 0) else rest


@function
def floor_divide(x: Any, y: Any) -> Any:
    """Python's x // y for floats: the quotient of x less its remainder, rounded to the integral float that it stands for; NaN where Python raises."""
    rest = remainder(x, y)
    quotient = (x - rest) / y
    if rest != 0 and (rest < 0) != (y < 0):
        quotient -= 1
    if quotient == 0:
        return x.dtype(0) * (x / y)
    whole = floor(quotient)
    return whole + 1 if quotient - whole > 0.5 else whole
