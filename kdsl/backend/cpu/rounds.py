"""Blocks that take turns: those of a column of a band (`specials`) run some trips of their loop each, round after round, instead of one block to its end before
the next one begins.

What the blocks of a column share, as tiles of the same columns of a matrix, is then read again soon. Else a whole column has to stay in a cache, which it does
not if its rows are a power of two apart and so share a few sets. Blocks are independent, so no bit changes. Every block of a round has its own part of the
scratch memory. What is not here: the loop over rounds (`function`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import BIT, I32, I64, Uniform, modest
from kdsl.backend.cpu.plan import Region
from kdsl.backend.cpu.specials import gains_by_order
from kdsl.backend.cpu.split import PURE
from kdsl.backend.cpu.strips import BOUNDS, Strips, needed
from kdsl.ir import nodes
from kdsl.lang.attributes import PLAIN

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

BLOCKS: Final = 8
"""Blocks of a round, a power of two. Beside them only what they share of a span has to stay in a cache, so that there may be more than in a band of others."""
_SPAN: Final = 128
"""By how much the counter of the loop grows in a turn, unless a turn is a strip (`strips`): so many rows of a matrix, a cache line of each, stay in a level-2
cache even if they share a few of its sets, and changing between blocks costs little beside."""
_MOST_SCRATCH: Final = 1 << 14
"""Bytes of arrays with which blocks take turns: those of a round should stay in the nearest caches."""
_READS: Final = (nodes.Load, nodes.LoadVector, nodes.Result, nodes.Get, nodes.Set)
_FIT: Final = (*PURE, nodes.OnGpu, nodes.Store, nodes.StoreVector, nodes.Clear, nodes.If, nodes.ForRange, nodes.Barrier)
"""What a kernel may hold: nothing that could show the order of blocks."""


def loop_in_turns(e: Emission) -> nodes.ForRange | None:
    """The loop at block level whose trips blocks may make in turns; None if there is none, or it would not be worth it, or could be seen."""
    plan, kernel = e.plan, e.kernel
    if e.keeps_order or not gains_by_order(kernel) or kernel.shared_views or kernel.attributes != PLAIN or e.scratch.bytes > _MOST_SCRATCH:
        return None
    # which of several failures is recorded should not depend on turns
    if not all(isinstance(op, _FIT) and not getattr(op, "checked", False) for op in nodes.walk(kernel.body)):
        return None
    items = plan.items[kernel.body]
    loops = [item for item in items if not isinstance(item, Region) and nodes.children(item)]
    loop = loops[0] if len(loops) == 1 else None
    if not isinstance(loop, nodes.ForRange) or loop.orelse.ops or plan.scalar_variables:
        return None
    if not isinstance(loop.step, nodes.Constant) or not 0 < loop.step.value <= _SPAN or not modest(loop.counter) or not modest(loop.stop):
        return None
    values = [item for item in items if not isinstance(item, Region | nodes.Barrier) and item is not loop]
    are_plain = all(isinstance(op, PURE) and not isinstance(op, _READS) for op in values)
    return loop if are_plain and all(isinstance(op, BOUNDS) for op in needed(loop.start, loop.stop)) else None


@dataclass(frozen=True)
class Turn:
    """The turn of a block that is being emitted."""

    loop: nodes.ForRange
    """The loop of which the blocks run some trips each."""
    number: Any
    """LLVM scalar, i64: the number of the block among those of a column that share a round."""
    count: Any
    """LLVM scalar, i64: how many they are."""
    grows: int
    """By how much the counter of the loop grows in a turn."""
    goes_on: Any
    """LLVM i1: whether the blocks of the round take another turn."""


def emit_round(e: Emission, loop: nodes.ForRange, first: Any, count: Any) -> None:
    """Run `count` blocks, at most `BLOCKS`, from number `first` on."""
    b = e.builder
    items = e.plan.items[e.kernel.body]
    place = items.index(loop)
    own = -(-e.scratch.bytes // 1024) * 1024
    e.scratch.bytes = own * BLOCKS
    assert isinstance(loop.step, nodes.Constant)
    step = int(loop.step.value)
    grows = step if isinstance(loop, Strips) else -(-_SPAN // step) * step

    # of each block what `Specials.where` says: three indices, and two numbers of its place in the column
    kept = e.buffer(ir.ArrayType(I32, 5 * BLOCKS), "blocks of a round")

    def enter(turn: Any, *, again: bool) -> None:
        """Take up a block. For turns as short as strips it is kept where each stands, since it takes divisions to find out."""
        if not again:
            e.specials.enter_block(b.add(first, turn))
        where = e.specials.where()
        places = [b.gep(kept, [b.add(b.mul(turn, e.i64(len(where))), e.i64(number))], source_etype=I32) for number in range(len(where))]
        if again:
            e.specials.return_to([b.zext(b.load(place, typ=I32), I64) for place in places])
        elif isinstance(loop, Strips):
            for value, place in zip(where, places, strict=True):
                b.store(b.trunc(value, I32), place)

    def each(chosen: list[Any], *, only_values: int) -> None:
        """Each of the blocks in turn: the values among the first `only_values` items, and those chosen."""
        head, after = e.append("turn"), e.append("turned")
        before = b.block
        b.branch(head)
        b.position_at_end(head)
        turn = b.phi(I64, "turn")
        turn.add_incoming(e.i64(0), before)
        enter(turn, again=isinstance(loop, Strips) and only_values > 0)
        e.turn = Turn(loop, *e.specials.in_column, grows, goes_on)
        e.scratch.base = b.gep(b.function.args[3], [b.mul(turn, e.i64(own))], source_etype=ir.IntType(8))
        e.values, e.mask, e.dead = {}, None, False
        e.enter(e.kernel.body)
        for item in [*(i for i in items[:only_values] if isinstance(i, nodes.ValueOp)), *chosen]:
            if isinstance(item, Region):
                e.regions.region(item)
            else:
                e.operation(item)
        following = b.add(turn, e.i64(1))
        turn.add_incoming(following, b.block)
        b.cbranch(b.icmp_unsigned("<", following, count), head, after)
        b.position_at_end(after)

    goes_on: Any = ir.Constant(BIT, 0)
    each(items[:place], only_values=0)
    e.values = {}
    bounds = needed(loop.start, loop.stop)
    for item in items[:place]:
        if item in bounds:
            e.operation(item)
    start, stop = e.value(loop.start), e.scalar(e.value(loop.stop))
    assert isinstance(start, Uniform)
    head, body, after = e.append("round"), e.append("turns"), e.append("endrounds")
    before = b.block
    b.branch(head)
    b.position_at_end(head)
    begin = b.phi(I64, "begin")
    begin.add_incoming(start.scalar, before)
    b.cbranch(b.icmp_signed("<", begin, stop), body, after)
    b.position_at_end(body)
    further = b.add(begin, e.i64(grows))
    goes_on = b.icmp_signed("<", further, stop)
    end = b.select(goes_on, further, stop)
    e.control.bounds[loop] = (Uniform(begin, math.gcd(start.multiple, step)), Uniform(end))
    each([loop], only_values=place)
    begin.add_incoming(further, b.block)
    b.branch(head)
    b.position_at_end(after)
    goes_on = ir.Constant(BIT, 0)
    each(items[place + 1 :], only_values=place)
    e.scratch.base = e.turn = None
