"""What operators of the language need and is itself written in the language. Those of floats stand in `kdsl.mathematics`."""

from __future__ import annotations

from typing import Any

from kdsl.frontend.function import function


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
