"""Tests of a wide group that a loop would make in each trip, made once before it: whether the indices of its loads are inside, and whether neighbouring lanes
name neighbours.

An index that grows by the same amount in each trip is inside in all of them if it is in the first and in the last. What is not here: loops of other groups,
which record what is outside, and have to do so trip by trip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kdsl.backend.cpu.ahead import slope
from kdsl.backend.cpu.lanes import Lanes, Linear, Uniform
from kdsl.backend.cpu.packed import Source
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_INDEX: Final = (nodes.Binary, nodes.Cast, nodes.Constant, nodes.ParameterValue, nodes.Length)
"""What an index inside the loop may be computed with."""
_MANY: Final = 1 << 31
"""Trips, and elements per trip, whose product stays in an i64."""


def prove(e: Emission, loop: nodes.ForRange, start: Lanes, stop: Lanes) -> list[Source]:
    """Test what the loop's loads need; called where the loop surely makes a trip. The loads for which that was possible are `proved` from there on. Those whose
    indices grow evenly and are inside in all trips are given back.
    """
    attempt = e.attempt
    if attempt is None or not isinstance(start, Uniform) or not isinstance(stop, Uniform):
        return []
    if not isinstance(loop.step, nodes.Constant) or loop.step.value != 1:
        return []
    b = e.builder
    loads = [op for op in loop.body if isinstance(op, nodes.Load) and _is_plain(op) and op not in attempt.proved]
    if e.only is not None:
        loads = [op for op in loads if op in e.only]
    last = Uniform(b.sub(stop.scalar, e.i64(1)))
    few = b.icmp_unsigned("<", b.sub(stop.scalar, start.scalar), e.i64(_MANY))
    outside = e.values
    even: list[Source] = []
    for op in loads:
        ends: list[Lanes] = []
        rise: Any = None
        for counter in (start, last):
            e.values = {**outside, loop.counter: counter}
            if not _computed(e, op.indices[0], loop):
                break
            ends.append(e.values[op.indices[0]])
            rise = slope(e, op.indices[0], loop.counter)
        e.values = outside
        if len(ends) < 2 or rise is None:
            continue
        if op.checked:
            modest = b.icmp_unsigned("<", b.add(rise, e.i64(_MANY // 2)), e.i64(_MANY))
            attempt.require(few, modest, *(inside for end in ends for inside in e.checks.all_inside(op, [end])))
            attempt.proved.add(op)
        if isinstance(ends[0], Linear):
            e.memory.prove_unit_stride(op, ends[0])
            even.append(Source(op, ends[0], rise))
    return even


def _is_plain(op: nodes.Load) -> bool:
    return isinstance(op.memory, nodes.View) and op.memory.rank == 1 and op.field is None and len(op.indices) == 1


def _computed(e: Emission, op: nodes.ValueOp, loop: nodes.ForRange) -> bool:
    """Compute a value of the loop's body before the loop, with what `e.values` says of its counter; whether that is possible."""
    if op in e.values:
        return True
    if not isinstance(op, _INDEX) or (isinstance(op, nodes.Binary) and op.op not in ("add", "sub", "mul")):
        return False
    if not all(_computed(e, operand, loop) for operand in nodes.operands(op)):
        return False
    e.values[op] = e.define(op)
    return True
