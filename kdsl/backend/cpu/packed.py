"""Copies of what a strip reads for each row of threads, made before its loop.

Where the lanes of a row share an element and those of other rows read others, as of the rows of a matrix, each row takes an address of its own: more than there
are registers for, and of rows a power of two apart more than the nearest cache holds, since they share a set of it. So the elements of all trips of a strip
(`strips`) are copied first into one small array, row by row if those of a row lie side by side, trip by trip if those of a trip do, and the loop reads them at
fixed distances from one pointer. The values are the same, so no bit changes. What is not here: which loads are inside in all trips (`hoist`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import Linear, Term
from kdsl.backend.cpu.strips import TRIPS
from kdsl.backend.cpu.turns import count_up
from kdsl.backend.llvm.module import memory_type
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_LEAST: Final = 4
"""Rows, and lanes of each, from which on a copy is worth it."""

_LINE: Final = 64
"""Bytes of a cache line."""


@dataclass(frozen=True)
class Packed:
    """The copy of what a load reads in all trips of a loop."""

    counter: nodes.ValueOp
    """The loop's counter."""
    start: Any
    """LLVM scalar: its value in the first trip."""
    memory: Any
    """LLVM address."""
    apart: int
    """Elements from one trip to the next."""
    rows: Term
    """Where the row of each lane lies, in elements."""

    def index(self, e: Emission) -> Linear:
        """Where the lanes of the present trip read in the copy."""
        trip = e.builder.sub(e.scalar(e.value(self.counter)), self.start)
        return Linear(e.builder.mul(trip, e.i64(self.apart)), (self.rows,))


@dataclass(frozen=True)
class Source:
    """What a load reads in the trips of a loop, all of which is inside."""

    op: nodes.Load
    first: Linear
    """The index in the first trip."""
    rise: Any
    """LLVM scalar: by how much it grows in each trip."""

    @property
    def is_worth_a_copy(self) -> bool:
        """Whether there are rows of lanes for which to copy it."""
        return not self.op.type.is_bool and _rows(self.first) is not None

    @property
    def row_stride(self) -> Any:
        """LLVM scalar: the elements from the place of each row to that of the next one; None if it is known, or they would not fill a cache line."""
        firsts, (term, *others) = _rows(self.first), self.first.terms
        if (
            firsts is None
            or others
            or len(firsts) * self.op.type.itemsize < _LINE
            or [term.offsets[lane] - term.offsets[0] for lane in firsts] != list(range(len(firsts)))
        ):
            return None
        return term.coefficient

    def copied_by_trips(self, e: Emission, loop: nodes.ForRange, start: Any, stop: Any) -> Packed:
        """Copy what is read in the trips from `start` to `stop` (LLVM scalars), if the rows lie side by side: trip by trip."""
        b, memory = e.builder, self.op.memory
        kind, rows = memory_type(self.op.type), len(_rows(self.first) or ())
        vector, length = ir.VectorType(kind, rows), e.width // rows
        to = e.buffer(ir.ArrayType(vector, TRIPS), (self.op, "by trips"))
        begin = b.gep(e.storage.start(memory), [e.memory.place(self.first, 0)], source_etype=kind)

        def copy(trip: Any) -> None:
            self._move(e, vector, b.gep(begin, [b.mul(trip, self.rise)], source_etype=kind), b.gep(to, [trip], source_etype=vector))

        count_up(e, e.i64(0), b.sub(stop, start), e.i64(1), copy)
        return Packed(loop.counter, start, to, rows, Term(tuple(lane // length for lane in range(e.width))))

    def copied(self, e: Emission, loop: nodes.ForRange, start: Any, stop: Any) -> Packed:
        """Copy what is read in the trips from `start` to `stop` (LLVM scalars), if the index grows by 1: row by row."""
        b, memory = e.builder, self.op.memory
        firsts, kind, each = _rows(self.first), memory_type(self.op.type), e.host.vector_bits // 8 // self.op.type.itemsize
        assert firsts is not None
        to = e.buffer(ir.ArrayType(ir.VectorType(kind, each), len(firsts) * TRIPS // each), self.op)
        rows = [b.gep(e.storage.start(memory), [e.memory.place(self.first, lane)], source_etype=kind) for lane in firsts]

        def copy(what: ir.Type, trip: Any) -> None:
            for number, row in enumerate(rows):
                place = b.gep(to, [b.add(trip, e.i64(number * TRIPS))], source_etype=kind)
                self._move(e, what, b.gep(row, [trip], source_etype=kind), place)

        # vectors, the last of which ends with the last trip
        trips = b.sub(stop, start)
        last = b.sub(trips, e.i64(each))
        in_vectors = b.select(b.icmp_signed(">=", last, e.i64(0)), trips, e.i64(0))

        def copy_vector(trip: Any) -> None:
            copy(ir.VectorType(kind, each), b.select(b.icmp_signed("<", trip, last), trip, last))

        count_up(e, e.i64(0), in_vectors, e.i64(each), copy_vector)
        count_up(e, in_vectors, trips, e.i64(1), lambda trip: copy(kind, trip))
        length = e.width // len(firsts)
        return Packed(loop.counter, start, to, 1, Term(tuple(lane // length * TRIPS for lane in range(e.width))))

    def _move(self, e: Emission, what: ir.Type, start: Any, to: Any) -> None:
        """Copy a number or a vector from one address to another."""
        size = self.op.type.itemsize
        read = e.builder.load(start, align=size, typ=what)
        for access in (read, e.builder.store(read, to, align=size)):
            e.storage.mark(access, self.op.memory)


def _rows(index: Linear) -> list[int] | None:
    """The first lane of each row of lanes that read one element, if all rows are equally long and there are enough."""
    places = list(zip(*(term.offsets for term in index.terms), strict=True))
    firsts = [0, *(lane for lane, (before, here) in enumerate(itertools.pairwise(places), 1) if before != here)]
    length = len(places) // len(firsts)
    is_even = firsts == list(range(0, len(places), length)) and length & (length - 1) == 0
    return firsts if is_even and len(firsts) >= _LEAST and length >= _LEAST else None
