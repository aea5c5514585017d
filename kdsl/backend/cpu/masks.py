"""Masks of lanes: None while every lane is active, else an LLVM `<W x i1>`; `NOBODY` where control arrives without a lane.

A mask restricts a condition by `select`, not by `and`: what an inactive lane computes may be undefined, and `select` stops that from spreading.
"""

from __future__ import annotations

import enum
from typing import Any, Final, TypeAlias

from llvmlite import ir

from kdsl.backend.cpu.lanes import BIT, I32, I64
from kdsl.backend.cpu.parts import Parts
from kdsl.backend.llvm.module import call_intrinsic


class Nobody(enum.Enum):
    """The type of `NOBODY`."""

    NOBODY = 0


NOBODY: Final = Nobody.NOBODY
"""No lane."""

Mask: TypeAlias = Any
"""None (all lanes), NOBODY, or an LLVM vector of i1."""


class Masks:
    """Operations on masks of one width."""

    def __init__(self, builder: ir.IRBuilder, width: int, *, compact: bool = True) -> None:
        self.builder = builder
        self.parts = Parts(builder, compact=compact)
        self.width = width
        self.type = ir.VectorType(BIT, width)
        self.bits = ir.IntType(width)
        self.all = ir.Constant(self.type, [1] * width)
        self.none = ir.Constant(self.type, [0] * width)

    def explicit(self, mask: Mask) -> Any:
        """The LLVM vector of a mask."""
        return self.all if mask is None else self.none if mask is NOBODY else mask

    def both(self, mask: Mask, condition: Any) -> Any:
        """The lanes of `mask` for which `condition` holds."""
        if mask is None:
            return condition
        return self.none if mask is NOBODY else self.builder.select(mask, condition, self.none)

    def without(self, mask: Mask, condition: Any) -> Any:
        """The lanes of `mask` for which `condition` does not hold."""
        return self.both(mask, self.builder.xor(condition, self.all))

    def either(self, a: Mask, b: Mask) -> Mask:
        """The lanes of both masks together."""
        if a is None or b is None:
            return None
        if a is NOBODY:
            return b
        return a if b is NOBODY else self.builder.or_(a, b)

    def packed(self, mask: Mask) -> Any:
        """The mask as an integer, lane 0 in the lowest bit."""
        return self.builder.bitcast(self.explicit(mask), self.bits)

    def unpacked(self, bits: Any) -> Any:
        """The mask of an integer."""
        return self.builder.bitcast(bits, self.type)

    def any(self, mask: Any) -> Any:
        """i1: whether some lane is active."""
        return self.builder.icmp_unsigned("!=", self.packed(mask), ir.Constant(self.bits, 0))

    def whole(self, mask: Any) -> Any:
        """i1: whether every lane is active."""
        return self.builder.icmp_unsigned("==", self.packed(mask), ir.Constant(self.bits, (1 << self.width) - 1))

    def first(self, mask: Mask) -> Any:
        """i32: the first active lane of a mask that is not empty."""
        if mask is None:
            return ir.Constant(I32, 0)
        b = self.builder
        bits = self.packed(mask)
        parts: list[Any] = []  # of at most 64 bits, for which the intrinsic is known to be selectable
        for place in range(0, self.width, 64):
            part = b.lshr(bits, ir.Constant(self.bits, place)) if place else bits
            parts.append(b.trunc(part, I64) if self.width > 64 else part if self.width == 64 else b.zext(part, I64))
        # an empty mask gives the last lane, which exists
        parts[-1] = b.or_(parts[-1], ir.Constant(I64, 1 << ((self.width - 1) % 64)))
        found = ir.Constant(I64, 0)
        for number, part in reversed(list(enumerate(parts))):
            here = call_intrinsic(b, "llvm.cttz.i64", I64, part, ir.Constant(BIT, 1 if number == len(parts) - 1 else 0))
            here = b.add(here, ir.Constant(I64, 64 * number)) if number else here
            is_empty = b.icmp_unsigned("==", part, ir.Constant(I64, 0))
            found = here if number == len(parts) - 1 else b.select(is_empty, found, here)
        return b.trunc(found, I32)

    def lane(self, vector: Any, mask: Mask) -> Any:
        """The value of some active lane."""
        return self.builder.extract_element(vector, self.first(mask))
