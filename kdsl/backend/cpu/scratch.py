"""The layout of a running thread's scratch memory: shared arrays, local arrays, and what lives from one region to the next."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

ALIGNMENT: Final = 64
"""Bytes at which every part begins: a cache line, and the widest vector."""


class Scratch:
    """Hands out parts of the scratch memory, in the order in which they are asked for."""

    def __init__(self, emission: Emission) -> None:
        self.e = emission
        self.bytes = 0
        """Size so far."""
        self.base: Any = None
        """The address of the present block's part, None while there is one for all."""

    def reserve(self, size: int, alignment: int = ALIGNMENT) -> int:
        """The offset of a new part of `size` bytes, a multiple of 64 and of `alignment`, which is a power of two."""
        step = max(alignment, ALIGNMENT)
        offset = -(-self.bytes // step) * step
        self.bytes = offset + -(-size // ALIGNMENT) * ALIGNMENT
        return offset

    def pointer(self, offset: int) -> Any:
        """The address of a part, at the builder's position."""
        base = self.e.builder.function.args[3] if self.base is None else self.base
        return self.e.builder.gep(base, [self.e.i64(offset)], source_etype=ir.IntType(8))


class Context:
    """A value per group that lives from one region to the next."""

    def __init__(self, emission: Emission, kind: ir.Type, size: int) -> None:
        self.e = emission
        self.kind = kind
        self.stride = 1 << (size - 1).bit_length()
        """Bytes from one group's value to the next one's: a power of two, so that vectors are aligned."""
        self.offset = emission.scratch.reserve(self.stride * emission.groups)

    def of(self, emission: Emission) -> Context:
        """The same memory for groups of another width."""
        wider = emission.width // self.e.width
        other = copy.copy(self)
        other.e = emission
        other.stride = self.stride * wider
        if isinstance(self.kind, ir.VectorType):
            other.kind = ir.VectorType(self.kind.element, emission.width)
        return other

    def _address(self) -> Any:
        e = self.e
        place = e.builder.mul(e.specials.group, e.i64(self.stride))
        return e.builder.gep(e.scratch.pointer(self.offset), [place], source_etype=ir.IntType(8))

    def load(self) -> Any:
        """The value of the present group."""
        loaded = self.e.builder.load(self._address(), align=min(self.stride, ALIGNMENT), typ=self.kind)
        self.e.storage.mark(loaded, self)
        return loaded

    def load_as(self, kind: ir.Type) -> Any:
        """The value of the present group as a vector, or as a scalar that all lanes share."""
        b = self.e.builder
        loaded = self.load()
        if isinstance(self.kind, ir.VectorType) and not isinstance(kind, ir.VectorType):
            loaded = b.extract_element(loaded, ir.Constant(ir.IntType(32), 0))
        return b.icmp_unsigned("!=", loaded, ir.Constant(loaded.type, None)) if _is_bool(kind) else loaded

    def store_as(self, value: Any) -> None:
        """Set the value of the present group from a vector, or from a scalar that all lanes share."""
        if _is_bool(value.type):
            value = self.e.builder.zext(value, widened(value.type))
        if isinstance(self.kind, ir.VectorType) and not isinstance(value.type, ir.VectorType):
            value = self.e.lanes.splat(value)
        self.store(value)

    def store(self, value: Any) -> None:
        """Set the value of the present group."""
        stored = self.e.builder.store(value, self._address(), align=min(self.stride, ALIGNMENT))
        self.e.storage.mark(stored, self)


def _is_bool(kind: ir.Type) -> bool:
    return bool((kind.element if isinstance(kind, ir.VectorType) else kind) == ir.IntType(1))


def widened(kind: ir.Type) -> ir.Type:
    """The type in which a value is kept: a bool as a byte, so that lanes lie alike for groups of every width."""
    if not _is_bool(kind):
        return kind
    return ir.VectorType(ir.IntType(8), kind.count) if isinstance(kind, ir.VectorType) else ir.IntType(8)
