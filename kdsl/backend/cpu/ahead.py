"""Hints of what is read soon, one per cache line: those that a kernel gives (`prefetch`), those for the next trip of a loop at block level, and those for the
next groups of lanes.

Such a loop reads tile after tile, or strip after strip (`strips`), at strides that the processor does not foresee. What a trip asks for
comes while it computes. Blocks that take turns (`rounds`) read the same: each asks for a part of what they read in their next turns. A kernel without loops
goes through its arrays from one end to the other, which the processor does foresee, but it fetches what is read only into a far cache, and what is written
not before it is. What is not here: when an access asks (`memory`).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, I64, Lanes, Linear, Uniform, Vector, constant_of
from kdsl.backend.cpu.strips import TRIPS, Strips
from kdsl.backend.cpu.turns import count_up
from kdsl.backend.llvm.module import call_intrinsic, memory_type
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission
    from kdsl.backend.cpu.rounds import Turn

_LINE: Final = 64
"""Bytes of a cache line."""
_FURTHER: Final = 2048
"""Bytes that a hint for the next groups is ahead."""


def hint(e: Emission, memory: nodes.Memory, index: Lanes, further: Any = None, *, nearest: bool = False, written: bool = False) -> None:
    """One hint for all lanes whose elements lie in a line if those of neighbouring lanes are neighbours, whoever is active; none where that is not known.
    `further` is added to the index. `nearest` asks for lines in the nearest cache instead of the second, `written` for such that are written.
    """
    if isinstance(index, Vector):
        return
    for lane in _first_lanes(memory, index) if isinstance(index, Linear) else [0]:
        place = e.memory.place(index, lane) if isinstance(index, Linear) else index.scalar
        _ask(e, memory, place if further is None else e.builder.add(place, further), nearest=nearest, written=written)


def _ask(e: Emission, memory: nodes.Memory, place: Any, *, nearest: bool = False, written: bool = False) -> None:
    """One hint for the line of an element."""
    address = e.builder.gep(e.storage.start(memory), [place], source_etype=memory_type(memory.type))
    purpose, near, data = ir.Constant(I32, int(written)), ir.Constant(I32, 3 if nearest else 2), ir.Constant(I32, 1)
    call_intrinsic(e.builder, "llvm.prefetch.p0", ir.VoidType(), address, purpose, near, data)


def _first_lanes(memory: nodes.Memory, index: Linear) -> list[int]:
    """The first lane of each run of neighbours that lie in a line, strides that are run-time values taken as 1; one of those that name the same."""
    line = max(1, _LINE // memory.type.itemsize)
    rows = list(zip(*(term.offsets for term in index.terms), strict=True))
    found = [0]
    for lane, (before, here) in enumerate(itertools.pairwise(rows), 1):
        steps = [b - a for a, b in zip(before, here, strict=True)]
        if sorted(steps) != [0] * (len(steps) - 1) + [1] or lane - found[-1] >= line:
            found.append(lane)
    return [lane for number, lane in enumerate(found) if rows[lane] not in (rows[earlier] for earlier in found[:number])]


def hint_next_groups(e: Emission, op: nodes.Load | nodes.Store, index: Linear) -> None:
    """A hint of what the access does some groups later, where a wide group is one run of neighbours and no loop is around it. For an element that is read and
    written one is enough."""
    attempt, key = e.attempt, (op.memory, op.indices)
    if attempt is None or index.offsets != e.lanes.iota or key in attempt.hinted:
        return
    if not any(isinstance(control, nodes.ForRange | nodes.While) for control in e.uniformity.path(op)):
        attempt.hinted.add(key)
        hint(e, op.memory, index, e.i64(_FURTHER // op.memory.type.itemsize), nearest=True, written=isinstance(op, nodes.Store))


def hint_next_trip(e: Emission, op: nodes.Load, index: Linear) -> None:
    """A hint of what the load reads in the next trip of the loop at block level around it, in the next strip or in the next turn, if that is known and lies
    elsewhere."""
    path = e.uniformity.path(op)
    outer = next((control for control in reversed(path) if control in e.plan.controls), None)
    if not isinstance(outer, nodes.ForRange) or not isinstance(outer.step, nodes.Constant) or len(op.indices) != 1:
        return
    loops = [control for control in path if isinstance(control, nodes.ForRange | nodes.While) and control not in e.plan.controls]
    if len(loops) != isinstance(outer, Strips):
        return
    turn = e.turn if e.turn is not None and e.turn.loop is outer else None
    if turn is not None and loops:
        return  # of blocks that take turns `hint_next_strip` asks, in front of the strip
    counter = loops[0].counter if loops and isinstance(loops[0], nodes.ForRange) else outer.counter
    rise = slope(e, op.indices[0], counter)
    if rise is None or constant_of(rise) is not None or _goes_on(e, e.value(op.indices[0]), rise):
        return
    b = e.builder
    next_trip = b.mul(rise, e.i64(int(outer.step.value)))

    def ask_all() -> None:
        hint(e, op.memory, index, next_trip)

    if turn is not None:
        e.memory.either(
            b.icmp_signed("==", turn.count, e.i64(1)),
            ask_all,
            lambda: _hint_next_turn(e, op.memory, index, b.mul(rise, e.i64(turn.grows)), turn),
        )
    elif loops:  # what the groups share one of them asks for
        e.memory.either(b.icmp_unsigned("==", e.specials.group, e.i64(0)), ask_all, lambda: None)
    else:
        ask_all()


def _hint_next_turn(e: Emission, memory: nodes.Memory, index: Linear, further: Any, turn: Turn) -> None:
    """A hint of what blocks of a round read in their next turn, `further` elements behind the index. Of lines at equal distances each block asks for a part."""
    b, lanes = e.builder, _first_lanes(memory, index)
    if len(lanes) == 1 or any(len({t.offsets[b] - t.offsets[a] for a, b in itertools.pairwise(lanes)}) > 1 for t in index.terms):
        hint(e, memory, index, further)
        return
    first, step = b.add(e.memory.place(index, 0), further), e.i64(0)
    for term in index.terms:
        constant = e.i64(term.offsets[lanes[1]] - term.offsets[0])
        step = b.add(step, constant if term.coefficient is None else b.mul(term.coefficient, constant))
    lines = e.i64(len(lanes))
    begin = b.select(turn.goes_on, turn.number, lines)
    count_up(e, begin, lines, turn.count, lambda line: _ask(e, memory, b.add(first, b.mul(line, step))))


def hint_next_strip(e: Emission, op: nodes.Load, first: Lanes, rise: Any) -> None:
    """Where blocks take turns, a hint before a strip of what the load reads in the next one. It reads at `first` in the first trip of this strip and
    `rise` elements further in each trip. Of what the groups of the blocks of a round share each asks for a part. A block that is alone does without: so
    many hints at once would hold up what it reads now.
    """
    index, b, turn = e.memory.near(first), e.builder, e.turn
    if turn is None or not e.memory.is_run_of_a_view(index, op) or constant_of(rise) is not None or _goes_on(e, first, rise):
        return
    askers = b.mul(turn.count, e.i64(e.groups))
    asker = b.add(e.specials.group, b.mul(turn.number, e.i64(e.groups)))
    begin = b.select(b.and_(turn.goes_on, b.icmp_signed(">", turn.count, e.i64(1))), asker, e.i64(TRIPS))
    count_up(e, begin, e.i64(TRIPS), askers, lambda trip: hint(e, op.memory, index, b.mul(b.add(trip, e.i64(TRIPS)), rise)))


def _goes_on(e: Emission, index: Lanes, rise: Any) -> bool:
    """Whether the next trip reads on along the lines that lanes side by side read in this one, which the processor foresees."""
    return isinstance(index, Linear) and any(term.coefficient is rise and e.memory.has_runs(term.offsets) for term in index.terms)


def slope(e: Emission, op: nodes.ValueOp, counter: nodes.ValueOp) -> Any:
    """By how much an i64 grows when the counter grows by 1, the same for all lanes and trips; None if that is not known."""
    if op is counter:
        return ir.Constant(I64, 1)
    if not _depends(op, counter):
        return ir.Constant(I64, 0)
    if isinstance(op, nodes.Cast) and op.type.bits == 64 and op.operand.type.bits == 64:
        return slope(e, op.operand, counter)
    if not isinstance(op, nodes.Binary) or op.op not in ("add", "sub", "mul") or op.type.bits != 64:
        return None
    if op.op == "mul":
        one, other = (op.left, op.right) if _depends(op.left, counter) else (op.right, op.left)
        rise, factor = slope(e, one, counter), e.values.get(other)
        if rise is None or _depends(other, counter) or not isinstance(factor, Uniform):
            return None
        return factor.scalar if constant_of(rise) == 1 else e.builder.mul(rise, factor.scalar)
    left, right = slope(e, op.left, counter), slope(e, op.right, counter)
    if left is None or right is None:
        return None
    if constant_of(right) == 0:
        return left
    if op.op == "add":
        return right if constant_of(left) == 0 else e.builder.add(left, right)
    return e.builder.sub(left, right)


def _depends(op: nodes.ValueOp, counter: nodes.ValueOp) -> bool:
    """Whether a value depends on the counter, directly or, for all that is known, by way of a variable or memory."""
    if op is counter or isinstance(op, nodes.Get | nodes.Load | nodes.Result | nodes.Atomic | nodes.Exchange):
        return True
    return any(_depends(operand, counter) for operand in nodes.operands(op))
