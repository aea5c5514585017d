"""What an expression is to the reference interpreter: a literal, a choice of literals, a typed piece of Python, a tuple, an array.

The rules for literals and for unasked conversions, as `docs/language.md` states them. What is not here: operators (`expressions.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.fuzz.arithmetic import BITS, FLOATS, INTEGERS, MAXIMUM, MINIMUM, NUMBERS, convert, from_integer, holds, promote
from tests.fuzz.arithmetic import rounded as nearest
from tests.fuzz.kinds import Fields, Fixed, Kind


class IllTyped(Exception):
    """The page says that this program is an error (or says nothing of it)."""


@dataclass(frozen=True)
class Literal:
    """A number without a type."""

    value: bool | int | float


@dataclass(frozen=True)
class Choice:
    """A conditional expression of two literals: it takes its type where it is used."""

    condition: str
    then: Literal | Choice
    orelse: Literal | Choice


@dataclass(frozen=True)
class Typed:
    """A number of a type: Python code that yields it."""

    type: str
    code: str


@dataclass(frozen=True)
class Tuple:
    """A tuple, item by item, or as `code` if it is the value of a call or name."""

    items: tuple[Value, ...]
    code: str = ""


@dataclass(frozen=True)
class Vector:
    """So many numbers of a type: Python code that yields a tuple of them."""

    type: str
    lanes: int
    code: str


@dataclass(frozen=True)
class Struct:
    """A struct: Python code that yields a tuple of its fields (`kinds.py`)."""

    fields: Fields
    """Names and kinds."""
    code: str


@dataclass(frozen=True)
class Items:
    """An array in a struct that is a value: it is only read."""

    kind: Fixed
    """Elements and extents."""
    code: str


@dataclass(frozen=True)
class Memory:
    """An array: its element type, its name in the Python code, its extents if they are known, its dimensions if it is a view, and the numbers of an
    element, which is a vector if they are several."""

    type: str
    code: str
    shape: tuple[int, ...] | None = None
    rank: int = 1
    lanes: int = 1
    fields: Fields = ()
    """Of an element that is a struct."""


@dataclass(frozen=True)
class Type:
    """A type that a type variable stands for."""

    name: str


@dataclass(frozen=True)
class Nothing:
    """What a call without a result yields."""

    code: str


Number: TypeAlias = "Literal | Choice | Typed"
Value: TypeAlias = "Number | Tuple | Vector | Struct | Items | Memory | Type | Nothing"


def number(value: Value) -> Number:
    """The value, which must be a number."""
    if isinstance(value, Literal | Choice | Typed):
        return value
    raise IllTyped("a number is wanted")


def vector_of(name: str) -> tuple[str, int] | None:
    """The element type and the length that the name of a vector type says, None for another name."""
    of, _, lanes = name.partition("x")
    return (of, int(lanes)) if of in NUMBERS and lanes in ("2", "4", "8", "16") else None


def field_of(fields: Kind, name: str) -> tuple[int, Kind]:
    """The position and the kind of a field of a struct."""
    if isinstance(fields, str | Fixed):
        raise IllTyped(f"no struct has a field {name} here")
    return next((position, of) for position, (field, of) in enumerate(fields) if field == name)


def part(kind: Kind, code: str) -> Typed | Struct | Items:
    """A part of a struct, which code yields."""
    if isinstance(kind, str):
        return Typed(kind, f"({code} != 0)" if kind == "bool" else code)
    return Items(kind, code) if isinstance(kind, Fixed) else Struct(kind, code)


def part_code(value: Value, kind: Kind) -> str:
    """The code of a value that becomes a part of a struct."""
    if isinstance(kind, str):
        return f"int({coerce(value, kind)})" if kind == "bool" else coerce(value, kind)
    if not isinstance(value, Struct) or value.fields != kind:
        raise IllTyped("another struct is wanted")
    return value.code


def lifted(operands: Sequence[Value], apply: Callable[..., Value]) -> Value:
    """What `apply` gives for numbers, number by number if some are vectors, beside which a number stands as it is."""
    vectors = [operand for operand in operands if isinstance(operand, Vector)]
    if not vectors:
        return apply(*map(number, operands))
    lanes = vectors[0].lanes
    if any(vector.lanes != lanes for vector in vectors):
        raise IllTyped("vectors of different lengths")
    given: list[Number] = []
    codes = []
    for position, operand in enumerate(operands):
        if isinstance(operand, Vector | Typed):
            given.append(Typed(operand.type, f"_e{position}"))
            codes.append(operand.code)
        else:
            given.append(number(operand))
            codes.append("None")
    result = firm(apply(*given))
    if not isinstance(result, Typed) or vector_of(f"{result.type}x{lanes}") is None or BITS[result.type] * lanes > 128:
        raise IllTyped("no vector")
    names = ", ".join(f"_e{position}" for position in range(len(operands)))
    return Vector(result.type, lanes, f"_each({lanes}, lambda {names}: {result.code}, {', '.join(codes)})")


def each(lanes: int, apply: Callable[..., Any], *operands: Any) -> tuple[Any, ...]:
    """A function of numbers applied to vectors, which are tuples, and numbers."""
    return tuple(apply(*(operand[lane] if isinstance(operand, tuple) else operand for operand in operands)) for lane in range(lanes))


def as_vector(value: Value, to: tuple[str, int]) -> Vector:
    """The value as a vector, by the conversions that happen unasked."""
    if not isinstance(value, Vector) or value.lanes != to[1]:
        raise IllTyped("another vector is wanted")
    if value.type == to[0]:
        return value
    made = lifted([value], lambda number_: Typed(to[0], coerce(number_, to[0])))
    assert isinstance(made, Vector)
    return made


def is_loose(value: Number) -> bool:
    """Whether the value has no type of its own. (True and False have one.)"""
    return not isinstance(value, Typed) and alone(value) != "bool"


def alone(value: Number) -> str:
    """The type of the value, of a literal the one that it has alone."""
    if isinstance(value, Typed):
        return value.type
    if isinstance(value, Choice):
        sides = alone(value.then), alone(value.orelse)
        return "f32" if "f32" in sides else sides[0]
    return "bool" if isinstance(value.value, bool) else "i64" if isinstance(value.value, int) else "f32"


def firm(value: Value) -> Typed | Tuple | Vector | Struct | Items | Memory | Type | Nothing:
    """The value with the type that it has alone."""
    if isinstance(value, Literal | Choice):
        return Typed(alone(value), coerce(value, alone(value)))
    if isinstance(value, Tuple) and not value.code:
        return Tuple(tuple(firm(item) for item in value.items))
    return value


def text(value: bool | int | float) -> str:
    """A number as Python code."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "(-inf)"
    return f"({value!r})" if value < 0 or repr(value)[0] == "-" else repr(value)


def coerce(value: Value, to: str) -> str:
    """Python code of the value as a `to`, by the conversions that happen unasked."""
    value = number(value)
    if isinstance(value, Choice):
        return f"({coerce(value.then, to)} if {value.condition} else {coerce(value.orelse, to)})"
    if isinstance(value, Typed):
        if value.type == to:
            return value.code
        if not holds(value.type, to):
            raise IllTyped(f"{value.type} does not become {to} by itself")
        return f"float({value.code})" if to in FLOATS and value.type in INTEGERS else value.code
    literal = value.value
    if isinstance(literal, bool) or to == "bool":
        if isinstance(literal, bool) and to == "bool":
            return repr(literal)
        raise IllTyped(f"{literal} is no {to}")
    if to in INTEGERS:
        if isinstance(literal, int) and MINIMUM[to] <= literal <= MAXIMUM[to]:
            return text(literal)
        raise IllTyped(f"{literal} does not fit {to}")
    near = from_integer(to, literal) if isinstance(literal, int) else nearest(to, literal)
    if isinstance(literal, int) and near != literal:
        raise IllTyped(f"no {to} is {literal}")
    if math.isinf(near) and not math.isinf(literal):
        raise IllTyped(f"{literal} is too large for {to}")
    return text(near)


def converted(value: Value, to: str) -> Typed:
    """What `to(value)` is."""
    value = number(value)
    if isinstance(value, Choice):
        return Typed(to, f"({converted(value.then, to).code} if {value.condition} else {converted(value.orelse, to).code})")
    if isinstance(value, Literal):
        if isinstance(value.value, int) and not isinstance(value.value, bool) and to in INTEGERS:
            return Typed(to, coerce(value, to))
        of = "bool" if isinstance(value.value, bool) else "i64" if isinstance(value.value, int) else "f64"
        return Typed(to, text(convert(to, of, value.value)))
    if value.type == to:
        return value
    return Typed(to, f"_convert({to!r}, {value.type!r}, {value.code})")


def join(a: Number, b: Number) -> str:
    """The type in which two numbers meet."""
    if is_loose(a) and is_loose(b):
        return "f32" if "f32" in (alone(a), alone(b)) else "i64"
    if is_loose(a) or is_loose(b):
        loose, fixed = (a, b) if is_loose(a) else (b, a)
        assert not is_loose(fixed)
        of = alone(fixed)
        if of == "bool" or (alone(loose) == "f32" and of in INTEGERS):
            raise IllTyped(f"a literal beside a {of}")
        return of
    common = promote(alone(a), alone(b))
    if common is None:
        raise IllTyped(f"{alone(a)} with {alone(b)}")
    return common
