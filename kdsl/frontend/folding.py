"""Arithmetic on constants, with exactly the meaning that the IR gives it at run time.

`None` says that an operation is left to run time: where only a NaN's bits could differ, or where nothing is gained.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from kdsl.lang.types import DType, convert_constant, round_float, wrap

Number = bool | int | float
_INTEGRAL: Final[dict[str, Callable[[float], int]]] = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "rint": round}


def unary(op: str, type: DType, a: Number) -> Number | None:
    """The value of `Unary`."""
    if type.is_bool:
        return not a if op == "not" else None
    if type.is_integer:
        value = int(a)
        pattern = value & ((1 << type.bits) - 1)
        results = {
            "neg": -value,
            "invert": ~value,
            "abs": abs(value),
            "popcount": pattern.bit_count(),
            "leading_zeros": type.bits - pattern.bit_length(),
            "trailing_zeros": (pattern & -pattern).bit_length() - 1 if pattern else type.bits,
            "reverse_bits": int(f"{pattern:0{type.bits}b}"[::-1], 2),
        }
        return wrap(type, results[op]) if op in results else None
    number = float(a)
    if math.isnan(number):
        return None
    match op:
        case "neg":
            return -number
        case "abs":
            return abs(number)
        case "tf32":
            return _tf32(number)
        case "sqrt" if number >= 0:
            return round_float(type, math.sqrt(number))  # the root in double, rounded again, is correct for f32 (Figueroa 1995) and less
        case "floor" | "ceil" | "trunc" | "rint":
            if math.isinf(number):
                return number
            return math.copysign(float(_INTEGRAL[op](number)), number)
        case _:
            return None


def _tf32(value: float) -> float:
    """An f32 rounded to 11 bits of precision, ties away from 0."""
    if value == 0 or math.isinf(value):
        return value
    unit = max(math.frexp(value)[1] - 11, -136)  # the last bit of a subnormal tf32 is 2 ** -136
    rounded = math.ldexp(math.floor(math.ldexp(abs(value), -unit) + 0.5), unit)
    return math.copysign(rounded if rounded < 2.0**128 else math.inf, value)


def binary(op: str, type: DType, a: Number, b: Number) -> Number | None:
    """The value of `Binary`."""
    if type.is_bool:
        return {"and": bool(a and b), "or": bool(a or b), "xor": a != b}.get(op)
    return _integers(op, type, int(a), int(b)) if type.is_integer else _floats(op, type, float(a), float(b))


def _integers(op: str, type: DType, a: int, b: int) -> int | None:
    match op:
        case "add":
            return wrap(type, a + b)
        case "sub":
            return wrap(type, a - b)
        case "mul":
            return wrap(type, a * b)
        case "floordiv":
            return wrap(type, a // b) if b else 0
        case "mod":
            return wrap(type, a % b) if b else 0
        case "and":
            return a & b
        case "or":
            return a | b
        case "xor":
            return a ^ b
        case "shl":
            return wrap(type, a << b) if 0 <= b < type.bits else 0
        case "shr":
            return a >> b if 0 <= b < type.bits else (-1 if a < 0 else 0)
        case "min":
            return min(a, b)
        case "max":
            return max(a, b)
        case "multiply_high":
            return (a * b) >> type.bits
        case _:
            return None


def _floats(op: str, type: DType, a: float, b: float) -> float | None:
    if math.isnan(a) or math.isnan(b):
        return None
    # one operation in double, rounded again, is the correctly rounded f32 (Figueroa 1995); f16 and bf16 have fewer bits (see `backend.llvm.narrow`)
    match op:
        case "add" | "sub" | "mul":
            value = {"add": a + b, "sub": a - b, "mul": a * b}[op]
        case "div" if b != 0:
            value = a / b
        case "div" if a != 0:
            value = math.copysign(math.inf, a) * math.copysign(1.0, b)
        case "min" | "fmin":
            return min(a, b, key=_order)
        case "max" | "fmax":
            return max(a, b, key=_order)
        case _:
            return None
    return None if math.isnan(value) else round_float(type, value)


def _order(value: float) -> tuple[float, float]:
    return (value, math.copysign(1.0, value))


def fma(type: DType, a: float, b: float, c: float) -> float | None:
    """The value of `Fma`, for finite operands and a result that is not zero (whose sign would take care)."""
    if not all(map(math.isfinite, (a, b, c))):
        return None
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return round_fraction(type, exact) if exact else None


def round_fraction(type: DType, exact: Fraction) -> float:
    """An exact number rounded once, to nearest even; the precision that is left after the leading bit, or what subnormals leave."""
    magnitude, sign = abs(exact), -1.0 if exact < 0 else 1.0
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    unit = max(exponent - type.mantissa_bits + 1, type.format.least_exponent)
    rounded = round(magnitude / Fraction(2) ** unit)
    if rounded * Fraction(2) ** unit > Fraction(type.format.largest):
        return sign * math.inf
    return sign * math.ldexp(float(rounded), unit)


def compare(op: str, a: Number, b: Number) -> bool:
    """The value of `Compare`."""
    return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[op]


def cast(to: DType, value: Number) -> Number:
    """The value of `Cast`."""
    return convert_constant(to, value)
