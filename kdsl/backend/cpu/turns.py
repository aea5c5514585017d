"""Small loops of the emitted code: over the lanes of a group, from the lowest to the highest, and over numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.lanes import BIT, I32, I64
from kdsl.backend.cpu.masks import Mask
from kdsl.backend.llvm.module import call_intrinsic

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


def each_bit(b: ir.IRBuilder, bits: Any, body: Callable[[Any, Any], Any], start: Any = None) -> Any:
    """Emit a loop that runs `body` for each bit that is set in an integer, with the bit's number, of the integer's type, and what is carried from one to the
    next: `start`, then what `body` gives. Returns what is carried behind the last; None carries nothing."""
    kind, before = bits.type, b.block
    head, inside, after = (b.function.append_basic_block(name) for name in ("turns", "turn", "turned"))
    b.branch(head)
    b.position_at_end(head)
    left = b.phi(kind)
    left.add_incoming(bits, before)
    carried = None
    if start is not None:
        carried = b.phi(start.type)
        carried.add_incoming(start, before)
    b.cbranch(b.icmp_unsigned("!=", left, ir.Constant(kind, 0)), inside, after)
    b.position_at_end(inside)
    following = body(call_intrinsic(b, f"llvm.cttz.i{kind.width}", kind, left, ir.Constant(BIT, 1)), carried)
    left.add_incoming(b.and_(left, b.sub(left, ir.Constant(kind, 1))), b.block)
    if carried is not None:
        carried.add_incoming(following, b.block)
    b.branch(head)
    b.position_at_end(after)
    return carried


def each_lane(e: Emission, mask: Mask, body: Callable[[Any, Any], Any], start: Any = None) -> Any:
    """The same for the lanes of a mask, whose numbers are i32."""
    b = e.builder
    count = ir.IntType(max(e.width, 32))
    packed = e.masks.packed(mask)
    lanes = packed if e.width >= 32 else b.zext(packed, count)
    return each_bit(b, lanes, lambda lane, carried: body(lane if count.width == 32 else b.trunc(lane, I32), carried), start)


def count_up(e: Emission, start: Any, stop: Any, step: Any, body: Callable[[Any], None]) -> None:
    """Emit a loop that runs `body` with the numbers (i64) from `start` on, below `stop`, `step` apart; perhaps there is none."""
    b, before = e.builder, e.builder.block
    head, inside, after = e.append("counted"), e.append("number"), e.append("endcounted")
    b.branch(head)
    b.position_at_end(head)
    number = b.phi(I64, "number")
    number.add_incoming(start, before)
    b.cbranch(b.icmp_signed("<", number, stop), inside, after)
    b.position_at_end(inside)
    body(number)
    number.add_incoming(b.add(number, step), b.block)
    b.branch(head)
    b.position_at_end(after)
