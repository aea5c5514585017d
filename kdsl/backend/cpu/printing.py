"""`print` on the CPU: the active lanes of a group take turns, from the lowest to the highest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from kdsl.backend.cpu.lanes import BIT, I32, I64, POINTER, Uniform
from kdsl.backend.llvm import printing
from kdsl.backend.llvm.module import call_intrinsic
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
    count = ir.IntType(max(e.width, 32))
    lanes = e.masks.packed(e.mask) if e.width >= 32 else b.zext(e.masks.packed(e.mask), count)
    head, body, after = (e.append(name) for name in ("prints", "turn", "printed"))
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    left = b.phi(count)
    left.add_incoming(lanes, before)
    b.cbranch(b.icmp_unsigned("!=", left, ir.Constant(count, 0)), body, after)
    b.position_at_end(body)
    lane = call_intrinsic(b, f"llvm.cttz.i{count.width}", count, left, ir.Constant(BIT, 1))
    lane = lane if count.width == 32 else b.trunc(lane, I32)
    words = []
    for wanted, value, vector in zip(op.values, values, vectors, strict=True):
        scalar = value.scalar if isinstance(value, Uniform) else b.extract_element(vector, lane)
        words.append(printing.word(b, wanted.type, scalar))
    printing.append(b, claim, kernel, op.site, words)
    left.add_incoming(b.and_(left, b.sub(left, ir.Constant(count, 1))), b.block)
    b.branch(head)
    b.position_at_end(after)
