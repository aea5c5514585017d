"""`print` on the CPU: the active lanes of a group take turns, from the lowest to the highest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, I64, POINTER, Uniform
from kdsl.backend.cpu.turns import each_lane
from kdsl.backend.llvm import printing
from kdsl.ir import nodes
from kdsl.ir.abi import layout

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


def lines(emission: Emission, op: nodes.Print) -> None:
    """A line of every active lane."""
    e = emission
    b = e.builder
    slots = layout(e.kernel)
    arguments = b.function.args[0]

    def hidden(name: str, kind: ir.Type) -> ir.Instruction:
        return b.load(b.gep(arguments, [ir.Constant(I64, slots.hidden_offset(name))], source_etype=ir.IntType(8)), typ=kind)

    claim, kernel = hidden("claim", POINTER), hidden("kernel", I32)
    values = [e.value(v) for v in op.values]
    vectors = [None if isinstance(v, Uniform) else e.lanes.vector(v) for v in values]

    def line(lane: Any, _: Any) -> None:
        words = []
        for wanted, value, vector in zip(op.values, values, vectors, strict=True):
            scalar = value.scalar if isinstance(value, Uniform) else b.extract_element(vector, lane)
            words.append(printing.word(b, wanted.type, scalar))
        printing.append(b, claim, kernel, op.site, words)

    each_lane(e, e.mask, line)
