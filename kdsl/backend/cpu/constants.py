"""A builder that folds arithmetic on integer constants as it emits it.

Where a lane stands is a constant in a block of one group. Left to LLVM, such constants are folded by its pipeline, or, without optimisation, by its code
generator for x86, which gets some of it wrong (LLVM 22): `trunc(mul(zext(v), zext(v)) >> 32)` of a vector that turns out to be constant had no value at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir


def numbers(value: Any) -> list[int] | None:
    """The elements of a constant integer or vector of integers, signed; None for anything else, bools included."""
    kind = getattr(value.type, "element", value.type)
    if not isinstance(value, ir.Constant) or not isinstance(kind, ir.IntType) or kind.width == 1:
        return None
    count = value.type.count if isinstance(value.type, ir.VectorType) else 1
    given = value.constant
    elements: list[Any] = [given]
    if given is None:
        elements = [0] * count
    elif isinstance(given, Sequence):
        elements = [getattr(element, "constant", element) for element in given]
    if len(elements) != count or not all(type(element) is int for element in elements):
        return None
    return [_signed(element, kind.width) for element in elements]


def _signed(number: int, width: int) -> int:
    half = 1 << (width - 1)
    return (number + half) % (2 * half) - half


def _made(kind: ir.Type, elements: list[int]) -> ir.Constant:
    width = getattr(kind, "element", kind).width
    wrapped = [_signed(element, width) for element in elements]
    return ir.Constant(kind, wrapped if isinstance(kind, ir.VectorType) else wrapped[0])


class Builder(ir.IRBuilder):  # type: ignore[misc]
    """llvmlite's builder, with constants folded in additions, products, and conversions between integers. Its flags only promise, so they may go."""

    def _folded(self, plain: Callable[..., Any], fold: Callable[[int, int], int], a: Any, b: Any, *rest: Any, **named: Any) -> Any:
        left = numbers(a)
        right = None if left is None else numbers(b)
        if left is None or right is None:
            return plain(a, b, *rest, **named)
        return _made(a.type, [fold(x, y) for x, y in zip(left, right, strict=True)])

    def add(self, lhs: Any, rhs: Any, *rest: Any, **named: Any) -> Any:
        """a + b."""
        return self._folded(super().add, lambda x, y: x + y, lhs, rhs, *rest, **named)

    def sub(self, lhs: Any, rhs: Any, *rest: Any, **named: Any) -> Any:
        """a - b."""
        return self._folded(super().sub, lambda x, y: x - y, lhs, rhs, *rest, **named)

    def mul(self, lhs: Any, rhs: Any, *rest: Any, **named: Any) -> Any:
        """a * b."""
        return self._folded(super().mul, lambda x, y: x * y, lhs, rhs, *rest, **named)

    def trunc(self, value: Any, typ: Any, name: str = "") -> Any:
        """To an integer of fewer bits."""
        known = numbers(value)
        return super().trunc(value, typ, name) if known is None else _made(typ, known)

    def sext(self, value: Any, typ: Any, name: str = "") -> Any:
        """To an integer of more bits, with the sign."""
        known = numbers(value)
        return super().sext(value, typ, name) if known is None else _made(typ, known)

    def zext(self, value: Any, typ: Any, name: str = "") -> Any:
        """To an integer of more bits, with zeros."""
        known = numbers(value)
        if known is None:
            return super().zext(value, typ, name)
        width = getattr(value.type, "element", value.type).width
        return _made(typ, [number % (1 << width) for number in known])
