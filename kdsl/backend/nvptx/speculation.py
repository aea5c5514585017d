"""Loops whose checked reads go on without a branch, and which run again where a check has failed; checks that one test before the loop decides.

A branch in every trip keeps LLVM from having the reads of several trips under way. So a loop that only reads and computes notes whether all checks have held;
a read outside yields the 0 that it has to (`Memory`). If one has not held, the loop runs again from the same values, with checks that record. What is not
here: the reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kdsl.ir import nodes, ranges

_PURE: Final = (
    nodes.Unary, nodes.Binary, nodes.Compare, nodes.Fma, nodes.Scale, nodes.Approximation, nodes.Select, nodes.Cast, nodes.Bitcast, nodes.Constant,
    nodes.ParameterValue, nodes.Length, nodes.Special, nodes.OnGpu, nodes.Get, nodes.Set, nodes.Result, nodes.If, nodes.ForRange, nodes.While, nodes.Scope,
    nodes.Break, nodes.Continue,
)  # fmt: skip
"""What may run twice."""


@dataclass(frozen=True)
class Trial:
    """A loop that goes on whether its checks hold or not."""

    held: Any
    """Where it notes that they have held, i1."""
    tested: frozenset[nodes.Op]
    """Reads that were tested before it began."""


def suits(op: nodes.Access) -> bool:
    """Whether a checked access is a read of an array in global memory, which need not be left out if it is outside."""
    return (
        isinstance(op, nodes.Load | nodes.LoadVector) and isinstance(op.memory, nodes.View) and not isinstance(op.memory, nodes.SharedView)
    )


def may_run_again(loop: nodes.ForRange) -> bool:
    """Whether a loop only reads and computes, and some of its reads are checked, all of them so that they need no branch."""
    if _leaves(loop.orelse):
        return False
    ops = [*nodes.walk(loop.body), *nodes.walk(loop.orelse)]
    scopes = {op for op in ops if isinstance(op, nodes.Scope)}
    checked = False
    for op in ops:
        if isinstance(op, nodes.Load | nodes.LoadVector):
            if op.checked and not suits(op):
                return False
            checked |= op.checked
        elif isinstance(op, nodes.Leave):
            if op.scope not in scopes:
                return False
        elif not isinstance(op, _PURE):
            return False
    return checked


def _leaves(block: nodes.Block) -> bool:
    """Whether a `break` or `continue` in it is one of a loop around it: as those in the `else` of a loop are, which would pass by what is asked behind that."""
    for op in block:
        if isinstance(op, nodes.Break | nodes.Continue):
            return True
        inner = (op.orelse,) if isinstance(op, nodes.ForRange | nodes.While) else nodes.children(op)
        if any(_leaves(child) for child in inner):
            return True
    return False


def counted(loop: nodes.ForRange) -> list[nodes.Load]:
    """The checked reads in a loop that counts upwards whose only index is its number: one test before the loop decides all of them."""
    if ranges.of(loop.step)[0] <= 0:
        return []
    reads = (op for op in nodes.walk(loop.body) if isinstance(op, nodes.Load) and op.checked and op.field is None)
    return [op for op in reads if op.indices == (loop.counter,)]


def assigned(loop: nodes.ForRange) -> list[nodes.Variable]:
    """The variables that a loop changes."""
    found = (op.variable for block in (loop.body, loop.orelse) for op in nodes.walk(block) if isinstance(op, nodes.Set))
    return list(dict.fromkeys(found))
