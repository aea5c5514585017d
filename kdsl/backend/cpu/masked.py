"""Masked loads and stores of neighbouring elements, a register at a time.

LLVM would divide wider ones itself, and its code generator for x86 (LLVM 22) gets that wrong: where the mask of a part is known to be empty, and something
else in the block uses the address at which it divides, the part is loaded without a mask. `partial[lane] if lane < 3 else 0` then had what lies behind.

A store of the only active lane is one of a scalar, which LLVM would make of it too, but wrongly with AVX-512: of numbers that were shortened for it, all bytes
of the long one are stored, over the elements behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32
from kdsl.backend.cpu.parts import taken, together
from kdsl.backend.llvm.module import call_intrinsic, mangled
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


def bytes_of(kind: ir.Type) -> int:
    """Bytes of a number in memory."""
    return kind.width // 8 if isinstance(kind, ir.IntType) else 4 if isinstance(kind, ir.FloatType) else 8


def load(e: Emission, vector: ir.VectorType, address: Any, alignment: int, mask: Any, memory: nodes.Memory) -> Any:
    """The elements from `address` on whose lanes are active, 0 for the others."""
    parts = []
    for kind, _, place, aligned, active in _registers(e, vector, address, alignment, mask):
        name = f"llvm.masked.load.{mangled(kind)}.p0"
        loaded = call_intrinsic(e.builder, name, kind, place, ir.Constant(I32, aligned), active, ir.Constant(kind, None))
        e.storage.mark(loaded, memory)
        parts.append(loaded)
    return together(e.builder, parts)


def store(e: Emission, value: Any, address: Any, alignment: int, mask: Any, memory: nodes.Memory) -> None:
    """Store the elements whose lanes are active."""
    for kind, first, place, aligned, active in _registers(e, value.type, address, alignment, mask):
        part = value if kind.count == value.type.count else taken(e.builder, value, first, kind.count)
        lane = _only(active)
        if lane is not None:
            alone = e.builder.gep(place, [e.i64(lane)], source_etype=kind.element) if lane else place
            size = bytes_of(kind.element)
            scalar = e.builder.extract_element(part, ir.Constant(I32, lane))
            e.storage.mark(e.builder.store(scalar, alone, align=size), memory)
            continue
        name = f"llvm.masked.store.{mangled(kind)}.p0"
        stored = call_intrinsic(e.builder, name, ir.VoidType(), part, place, ir.Constant(I32, aligned), active)
        e.storage.mark(stored, memory)


def _only(mask: Any) -> int | None:
    """The number of the lane of which alone it is known that it is active, None if there is no such lane."""
    if not (isinstance(mask, ir.Constant) and isinstance(mask.constant, list | tuple)):
        return None
    active = [lane for lane, bit in enumerate(mask.constant) if getattr(bit, "constant", bit)]
    return active[0] if len(active) == 1 else None


def _registers(
    e: Emission, vector: ir.VectorType, address: Any, alignment: int, mask: Any
) -> Iterator[tuple[ir.VectorType, int, Any, int, Any]]:
    """For each register: its type, its first lane, its address and alignment, and its part of the mask."""
    element = vector.element
    count = min(vector.count, e.host.vector_bits // 8 // bytes_of(element))
    kind = ir.VectorType(element, count)
    for first in range(0, vector.count, count):
        place = e.builder.gep(address, [e.i64(first)], source_etype=element) if first else address
        aligned = min(alignment, count * bytes_of(element)) if first else alignment
        yield kind, first, place, aligned, e.masks.parts.of(mask, first, count)
