"""Some lanes of a mask, for a register's worth of lanes at a time, where masks have no registers of their own (x86 before AVX-512, NEON).

There a mask of many lanes is a vector of bytes, and LLVM packs what was compared in 32 bits into it only to take it apart again, byte by byte. So the parts of
a mask are made from the same parts of what it was made from.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32

_LOGIC: Final = {"and": ir.IRBuilder.and_, "or": ir.IRBuilder.or_, "xor": ir.IRBuilder.xor}
_COMPARES: Final = {"eq": "==", "ne": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}


class Parts:
    """Makes parts of masks, each once per LLVM block."""

    def __init__(self, builder: ir.IRBuilder, *, compact: bool) -> None:
        """`compact`: masks have registers, and a part of one is a shift."""
        self.builder = builder
        self._compact = compact
        self._block: Any = None
        self._made: dict[tuple[int, int, int], tuple[Any, Any]] = {}

    def of(self, mask: Any, first: int, count: int) -> Any:
        """`count` lanes of a mask from lane `first` on."""
        if mask.type.count == count:
            return mask
        return taken(self.builder, mask, first, count) if self._compact else self._part(mask, first, count)

    def _part(self, value: Any, first: int, count: int) -> Any:
        if value.type.count == count:
            return value
        if self._block is not self.builder.block:
            self._block, self._made = self.builder.block, {}
        key = (id(value), first, count)
        if key not in self._made:
            self._made[key] = value, self._new(value, first, count)  # the value is kept, so that its identity stays its own
        return self._made[key][1]

    def _new(self, value: Any, first: int, count: int) -> Any:
        b = self.builder
        if isinstance(value, ir.Constant) and isinstance(value.constant, list | tuple):
            return ir.Constant(ir.VectorType(value.type.element, count), list(value.constant[first : first + count]))
        if isinstance(value, ir.CompareInstr):
            left, right = (self._part(operand, first, count) for operand in value.operands)
            return _compared(b, value, left, right)
        if isinstance(value, ir.ShuffleVector):
            low, high, lanes = value.operands
            return b.shuffle_vector(low, high, ir.Constant(ir.VectorType(I32, count), list(lanes.constant[first : first + count])))
        if isinstance(value, ir.Instruction) and value.type.element == ir.IntType(1):
            operands = [o for o in value.operands if isinstance(o.type, ir.VectorType)]
            if value.opname in _LOGIC or (value.opname == "select" and len(operands) == 3):
                parts = [self._part(operand, first, count) for operand in operands]
                return b.select(*parts) if value.opname == "select" else _LOGIC[value.opname](b, *parts)
        return taken(b, value, first, count)

    def select(self, mask: Any, a: Any, b: Any, lanes: int) -> Any:
        """`a` in the lanes of the mask, `b` in the others, `lanes` at a time."""
        count = a.type.count if isinstance(a.type, ir.VectorType) else 0
        if self._compact or count <= lanes or not isinstance(mask.type, ir.VectorType):
            return self.builder.select(mask, a, b)
        parts = [
            self.builder.select(self.of(mask, first, lanes), *(taken(self.builder, x, first, lanes) for x in (a, b)))
            for first in range(0, count, lanes)
        ]
        return together(self.builder, parts)


def taken(builder: ir.IRBuilder, vector: Any, first: int, count: int) -> Any:
    """Some neighbouring lanes of a vector."""
    lanes = ir.Constant(ir.VectorType(I32, count), list(range(first, first + count)))
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), lanes)


def together(builder: ir.IRBuilder, parts: list[Any]) -> Any:
    """Vectors, a power of two of them, one behind the other."""
    while len(parts) > 1:
        lanes = ir.Constant(ir.VectorType(I32, 2 * parts[0].type.count), list(range(2 * parts[0].type.count)))
        parts = [builder.shuffle_vector(low, high, lanes) for low, high in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _compared(b: ir.IRBuilder, comparison: Any, left: Any, right: Any) -> Any:
    """The same comparison of other operands."""
    op: str = comparison.op
    if isinstance(comparison, ir.FCMPInstr):
        if op[1:] in _COMPARES or op in ("ord", "uno"):
            symbol = _COMPARES.get(op[1:], op)
            return b.fcmp_ordered(symbol, left, right) if op[0] == "o" else b.fcmp_unordered(symbol, left, right)
        raise ValueError(f"no such comparison: {op}")
    symbol = _COMPARES[op if op in _COMPARES else op[1:]]
    return b.icmp_unsigned(symbol, left, right) if op[0] == "u" else b.icmp_signed(symbol, left, right)
