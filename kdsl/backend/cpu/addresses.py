"""Addresses that LLVM does not take apart, for what blocks that take turns (`rounds`) read again and again.

LLVM adds up where each access lies from the beginning of its array, and there are better ways. Rows of a matrix, one behind the other, need one pointer and one
distance, where it keeps the distance of each row from the first on the stack. And a multiplication that reads an operand itself does so faster at a constant
distance from a pointer than with an index. A pointer of which LLVM does not know how it came about leaves it no choice. What is not here: which loads are made
so (`memory`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import POINTER, Linear
from kdsl.backend.cpu.strips import Strips
from kdsl.backend.llvm.module import call_intrinsic, memory_type
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_LEAST_ROWS: Final = 4
"""Rows from which on they are worth a chain of pointers."""


def _opaque(e: Emission, pointer: Any) -> Any:
    """The same pointer (LLVM), of which nothing is known."""
    return call_intrinsic(e.builder, "llvm.launder.invariant.group.p0", POINTER, pointer)


def reads_tiles(e: Emission) -> bool:
    """Whether a wide group of a block that takes turns is being emitted, of a kernel that copies tiles and has one sum per thread: with more of them the loops
    are split (`split`), and strips (`strips`) read where their arrays lie."""
    return e.turn is not None and e.attempt is not None and not e.splits and not isinstance(e.turn.loop, Strips)


def chain(e: Emission, start: Any, kind: ir.Type, index: Linear, lanes: range) -> Iterator[Any] | None:
    """The addresses of the elements of some lanes of a wide group, equal distances apart, each from the one before it; None where that gains nothing, as for
    lanes that all read one element, which LLVM has to see.
    """
    if not reads_tiles(e) or len(lanes) < _LEAST_ROWS:
        return None
    distances = [{term.offsets[after] - term.offsets[before] for before, after in itertools.pairwise(lanes)} for term in index.terms]
    if any(len(own) > 1 for own in distances) or all(own == {0} for own in distances):
        return None
    b, step = e.builder, e.i64(0)
    for term, own in zip(index.terms, distances, strict=True):
        distance = e.i64(own.pop())
        step = b.add(step, distance if term.coefficient is None else b.mul(term.coefficient, distance))

    def addresses() -> Iterator[Any]:
        address = b.gep(start, [e.memory.place(index, lanes[0])], source_etype=kind)
        while True:
            yield address
            address = _opaque(e, b.gep(address, [step], source_etype=kind))

    return addresses()


class Anchors:
    """From where loads read in trips of a loop that run together (`trips`): each from where it reads in the first of them."""

    def __init__(self, emission: Emission) -> None:
        self.e = emission
        self._first: dict[nodes.Load, tuple[Any, Any]] = {}
        """The address, and the index of the element there (LLVM scalars)."""

    def of(self, op: nodes.Load, index: Linear) -> tuple[Any, Linear]:
        """An LLVM address, and the index of what the lanes read in the present trip, counted from there."""
        b = self.e.builder
        if op not in self._first:
            first = b.gep(self.e.storage.start(op.memory), [index.base], source_etype=memory_type(op.type))
            self._first[op] = _opaque(self.e, first), index.base
        address, base = self._first[op]
        return address, Linear(b.sub(index.base, base), index.terms)
