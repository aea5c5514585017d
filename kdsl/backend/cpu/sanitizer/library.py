"""Calls of the library in a kernel. Its functions are expanded in place, so the places of operations in the source tell which belong to which call.

A function of mathematics passes through infinities and NaNs that nobody sees, and takes others from constants. So nothing is looked at inside of one; what
leaves it is, beside the numbers that it was computed from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os.path import dirname
from pathlib import Path
from typing import Final

from kdsl.ir import nodes

_KDSL: Final = Path(__file__).parents[3]
_MATHEMATICS: Final = (str(_KDSL / "mathematics"),)
_LIBRARY: Final = (*_MATHEMATICS, str(_KDSL / "collectives"))


@dataclass(frozen=True)
class Call:
    """A call of a function of the library by other code."""

    location: nodes.Location
    """Where it is called."""
    name: str
    """What is called."""


def call_of(op: nodes.Op, folders: tuple[str, ...] = _LIBRARY) -> Call | None:
    """The call of a function in these folders that an operation belongs to."""
    inner, location = None, op.location
    while location.caller is not None and dirname(location.file) in folders:
        inner, location = location, location.caller
    return None if inner is None else Call(location, inner.function)


class Mathematics:
    """The calls of mathematical functions in a kernel."""

    def __init__(self, kernel: nodes.Kernel) -> None:
        self._calls = {op: call for op in nodes.walk(kernel.body) if (call := call_of(op, _MATHEMATICS)) is not None}
        self._set: dict[nodes.Variable, list[nodes.ValueOp]] = {}
        leaving: dict[nodes.ValueOp, None] = {}
        for op in nodes.walk(kernel.body):
            if isinstance(op, nodes.Set):
                self._set.setdefault(op.variable, []).append(op.value)
            leaving.update(
                (value, None) for value in nodes.operands(op) if value in self._calls and self._calls[value] != self._calls.get(op)
            )
        self.results: dict[nodes.ValueOp, tuple[nodes.ValueOp, ...]] = {
            value: tuple(self._arguments(value)) for value in leaving if value.type.is_float and not isinstance(value, nodes.Constant)
        }
        """The floats that leave a call, each with the floats that it was computed from."""

    def __contains__(self, op: nodes.Op) -> bool:
        """Whether an operation belongs to a call."""
        return op in self._calls

    def _arguments(self, result: nodes.ValueOp) -> Iterator[nodes.ValueOp]:
        """What comes into the call of a result from outside. What the calls have in common is computed once, by the first of them: where it comes from one,
        the arguments of that one are among them. Constants are not: those of the functions and of the kernel are in common, too.
        """
        call, left, seen = self._calls[result], [result], {result}
        while left:
            op = left.pop()
            for source in self._set[op.variable] if isinstance(op, nodes.Get) else nodes.operands(op):
                if source in seen or isinstance(source, nodes.Constant):
                    continue
                seen.add(source)
                if source in self._calls:
                    left.append(source)
                if source.type.is_float and (source not in self._calls or self._calls[source] != call == self._calls[op]):
                    yield source
