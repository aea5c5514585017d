"""How the emitter holds a value of a group of lanes, and integer arithmetic on that.

A value is `Uniform` (one scalar for all lanes), `Linear` (a scalar plus offsets per lane that are known at compile time, perhaps times a scalar) or a
`Vector`. Index arithmetic stays linear as long as it can, so that a load of neighbours is seen as one. What is not here: floats, masks, memory.

`Linear` is exact modulo 2 ** bits in every lane, whatever lanes are active.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from llvmlite import ir

from kdsl.backend.llvm.module import call_intrinsic
from kdsl.ir import nodes

I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
BIT: Final = ir.IntType(1)
POINTER: Final = ir.PointerType()

_MODEST: Final = 1 << 61
"""Values below it in magnitude stay in an i64 when a group's offsets are added or subtracted."""
_FAR: Final = 1 << 48
"""Offsets are below it in magnitude, so that what is concluded from the smallest and the largest does not wrap."""


@dataclass(frozen=True, eq=False)
class Uniform:
    """The same in every lane."""

    scalar: Any
    """The LLVM value."""
    multiple: int = 1
    """The value is known to be a multiple of this (0: the value is 0)."""


@dataclass(frozen=True, eq=False)
class Term:
    """What is added per lane."""

    offsets: tuple[int, ...]
    """One per lane."""
    coefficient: Any = None
    """LLVM scalar that they are multiplied by, None for 1."""


@dataclass(frozen=True, eq=False)
class Linear:
    """An integer: base plus the sum of the terms."""

    base: Any
    """LLVM scalar."""
    terms: tuple[Term, ...]
    """One or two."""
    multiple: int = 1
    """The base is known to be a multiple of this."""

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """The offsets, if that is all there is."""
        return self.terms[0].offsets if len(self.terms) == 1 and self.terms[0].coefficient is None else None


@dataclass(frozen=True, eq=False)
class Vector:
    """One value per lane."""

    vector: Any
    """The LLVM value, `<W x T>`."""
    every: Any = None
    """Of bools in a wide group: an i1 that is only true if all lanes are, None if there is no cheap one."""
    none: Any = None
    """The same for no lane."""


Lanes: TypeAlias = Uniform | Linear | Vector


def constant_of(scalar: Any) -> int | None:
    """The number, if an LLVM integer is a constant."""
    return scalar.constant if isinstance(scalar, ir.Constant) and isinstance(scalar.constant, int) else None


def modest(value: nodes.ValueOp) -> bool:
    """Whether a value is known to lie so far from the limits of its type that adding a lane's offset cannot wrap."""
    return (
        value.type.is_signed
        and value.type.bits == 64
        and value.range is not None
        and value.range[0] > -_MODEST
        and value.range[1] < _MODEST
    )


class LaneArithmetic:
    """Integer arithmetic on `Lanes` of one group width. Methods return None where the result is not linear."""

    def __init__(self, builder: ir.IRBuilder, width: int, narrow_compares: bool, sure: bool = False) -> None:
        """`sure`: comparisons also say by scalars whether they hold in every lane."""
        self.builder = builder
        self.sure = sure
        self.width = width
        self.iota = tuple(range(width))
        self.compare_bits = 16 if narrow_compares and width >= 32 else 32
        """Width of the integers in which offsets are compared with a bound."""

    # ------------------------------------------------------------------------------------------------------------ to vectors

    def splat(self, scalar: Any) -> Any:
        """A scalar in every lane."""
        kind = ir.VectorType(scalar.type, self.width)
        if isinstance(scalar, ir.Constant) and not isinstance(scalar.constant, str):
            return ir.Constant(kind, [scalar.constant] * self.width)
        undefined = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, ir.Constant(I32, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, self.width), [0] * self.width))

    def vector(self, value: Lanes) -> Any:
        """The LLVM vector of a value."""
        if isinstance(value, Vector):
            return value.vector
        if isinstance(value, Uniform):
            return self.splat(value.scalar)
        total = self.splat(value.base)
        for term in value.terms:
            offsets = ir.Constant(total.type, list(term.offsets))
            total = self.builder.add(
                total, offsets if term.coefficient is None else self.builder.mul(self.splat(term.coefficient), offsets)
            )
        return total

    # ------------------------------------------------------------------------------------------------------------ arithmetic

    def number(self, kind: ir.IntType, value: int) -> Uniform:
        """An integer constant."""
        return Uniform(ir.Constant(kind, value), abs(value))

    def _linear(self, base: Any, terms: list[Term], multiple: int) -> Lanes | None:
        merged: list[Term] = []
        for term in terms:
            same = next((i for i, t in enumerate(merged) if t.coefficient is term.coefficient), None)
            if same is None:
                merged.append(term)
            else:
                merged[same] = Term(tuple(a + b for a, b in zip(merged[same].offsets, term.offsets, strict=True)), term.coefficient)
        kept: list[Term] = []
        for term in merged:
            if max(map(abs, term.offsets)) >= _FAR:
                return None
            if len(set(term.offsets)) > 1:
                kept.append(term)
            elif term.offsets[0]:
                shift = term.offsets[0]
                if term.coefficient is None:
                    base, multiple = self.builder.add(base, ir.Constant(base.type, shift)), math.gcd(multiple, shift)
                else:
                    base = self.builder.add(base, self.builder.mul(term.coefficient, ir.Constant(base.type, shift)))
                    multiple = 1
        if len(kept) > 2:
            return None
        return Linear(base, tuple(kept), multiple) if kept else Uniform(base, multiple)

    def add(self, a: Lanes, b: Lanes) -> Lanes | None:
        """a + b."""
        if isinstance(a, Vector) or isinstance(b, Vector):
            return None
        left, right = _base(a), _base(b)
        base = left if constant_of(right) == 0 else right if constant_of(left) == 0 else self.builder.add(left, right)
        return self._linear(base, [*_terms(a), *_terms(b)], math.gcd(a.multiple, b.multiple))

    def negate(self, a: Lanes) -> Lanes | None:
        """-a."""
        if isinstance(a, Vector):
            return None
        base = self.builder.neg(_base(a))
        return self._linear(base, [Term(tuple(-o for o in t.offsets), t.coefficient) for t in _terms(a)], a.multiple)

    def subtract(self, a: Lanes, b: Lanes) -> Lanes | None:
        """a - b."""
        if isinstance(a, Vector) or isinstance(b, Vector):
            return None
        base = _base(a) if constant_of(_base(b)) == 0 else self.builder.sub(_base(a), _base(b))
        negative = [Term(tuple(-o for o in t.offsets), t.coefficient) for t in _terms(b)]
        return self._linear(base, [*_terms(a), *negative], math.gcd(a.multiple, b.multiple))

    def multiply(self, a: Lanes, b: Lanes) -> Lanes | None:
        """a * b, if one of them is uniform."""
        if isinstance(a, Uniform) and not isinstance(b, Uniform):
            a, b = b, a
        if not isinstance(b, Uniform) or isinstance(a, Vector):
            return None
        factor = constant_of(b.scalar)
        if factor is not None:
            if factor == 1:
                return a
            base = self.builder.mul(_base(a), b.scalar)
            return self._linear(
                base, [Term(tuple(o * factor for o in t.offsets), t.coefficient) for t in _terms(a)], a.multiple * abs(factor)
            )
        terms = []
        for t in _terms(a):
            terms.append(Term(t.offsets, b.scalar if t.coefficient is None else self.builder.mul(t.coefficient, b.scalar)))
        base = self.builder.mul(_base(a), b.scalar)
        return self._linear(base, terms, _power_of_two_part(a.multiple) * _power_of_two_part(b.multiple))

    def divide(self, a: Linear, divisor: int, left: nodes.ValueOp) -> tuple[Lanes, Lanes] | None:
        """Quotient (towards minus infinity) and remainder of a linear value by a positive constant, where they are linear again."""
        if a.offsets is None or min(a.offsets) < 0 or not modest(left):
            return None
        kind = a.base.type
        highest = max(a.offsets)
        if a.multiple % divisor == 0:  # the base divides exactly, so only the offsets carry
            quotient = self._linear(
                self.builder.sdiv(a.base, ir.Constant(kind, divisor), flags=("exact",)), [Term(tuple(o // divisor for o in a.offsets))], 1
            )
            remainder = self._linear(ir.Constant(kind, 0), [Term(tuple(o % divisor for o in a.offsets))], 0)
            return (quotient, remainder) if quotient is not None and remainder is not None else None
        step = math.gcd(a.multiple, divisor)
        if highest >= step:
            return None
        # no lane carries into the next multiple of the divisor, so the quotient is uniform
        if divisor & (divisor - 1) == 0:
            whole = self.builder.ashr(a.base, ir.Constant(kind, divisor.bit_length() - 1))
            rest = self.builder.and_(a.base, ir.Constant(kind, divisor - 1))
        elif left.range is not None and left.range[0] >= 0:  # then the base, a multiple of more than any offset, is not negative either
            whole = self.builder.udiv(a.base, ir.Constant(kind, divisor))
            rest = self.builder.urem(a.base, ir.Constant(kind, divisor))
        else:
            return None
        return Uniform(whole), Linear(rest, a.terms, step)

    def convert(self, a: Linear, source: nodes.ValueOp, target: ir.IntType) -> Lanes | None:
        """An integer conversion of a linear value, where it stays linear."""
        kind = a.base.type
        if target.width == kind.width:
            return a
        if target.width < kind.width:
            terms = [Term(t.offsets, None if t.coefficient is None else self.builder.trunc(t.coefficient, target)) for t in a.terms]
            return self._linear(self.builder.trunc(a.base, target), terms, _power_of_two_part(a.multiple) if a.multiple else 0)
        if not source.type.is_signed or source.range is None or a.offsets is None:
            return None
        spread = max(abs(o) for o in a.offsets)
        if source.range[0] < source.type.minimum + spread or source.range[1] > source.type.maximum - spread:
            return None
        return self._linear(self.builder.sext(a.base, target), list(a.terms), _power_of_two_part(a.multiple) if a.multiple else 0)

    # ------------------------------------------------------------------------------------------------------------ comparison

    def compare(self, op: str, a: Lanes, b: Lanes, left: nodes.ValueOp | None, right: nodes.ValueOp | None) -> Lanes | None:
        """A comparison of i64 values of which at least one is linear. `left` and `right` tell ranges; None means known to be modest."""
        if isinstance(a, Uniform) and isinstance(b, Linear):
            return self.compare({"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(op, op), b, a, right, left)
        if not isinstance(a, Linear) or isinstance(b, Vector) or a.base.type != I64:
            return None
        if left is not None and not modest(left):
            return None
        if isinstance(b, Linear):
            if right is not None and not modest(right):
                return None
            difference = self.subtract(a, b)
            if isinstance(difference, Uniform):
                return Uniform(self.builder.icmp_signed(_SYMBOLS[op], difference.scalar, ir.Constant(I64, 0)))
            if not isinstance(difference, Linear) or difference.offsets is None:
                return None
            return self._against(op, difference.offsets, self.builder.neg(difference.base))
        if a.offsets is None:
            return None
        return self._against(op, a.offsets, self._distance(b.scalar, a.base, exact=right is not None and modest(right)))

    def _distance(self, bound: Any, base: Any, *, exact: bool) -> Any:
        """bound - base; unless it is known to be exact, saturated, which compares with offsets alike."""
        if constant_of(base) == 0:
            return bound
        return self.builder.sub(bound, base) if exact else call_intrinsic(self.builder, "llvm.ssub.sat.i64", I64, bound, base)

    def below(self, a: Linear, extent: Any, index: nodes.ValueOp) -> Lanes | None:
        """0 <= a < extent for an i64 of plain offsets and a length (at least 0 and less than 2 ** 62)."""
        if a.offsets is None or a.base.type != I64:
            return None
        exact = modest(index)
        under = self._against("lt", a.offsets, self._distance(extent, a.base, exact=exact))
        if index.range is not None and index.range[0] >= 0:
            return under
        over = self._against("ge", a.offsets, self._distance(ir.Constant(I64, 0), a.base, exact=exact))
        return self.both(under, over)

    def _against(self, op: str, offsets: tuple[int, ...], bound: Any) -> Vector:
        """Compare offsets with a scalar bound, in narrow integers: beyond the offsets' own range one bound is like another."""
        low, high = min(offsets) - 1, max(offsets) + 1
        bits = self.compare_bits
        if low < -(1 << (bits - 1)) or high >= 1 << (bits - 1):
            bits = 64
        clamped = call_intrinsic(self.builder, "llvm.smax.i64", I64, bound, ir.Constant(I64, low))
        clamped = call_intrinsic(self.builder, "llvm.smin.i64", I64, clamped, ir.Constant(I64, high))
        kind = ir.IntType(bits)
        limit = self.splat(clamped if bits == 64 else self.builder.trunc(clamped, kind))
        vector = self.builder.icmp_signed(_SYMBOLS[op], ir.Constant(ir.VectorType(kind, self.width), list(offsets)), limit)
        if not self.sure:
            return Vector(vector)
        low, high = min(offsets), max(offsets)

        def bound_is(symbol: str, offset: int) -> Any:
            return self.builder.icmp_signed(symbol, bound, ir.Constant(I64, offset))

        match op:
            case "lt":
                return Vector(vector, bound_is(">", high), bound_is("<=", low))
            case "le":
                return Vector(vector, bound_is(">=", high), bound_is("<", low))
            case "gt":
                return Vector(vector, bound_is("<", low), bound_is(">=", high))
            case "ge":
                return Vector(vector, bound_is("<=", low), bound_is(">", high))
        apart = self.builder.or_(bound_is("<", low), bound_is(">", high))
        never = ir.Constant(BIT, 0)
        return Vector(vector, never, apart) if op == "eq" else Vector(vector, apart, never)

    # ----------------------------------------------------------------------------------------------------------------- logic

    def certainty(self, value: Lanes) -> tuple[Any, Any] | None:
        """For a bool: whether it surely holds in every lane, and whether in none, as i1; None if that cannot be said by scalars."""
        if isinstance(value, Uniform):
            return value.scalar, self.builder.not_(value.scalar)
        if isinstance(value, Vector) and value.every is not None:
            return value.every, value.none
        return None

    def both(self, a: Lanes, b: Lanes) -> Vector:
        """Both of two bools."""
        vector = self.builder.and_(self.vector(a), self.vector(b))
        left, right = self.certainty(a), self.certainty(b)
        if not self.sure or left is None or right is None:
            return Vector(vector)
        return Vector(vector, self.builder.and_(left[0], right[0]), self.builder.or_(left[1], right[1]))

    def either(self, a: Lanes, b: Lanes) -> Vector:
        """One of two bools, or both."""
        vector = self.builder.or_(self.vector(a), self.vector(b))
        left, right = self.certainty(a), self.certainty(b)
        if not self.sure or left is None or right is None:
            return Vector(vector)
        return Vector(vector, self.builder.or_(left[0], right[0]), self.builder.and_(left[1], right[1]))

    def opposite(self, a: Vector) -> Vector:
        """Not a bool."""
        return Vector(self.builder.not_(a.vector), a.none, a.every)


_SYMBOLS: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _base(a: Uniform | Linear) -> Any:
    return a.scalar if isinstance(a, Uniform) else a.base


def _terms(a: Uniform | Linear) -> tuple[Term, ...]:
    return () if isinstance(a, Uniform) else a.terms


def _power_of_two_part(value: int) -> int:
    """The largest power of two that divides; what wrapping arithmetic preserves."""
    return value & -value if value else 1
