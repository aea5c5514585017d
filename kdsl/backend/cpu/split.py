"""Reduction loops, split by their accumulators.

A loop that carries more vectors than the processor has registers would keep them in memory. If its body only computes (no stores, no jumps, no exchange),
it can as well run several times, each time for a part of what it carries: every accumulator sees the same operations in the same order.
Accumulators that share operands stay together. What is not here: how the loops are emitted (`control`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from kdsl.backend.cpu.host import HostCpu
from kdsl.ir import nodes
from kdsl.ir.uniformity import Level, Uniformity

if TYPE_CHECKING:
    from kdsl.backend.cpu.plan import Plan

PURE: Final = (
    nodes.Constant,
    nodes.ParameterValue,
    nodes.Length,
    nodes.Special,
    nodes.Unary,
    nodes.Binary,
    nodes.Fma,
    nodes.Scale,
    nodes.Approximation,
    nodes.Compare,
    nodes.Select,
    nodes.Cast,
    nodes.Bitcast,
    nodes.Get,
    nodes.Set,
    nodes.Load,
    nodes.LoadVector,
    nodes.Result,
)
"""Operations that only compute (a checked load also records, see `parts`)."""

Part: TypeAlias = frozenset[nodes.Op]
"""Operations of a loop's body that run together."""


def splits(kernel: nodes.Kernel, plan: Plan, host: HostCpu, width: int, *, wide: bool = False) -> dict[nodes.ForRange, list[Part]]:
    """The loops of a kernel that are to be split, for groups of `width` lanes. Those of `wide` groups record no failure."""
    found = {}
    for op in nodes.walk(kernel.body):
        if isinstance(op, nodes.ForRange) and op not in plan.controls and not plan.is_divergent(op):
            bits = max((o.variable.type.bits for o in op.body if isinstance(o, nodes.Set)), default=32)
            own = parts(op, host.accumulators * host.vector_bits // (width * max(bits, 32)), plan.uniformity, records=not wide)
            if own is not None:
                found[op] = own
    return found


def parts(loop: nodes.ForRange, capacity: int, uniformity: Uniformity, *, records: bool = True) -> list[Part] | None:
    """The operations of each of the loops that together do what `loop` does, with at most `capacity` accumulators each where that is possible; None if it
    should stay as it is. `records`: a checked load records a failure, which must happen once and in order.
    """
    body = loop.body.ops
    if loop.orelse.ops or not all(
        isinstance(op, PURE) and not (records and isinstance(op, nodes.Load | nodes.LoadVector) and op.checked) for op in body
    ):
        return None
    chains = [
        chain
        for chain in _chains(body)
        if any(isinstance(op, nodes.Set) and uniformity.variable(op.variable) is Level.LANE for op in chain)
    ]
    if len(chains) <= max(capacity, 1):
        return None
    groups = [frozenset().union(*(chains[place] for place in group)) for group in _groups(body, chains, max(capacity, 1))]
    # what no accumulator needs, but perhaps someone behind the loop
    rest = [op for op in body if isinstance(op, nodes.Set) and not any(op in group for group in groups)]
    return [*groups[:-1], groups[-1] | _needed(body, rest)] if rest else groups


def _needed(body: list[nodes.Op], goals: Iterable[nodes.Op]) -> Part:
    """The operations of the body that `goals` depend on, in this trip or an earlier one, themselves included."""
    inside = set(body)
    sets: dict[nodes.Variable, list[nodes.Op]] = {}
    for op in body:
        if isinstance(op, nodes.Set):
            sets.setdefault(op.variable, []).append(op)
    found: set[nodes.Op] = set()
    left = list(goals)
    while left:
        op = left.pop()
        if op in found or op not in inside:
            continue
        found.add(op)
        left += nodes.operands(op)
        if isinstance(op, nodes.Result):
            left.append(op.of)
        if isinstance(op, nodes.Get | nodes.Set):
            left += sets.get(op.variable, [])
    return frozenset(found)


def _chains(body: list[nodes.Op]) -> list[Part]:
    """What each accumulator needs: a variable whose value goes from one trip to the next. Accumulators that depend on one another are one chain."""
    carried: dict[nodes.Variable, None] = {}
    assigned: set[nodes.Variable] = set()
    sets = {op.variable for op in body if isinstance(op, nodes.Set)}
    for op in body:
        if isinstance(op, nodes.Get) and op.variable in sets and op.variable not in assigned:
            carried[op.variable] = None
        elif isinstance(op, nodes.Set):
            assigned.add(op.variable)
    chains: list[Part] = []
    owners: list[set[nodes.Variable]] = []
    for variable in carried:
        chain = _needed(body, (op for op in body if isinstance(op, nodes.Set) and op.variable is variable))
        owner = {op.variable for op in chain if isinstance(op, nodes.Set) and op.variable in carried}
        for place in reversed(range(len(chains))):
            if owners[place] & owner:
                chain, owner = chain | chains.pop(place), owner | owners.pop(place)
        chains.append(chain)
        owners.append(owner)
    return chains


def _groups(body: list[nodes.Op], chains: list[Part], capacity: int) -> list[list[int]]:
    """The chains that go together, by number: rectangles if the chains form a grid by the first and the last operand that they load."""
    loads = [[op for op in body if isinstance(op, nodes.Load | nodes.Result) and op in chain] for chain in chains]
    rows = list(dict.fromkeys(own[0] for own in loads if own))
    columns = list(dict.fromkeys(own[-1] for own in loads if own))
    places = {(own[0], own[-1]): number for number, own in enumerate(loads) if len(own) == 2}
    if len(places) != len(chains) or len(places) != len(rows) * len(columns):
        return [list(range(first, min(first + capacity, len(chains)))) for first in range(0, len(chains), capacity)]
    high, wide = min(
        ((r, c) for r in range(1, len(rows) + 1) for c in range(1, len(columns) + 1) if r * c <= capacity),
        key=lambda shape: (-(-len(rows) // shape[0]) * -(-len(columns) // shape[1]) * (shape[0] + shape[1]), shape[1]),
    )
    return [
        [places[row, column] for row in rows[y : y + high] for column in columns[x : x + wide]]
        for y in range(0, len(rows), high)
        for x in range(0, len(columns), wide)
    ]
