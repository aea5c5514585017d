"""The reference for functions that are specified to the last bit, beside those in `arithmetic.py`: their types, and their results of Python's numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.fuzz.arithmetic import wrap
from tests.fuzz.values import IllTyped, Number, Typed, alone, coerce

_MASK: Final = 0xFFFFFFFF


def remainder(a: float, b: float) -> float:
    """`fmod`: exact, with the sign of the dividend; NaN for a zero divisor and an infinite dividend."""
    return math.nan if a != a or b != b or math.isinf(a) or b == 0 else math.fmod(a, b)


def funnel_shift_left(low: int, high: int, shift: int) -> int:
    """The upper word of both, shifted left."""
    return (high << 32 | low) << shift % 32 >> 32 & _MASK


def funnel_shift_right(low: int, high: int, shift: int) -> int:
    """The lower word of both, shifted right."""
    return (high << 32 | low) >> shift % 32 & _MASK


def permute_bytes(a: int, b: int, selector: int) -> int:
    """Four bytes of eight, or their signs."""
    both, result = b << 32 | a, 0
    for place in range(4):
        nibble = selector >> 4 * place & 15
        byte = both >> 8 * (nibble & 7) & 255
        result |= (byte >> 7) * 255 << 8 * place if nibble & 8 else byte << 8 * place
    return result


def dp4a(of_a: str, of_b: str, a: int, b: int, c: int) -> int:
    """c and four products of bytes."""
    for place in range(4):
        x, y = (wrap("i8" if of[0] == "i" else "u8", value >> 8 * place & 255) for of, value in ((of_a, a), (of_b, b)))
        c += x * y
    return wrap("u32" if of_a == of_b == "u32" else "i32", c)


FLOATS_TO: Final[dict[str, str | None]] = {"copysign": None, "fmod": None, "isnan": "bool", "isinf": "bool", "isfinite": "bool"}
"""Functions of floats, and what they give: None for the type in which their arguments meet."""
_WORDS: Final = ("funnel_shift_left", "funnel_shift_right", "permute_bytes")
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "copysign": math.copysign,
    "fmod": remainder,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "funnel_shift_left": funnel_shift_left,
    "funnel_shift_right": funnel_shift_right,
    "permute_bytes": permute_bytes,
    "dp4a": dp4a,
}


def on_words(name: str, arguments: Sequence[Number]) -> Typed | None:
    """A function of words of 32 bits; None for another name."""
    if name in _WORDS:
        return Typed("u32", f"_{name}({', '.join(coerce(argument, 'u32') for argument in arguments)})")
    if name != "dp4a":
        return None
    a, b = arguments[0], arguments[1]
    types = alone(a), alone(b)
    if not set(types) <= {"i32", "u32"}:
        raise IllTyped("dp4a of no words")
    of = "u32" if types == ("u32", "u32") else "i32"
    return Typed(of, f"_dp4a({types[0]!r}, {types[1]!r}, {coerce(a, types[0])}, {coerce(b, types[1])}, {coerce(arguments[2], of)})")
