"""The layout of a running thread's scratch memory: shared arrays, local arrays, and what lives from one region to the next."""

from __future__ import annotations

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

    def reserve(self, size: int, alignment: int = ALIGNMENT) -> int:
        """The offset of a new part of `size` bytes, a multiple of 64 and of `alignment`, which is a power of two."""
        step = max(alignment, ALIGNMENT)
        offset = -(-self.bytes // step) * step
        self.bytes = offset + -(-size // ALIGNMENT) * ALIGNMENT
        return offset

    def pointer(self, offset: int) -> Any:
        """The address of a part, at the builder's position."""
        return self.e.builder.gep(self.e.builder.function.args[3], [self.e.i64(offset)], source_etype=ir.IntType(8))


class Context:
    """A value per group that lives from one region to the next."""

    def __init__(self, emission: Emission, kind: ir.Type, size: int) -> None:
        self.e = emission
        self.kind = kind
        self.stride = 1 << (size - 1).bit_length()
        """Bytes from one group's value to the next one's: a power of two, so that vectors are aligned."""
        self.offset = emission.scratch.reserve(self.stride * emission.groups)

    def _address(self) -> Any:
        e = self.e
        place = e.builder.mul(e.specials.group, e.i64(self.stride))
        return e.builder.gep(e.scratch.pointer(self.offset), [place], source_etype=ir.IntType(8))

    def load(self) -> Any:
        """The value of the present group."""
        loaded = self.e.builder.load(self._address(), align=min(self.stride, ALIGNMENT), typ=self.kind)
        self.e.storage.mark(loaded, self)
        return loaded

    def store(self, value: Any) -> None:
        """Set the value of the present group."""
        stored = self.e.builder.store(value, self._address(), align=min(self.stride, ALIGNMENT))
        self.e.storage.mark(stored, self)
