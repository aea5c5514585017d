"""Exact arithmetic of the language on plain Python numbers, written from `docs/language.md` and from nothing of kdsl's.

Integers are Python ints in the range of their type, floats are Python floats (an f32 is a float that an f32 holds), `bool` is `bool`. What is not here:
types of expressions and control (`interpret.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import c_float
from fractions import Fraction
from typing import Final

INTEGERS: Final = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS: Final = ("f16", "bf16", "f32", "f64")
NUMBERS: Final = (*INTEGERS, *FLOATS)
TYPES: Final = ("bool", *NUMBERS)
BITS: Final = {name: 1 if name == "bool" else int(name.lstrip("biuf")) for name in TYPES}
MINIMUM: Final = {name: -(1 << (BITS[name] - 1)) if name[0] == "i" else 0 for name in INTEGERS}
MAXIMUM: Final = {name: (1 << (BITS[name] - (name[0] == "i"))) - 1 for name in INTEGERS}
MANTISSA: Final = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
"""Bits of precision."""
_LEAST: Final = {"f16": -24, "bf16": -133}
"""Exponent of the smallest subnormal number."""
_LIMIT: Final = {"f16": 16, "bf16": 128}
"""Exponent of the first power of two that is too large."""


def holds(a: str, b: str) -> bool:
    """Whether type `b` holds every value of type `a`."""
    if a == b:
        return True
    if "bool" in (a, b) or (a in FLOATS and b in INTEGERS) or {a, b} == {"f16", "bf16"}:
        return False
    if b in FLOATS:
        return (MANTISSA[a] if a in FLOATS else BITS[a] - (a[0] == "i")) <= MANTISSA[b]
    return MINIMUM[b] <= MINIMUM[a] and MAXIMUM[a] <= MAXIMUM[b]


def promote(a: str, b: str) -> str | None:
    """The smallest type that holds every value of both; a float keeps its width; None where the language has an error."""
    fitting = [t for t in TYPES if holds(a, t) and holds(b, t)]
    if (a in FLOATS) != (b in FLOATS):
        fitting = [t for t in fitting if t in (a, b)]
    elif a in INTEGERS:
        fitting = [t for t in fitting if t in INTEGERS]
    return min(fitting, key=lambda t: (BITS[t], t[0] != "i"), default=None)


def wrap(to: str, value: int) -> int:
    """`value` modulo two to the width."""
    value &= (1 << BITS[to]) - 1
    return value - (1 << BITS[to]) if value > MAXIMUM[to] else value


def rounded(to: str, value: float) -> float:
    """A double rounded to a float type, to nearest even; too large a value becomes an infinity.

    Sums, products, quotients and roots of numbers of a narrower type that were rounded to double before are rounded as if once (Figueroa 1995).
    """
    if to == "f64":
        return value
    if to == "f32":
        return c_float(value).value  # C's conversion
    if value == 0 or not math.isfinite(value):
        return value
    if abs(value) >= 2.0 ** _LIMIT[to]:
        return math.copysign(math.inf, value)
    unit = max(math.frexp(value)[1] - MANTISSA[to], _LEAST[to])
    near = math.ldexp(float(round(math.ldexp(value, -unit))), unit)  # `round` goes to even, and scaling is exact
    return math.copysign(near if abs(near) < 2.0 ** _LIMIT[to] else math.inf, value)


def from_integer(to: str, value: int) -> float:
    """An integer rounded once."""
    if to == "f64":
        return float(value)
    surplus = abs(value).bit_length() - 53
    if surplus > 0:  # keep 53 bits, the last of them set if any bit is lost: then the second rounding is as good as one (rounding to odd)
        kept = abs(value) >> surplus
        if kept << surplus != abs(value):
            kept |= 1
        value = (kept << surplus) * (1 if value > 0 else -1)
    return rounded(to, float(value))


def to_integer(to: str, value: float) -> int:
    """Truncates and saturates; NaN gives 0."""
    if value != value:
        return 0
    if math.isinf(value):
        return MAXIMUM[to] if value > 0 else MINIMUM[to]
    return min(max(int(value), MINIMUM[to]), MAXIMUM[to])


def convert(to: str, of: str, value: bool | int | float) -> bool | int | float:
    """`to(value)` for a value of type `of`."""
    if to == of:
        return value
    if to == "bool":
        return value != 0
    if to in INTEGERS:
        return to_integer(to, value) if isinstance(value, float) else wrap(to, int(value))
    if isinstance(value, float):
        return rounded(to, value)
    return from_integer(to, int(value))


# ------------------------------------------------------------------------------------------------------------------- integers


def _pattern(of: str, a: int) -> int:
    """The bits of an integer."""
    return a & ((1 << BITS[of]) - 1)


def popcount(of: str, a: int) -> int:
    return wrap(of, _pattern(of, a).bit_count())


def leading_zeros(of: str, a: int) -> int:
    return wrap(of, BITS[of] - _pattern(of, a).bit_length())


def trailing_zeros(of: str, a: int) -> int:
    pattern = _pattern(of, a)
    return wrap(of, (pattern & -pattern).bit_length() - 1 if pattern else BITS[of])


def reverse_bits(of: str, a: int) -> int:
    return wrap(of, int(f"{_pattern(of, a):0{BITS[of]}b}"[::-1], 2))


def multiply_high(of: str, a: int, b: int) -> int:
    return wrap(of, a * b >> BITS[of])


def floor_divide_integers(to: str, a: int, b: int) -> int:
    return wrap(to, a // b) if b else 0


def modulo_integers(to: str, a: int, b: int) -> int:
    return wrap(to, a % b) if b else 0


def shift_left(to: str, a: int, b: int) -> int:
    return wrap(to, a << b) if 0 <= b < BITS[to] else 0


def shift_right(to: str, a: int, b: int) -> int:
    return a >> b if 0 <= b < BITS[to] else -1 if a < 0 else 0


def power_integers(to: str, a: int, b: int) -> int:
    """a ** b; 0 for a negative exponent."""
    if b < 0:
        return 0
    return wrap(to, pow(a, b, 1 << BITS[to]))


# --------------------------------------------------------------------------------------------------------------------- floats


def divide(a: float, b: float) -> float:
    """a / b in double."""
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _exactly_remainder(a: float, b: float) -> float:
    if math.isinf(a) or b == 0 or a != a or b != b:
        return math.nan
    return math.fmod(a, b)  # exact by definition


def modulo(to: str, a: float, b: float) -> float:
    """As CPython's `float_rem`, each operation rounded to the type; NaN where Python raises."""
    if to in _LEAST:
        return rounded(to, modulo("f32", a, b))  # the page says so
    rest = _exactly_remainder(a, b)
    if rest == 0:
        return math.copysign(0.0, b)
    return rounded(to, rest + b) if rest == rest and (rest < 0) != (b < 0) else rest


def floor_divide(to: str, a: float, b: float) -> float:
    """As CPython's `_float_div_mod`, each operation rounded to the type; NaN where Python raises."""
    if to in _LEAST:
        return rounded(to, floor_divide("f32", a, b))
    rest = _exactly_remainder(a, b)
    if rest != rest:
        return math.nan
    quotient = rounded(to, divide(rounded(to, a - rest), b))
    if rest != 0 and (rest < 0) != (b < 0):
        quotient = rounded(to, quotient - 1.0)
    if quotient == 0:
        return math.copysign(0.0, divide(a, b))
    if not math.isfinite(quotient):
        return quotient
    whole = float(math.floor(quotient))
    return rounded(to, whole + 1.0) if quotient - whole > 0.5 else whole


def fused(to: str, a: float, b: float, c: float) -> float:
    """a * b + c, rounded once."""
    if to != "f64":
        return _fused_narrow(to, a, b, c)
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        if math.isinf(c) and math.isfinite(a) and math.isfinite(b):
            return c  # a * b alone could overflow
        return a * b + c
    if a == 0 or b == 0:
        return a * b + c  # the product is exact
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0  # a sum of opposite numbers that are not zero
    try:
        quotient = exact.numerator / exact.denominator  # of two ints: correctly rounded
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    return math.copysign(quotient, 1 if exact > 0 else -1)


def _fused_narrow(to: str, a: float, b: float, c: float) -> float:
    """The product of two f32 is exact in double. The sum is rounded to odd, so that rounding it again is as good as once (Boldo, Melquiond 2008)."""
    product = a * b
    total = product + c
    if not math.isfinite(total):
        return total
    back = total - product
    error = (product - (total - back)) + (c - back)  # what `total` lacks (Knuth's two-sum, exact)
    if error != 0 and int(math.frexp(total)[0] * 2**53) & 1 == 0:
        total = math.nextafter(total, math.inf if error > 0 else -math.inf)
    return rounded(to, total)


def power(to: str, a: float, n: int) -> float:
    """By squares, the lowest bit of n first, each product rounded; 1 / a ** -n for a negative n."""
    if n < 0:
        return rounded(to, divide(1.0, power(to, a, -n)))
    result: float | None = None
    while n:
        if n & 1:
            result = a if result is None else rounded(to, result * a)
        n >>= 1
        if n:
            a = rounded(to, a * a)
    return 1.0 if result is None else result


def square_root(to: str, a: float) -> float:
    if a != a or a < 0:
        return math.nan
    return rounded(to, math.sqrt(a))


_INTEGRAL: Final[dict[str, Callable[[float], int]]] = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "rint": round}


def integral(mode: str, a: float) -> float:
    """`floor`, `ceil`, `trunc`, `rint`."""
    if not math.isfinite(a) or a == 0:
        return a
    whole = _INTEGRAL[mode](a)
    return math.copysign(float(whole), a)


def extreme(name: str, a: float, b: float) -> float:
    """`min`, `max` (NaN if either is), `fmin`, `fmax` (a NaN is ignored); -0 is below 0."""
    if a != a or b != b:
        if name in ("min", "max"):
            return math.nan
        return b if a != a else a
    first, second = sorted((a, b), key=lambda v: (v, math.copysign(1.0, v)))
    return first if name.endswith("min") else second
