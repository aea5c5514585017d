"""Loops that read what the groups of a block share, cut into strips, so that all groups run one strip before any begins the next.

A kernel without barriers runs one group of lanes after the other, each through its whole loop. What they all read, as the columns of a matrix for the rows of a
block of threads, has left the nearest caches when the next group comes. Here the loop becomes one at block level around regions (`plan`), each of which runs a
strip of trips. Every thread makes the same trips in the same order, so no bit changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kdsl.backend.cpu.lanes import modest
from kdsl.backend.cpu.split import PURE
from kdsl.ir import nodes
from kdsl.ir.uniformity import Level, Uniformity
from kdsl.lang.types import I64

TRIPS: Final = 64
"""Trips of a strip: so many cache lines fit even where a stride lets them share a few sets of the cache, and starting them costs little beside."""
_OUTWARD: Final = (
    nodes.Return,
    nodes.Break,
    nodes.Continue,
    nodes.Leave,
    nodes.Barrier,
    nodes.Exchange,
    nodes.Agreed,
    nodes.Atomic,
    nodes.Instruction,
    nodes.Fence,
)
"""Operations with which a kernel stays as it is: jumps, and what orders threads or memory."""

BOUNDS: Final = (nodes.Constant, nodes.ParameterValue, nodes.Length, nodes.Cast)
"""What the bounds of the loop may be made of, since they are computed whether a thread comes to the loop or not."""


@dataclass(eq=False, kw_only=True)
class Strips(nodes.ForRange):
    """A loop over strips, to stand at block level."""


def cut(kernel: nodes.Kernel) -> nodes.Kernel:
    """The kernel with its loop cut, or the kernel itself if it has no loop of that kind."""
    if kernel.block_dim[1] == 1 or kernel.arrays or kernel.shared_views or any(isinstance(op, _OUTWARD) for op in nodes.walk(kernel.body)):
        return kernel
    body = kernel.body.ops
    if not body:
        return kernel
    controls = [op for op in body if nodes.children(op)]
    guard = body[-1] if isinstance(body[-1], nodes.If) and not body[-1].orelse.ops and len(controls) == 1 else None
    before, inside = (body[:-1], guard.then.ops) if guard is not None else ([], body)
    place = next((place for place, op in enumerate(inside) if nodes.children(op)), len(inside))
    if place == len(inside) or not isinstance(inside[place], nodes.ForRange):
        return kernel
    loop, first, rest = inside[place], inside[:place], inside[place + 1 :]
    assert isinstance(loop, nodes.ForRange)
    values = [op for op in first if not isinstance(op, nodes.Set)]
    if not all(isinstance(op, PURE) and not isinstance(op, nodes.Load | nodes.LoadVector | nodes.Result | nodes.Get) for op in values):
        return kernel
    bounds = needed(loop.start, loop.stop)
    if not _is_worth_it(loop, Uniformity(kernel)) or not all(isinstance(op, BOUNDS) for op in bounds):
        return kernel
    outside = [op for op in values if op in bounds]
    values = [op for op in values if op not in bounds]

    def for_some(ops: list[nodes.Op]) -> list[nodes.Op]:
        """Operations for the threads that the branch lets through, with the values before the loop, which each region computes for itself."""
        if guard is None:
            return ops
        return [nodes.If(location=guard.location, condition=guard.condition, then=nodes.Block([*values, *ops]), orelse=nodes.Block())]

    head = first if guard is None else [*before, *outside, *for_some([op for op in first if isinstance(op, nodes.Set)])]
    return dataclasses.replace(kernel, body=nodes.Block([*head, *_strips(loop, for_some), *for_some(rest)]))


def needed(*values: nodes.ValueOp) -> set[nodes.Op]:
    """All that some values depend on, themselves included."""
    found: set[nodes.Op] = set()
    left = list(values)
    while left:
        op = left.pop()
        if op not in found:
            found.add(op)
            left += nodes.operands(op)
    return found


def _strips(loop: nodes.ForRange, for_some: Callable[[list[nodes.Op]], list[nodes.Op]]) -> list[nodes.Op]:
    """The loop over strips around the loop itself, behind the value of its step."""
    at = loop.location
    low, high = loop.counter.range or (0, 1 << 61)
    trips = nodes.Constant(location=at, type=I64, range=(TRIPS, TRIPS), value=TRIPS)
    start = nodes.Counter(location=at, type=I64, range=(low, high))
    after = nodes.Binary(location=at, type=I64, range=(low + TRIPS, high + TRIPS), op="add", left=start, right=trips)
    stop = nodes.Binary(location=at, type=I64, range=(low, high + TRIPS), op="min", left=after, right=loop.stop)
    strip = dataclasses.replace(loop, start=start, stop=stop)
    strips = Strips(
        location=at,
        counter=start,
        start=loop.start,
        stop=loop.stop,
        step=trips,
        body=nodes.Block(for_some([after, stop, strip])),
        orelse=nodes.Block(),
    )
    return [trips, strips]


def _is_worth_it(loop: nodes.ForRange, uniformity: Uniformity) -> bool:
    """Whether a loop only computes, is one on whose trips all threads agree, and reads elements that do not depend on the row of a thread in its block."""
    one = isinstance(loop.step, nodes.Constant) and loop.step.value == 1
    if not one or uniformity.control(loop) is not Level.BLOCK or loop.orelse.ops or not modest(loop.counter) or not modest(loop.stop):
        return False
    if not all(isinstance(op, PURE) for op in loop.body):
        return False
    loads = [op for op in loop.body if isinstance(op, nodes.Load) and isinstance(op.memory, nodes.View)]
    return any(uniformity.level(op) is Level.LANE and not _depends_on_row(op, set()) for op in loads)


def _depends_on_row(op: nodes.ValueOp, seen: set[nodes.ValueOp]) -> bool:
    """Whether a value may differ between the rows of threads of a block."""
    if op in seen or isinstance(op, nodes.Counter):
        return False
    seen.add(op)
    if isinstance(op, nodes.Get) or (isinstance(op, nodes.Special) and not op.name.startswith(("thread_idx.x", "block_idx", "grid_dim"))):
        return True
    return any(_depends_on_row(operand, seen) for operand in nodes.operands(op))
