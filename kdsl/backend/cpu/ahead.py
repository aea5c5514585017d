"""Hints of what is read soon, one per cache line: those that a kernel gives (`prefetch`), those for the next trip of a loop at block level, and those for the
next groups of lanes.

Such a loop reads tile after tile, or strip after strip (`strips`), at strides that the processor does not foresee. What a trip asks for
comes while it computes. A kernel without loops goes through its arrays from one end to the other, which the processor does foresee, but it fetches what is
read only into a far cache, and what is written not before it is. What is not here: when an access asks (`memory`).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, I64, Lanes, Linear, Uniform, Vector, constant_of
from kdsl.backend.cpu.strips import Strips
from kdsl.backend.llvm.module import call_intrinsic, memory_type
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

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
    kind, size = memory_type(memory.type), memory.type.itemsize
    lanes = _first_lanes(index, max(1, _LINE // size)) if isinstance(index, Linear) else [0]
    for lane in lanes:
        place = e.memory.place(index, lane) if isinstance(index, Linear) else index.scalar
        if further is not None:
            place = e.builder.add(place, further)
        address = e.builder.gep(e.storage.start(memory), [place], source_etype=kind)
        purpose, near, data = ir.Constant(I32, int(written)), ir.Constant(I32, 3 if nearest else 2), ir.Constant(I32, 1)
        call_intrinsic(e.builder, "llvm.prefetch.p0", ir.VoidType(), address, purpose, near, data)


def _first_lanes(index: Linear, line: int) -> list[int]:
    """The first lane of each run of at most `line` neighbours, strides that are run-time values taken as 1; one of those that name the same."""
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
    """A hint of what the load reads in the next trip of the loop at block level around it, if that is known and lies elsewhere."""
    path = e.uniformity.path(op)
    outer = next((control for control in reversed(path) if control in e.plan.controls), None)
    if not isinstance(outer, nodes.ForRange) or not isinstance(outer.step, nodes.Constant) or len(op.indices) != 1:
        return
    loops = [control for control in path if isinstance(control, nodes.ForRange | nodes.While) and control not in e.plan.controls]
    if len(loops) != isinstance(outer, Strips):
        return
    counter = loops[0].counter if loops and isinstance(loops[0], nodes.ForRange) else outer.counter
    rise = slope(e, op.indices[0], counter)
    if rise is not None and constant_of(rise) is None and not _goes_on(e, e.value(op.indices[0]), rise):
        further = e.builder.mul(rise, ir.Constant(I64, int(outer.step.value)))
        if not isinstance(outer, Strips):
            hint(e, op.memory, index, further)
            return
        # what the groups share one of them asks for
        asks, after = e.append("ask"), e.append("asked")
        e.builder.cbranch(e.builder.icmp_unsigned("==", e.specials.group, e.i64(0)), asks, after)
        e.builder.position_at_end(asks)
        hint(e, op.memory, index, further)
        e.builder.branch(after)
        e.builder.position_at_end(after)


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
