"""Loops over rows whose numbers are read from a list, several trips at a time: first all of their rows are read and checked together, then come the trips.

So the checks of several trips are a maximum and one branch, and the reads of all of these trips are under way at once. Where one fails the thread begins again
(`again`), so that nothing has to be noted. What is not here: the code, which `lowering` emits.
"""

from __future__ import annotations

from typing import Final

from kdsl.backend.nvptx import again, speculation
from kdsl.ir import nodes

_FREE: Final = (nodes.Constant, nodes.ParameterValue, nodes.Length, nodes.Get, nodes.Set, nodes.Cast)
"""What is no instruction, or part of another one."""
_LARGEST: Final = 72
"""Instructions of all trips that come at once: so many LLVM makes of several trips of a loop, too."""


def trips(loop: nodes.ForRange) -> int:
    """How many trips come at once, 0 if the loop is none of these."""
    if not isinstance(loop.step, nodes.Constant) or loop.step.value != 1 or isinstance(loop.start, nodes.Constant) or loop.orelse.ops:
        return 0
    if any(nodes.children(op) for op in loop.body) or not speculation.may_run_again(loop):
        return 0
    tested, inside = set(speculation.counted(loop)), again.values_of(loop)
    checks = [op for op in loop.body if isinstance(op, nodes.Load | nodes.LoadVector) and op.checked and op not in tested]
    if not checks or not all(
        isinstance(op, nodes.Load) and op.row_check is not None and _is_early(op.row_check.row, tested, inside) for op in checks
    ):
        return 0
    size = sum(not isinstance(op, _FREE) for op in loop.body)
    return next((trips for trips in (8, 4, 2) if size * trips <= _LARGEST), 0)


def rows(loop: nodes.ForRange) -> list[nodes.Load]:
    """The reads whose rows are checked."""
    return [op for op in loop.body if isinstance(op, nodes.Load) and op.checked and op.row_check is not None]


def _is_early(value: nodes.ValueOp, tested: set[nodes.Load], inside: set[nodes.Op]) -> bool:
    """Whether a value of a trip follows from the number of the trip and from reads that are known to be inside."""
    if value not in inside or isinstance(value, nodes.Counter):
        return True
    reads = isinstance(value, nodes.Load) and (value in tested or not value.checked)
    return (reads or isinstance(value, again.COMPUTED)) and all(_is_early(operand, tested, inside) for operand in nodes.operands(value))
