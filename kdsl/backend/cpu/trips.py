"""The trips of a `ForRange`: its counter, and whether there is a first and a next one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.addresses import reads_tiles
from kdsl.backend.cpu.lanes import I64, Lanes, Linear, Uniform, Vector, modest
from kdsl.backend.cpu.split import PURE
from kdsl.ir import nodes
from kdsl.lang.types import I64 as INDEX

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_TOGETHER: Final = 4
"""Trips that run together. Of more of them LLVM reads first what all need, and has no registers for it."""
_JUMPS: Final = (nodes.Break, nodes.Continue, nodes.Leave, nodes.Return)


def trips_together(e: Emission, loop: nodes.ForRange) -> int:
    """How many trips of a loop run one behind the other before it counts and branches: more than one for those over tiles, which are so short that a wrong
    guess of where they end costs a good part of their time."""
    ends = loop.start, loop.stop, loop.step
    if not reads_tiles(e) or not all(isinstance(end, nodes.Constant) for end in ends):
        return 1
    start, stop, step = (int(end.value) for end in ends if isinstance(end, nodes.Constant))
    reads = [op for op in loop.body if isinstance(op, nodes.Load)]
    is_fit = all(isinstance(op, PURE) for op in loop.body) and all(isinstance(op.memory, nodes.Array) and not op.checked for op in reads)
    return _TOGETHER if reads and is_fit and len(range(start, stop, step)) % _TOGETHER == 0 else 1


class Trips:
    """The counter of a `ForRange`, and the questions whether there is a first and a next trip; exact up to the limits of i64."""

    def __init__(self, emission: Emission, op: nodes.ForRange, start: Lanes, stop: Lanes, step: Lanes) -> None:
        self.e = emission
        self.op = op
        self.stop, self.step = stop, step
        self.ascending = _sign(op.step)
        """1 or -1 if the sign of the step is known, else 0."""
        steps = op.step.range or ((int(op.step.value),) * 2 if isinstance(op.step, nodes.Constant) else None)
        self.safe = self.ascending != 0 and modest(op.counter) and steps is not None and max(map(abs, steps)) < 1 << 60
        """Whether counter + step cannot wrap."""
        if not isinstance(step, Uniform) or isinstance(start, Vector):
            self.form: Lanes = Vector(emission.lanes.vector(start))
            kind: Any = ir.VectorType(I64, emission.width)
            first = self.form.vector
        else:
            self.form = start
            kind, first = I64, start.scalar if isinstance(start, Uniform) else start.base
        self.kind = kind
        self.slot = emission.allocate(kind, "counter")
        emission.builder.store(first, self.slot)
        self.start = start

    def counter(self) -> Lanes:
        """The counter of the present trip."""
        loaded = self.e.builder.load(self.slot, typ=self.kind)
        if isinstance(self.form, Vector):
            return Vector(loaded)
        multiple = self.form.multiple
        step = self.step.multiple if isinstance(self.step, Uniform) else 1
        shared = math.gcd(multiple, step)
        return Uniform(loaded, shared) if isinstance(self.form, Uniform) else Linear(loaded, self.form.terms, shared)

    def first(self) -> Lanes:
        """Whether there is a first trip."""
        return self._inside(self.start, self.op.start)

    def has_whole_ones(self) -> bool:
        """Whether there may be trips in which every lane surely takes part, told by a comparison of scalars: lanes that start side by side, as in
        `range(lane_index(), n, 32)`, around a body without jumps or loops.
        """
        plain = isinstance(self.form, Linear) and self.form.offsets is not None and isinstance(self.stop, Uniform)
        inside = (inner for inner in nodes.walk(self.op.body) if nodes.children(inner) or isinstance(inner, _JUMPS))
        return plain and self.safe and self.ascending > 0 and not self.op.orelse.ops and all(isinstance(i, nodes.If) for i in inside)

    def is_whole(self) -> Any:
        """i1: whether every lane takes part in the present trip."""
        b = self.e.builder
        assert isinstance(self.form, Linear)
        assert isinstance(self.stop, Uniform)
        last = b.add(b.load(self.slot, typ=self.kind), self.e.i64(max(self.form.offsets or ())))
        return b.icmp_signed("<", last, self.stop.scalar)

    def step_once(self) -> None:
        """Step the counter of such a trip."""
        b = self.e.builder
        b.store(b.add(b.load(self.slot, typ=self.kind), self._step_scalar()), self.slot)

    def still(self) -> Lanes:
        """Whether there is another trip, for each lane."""
        return self._inside(self.counter(), None)

    def next(self) -> Lanes:
        """Step the counter; whether there is a next trip."""
        e = self.e
        b = e.builder
        now = self.counter()
        step = e.lanes.vector(self.step) if isinstance(self.form, Vector) else self._step_scalar()
        raw = b.load(self.slot, typ=self.kind)
        b.store(b.add(raw, step), self.slot)
        if self.safe:
            return self._inside(self.counter(), None)
        # start < stop held, so the distance is exact as an unsigned number, and tells whether another step stays inside
        values = [now, self.stop, self.step]
        if all(isinstance(v, Uniform) for v in values):
            counter, stop, stride = (v.scalar for v in values if isinstance(v, Uniform))
        else:
            counter, stop, stride = (e.lanes.vector(v) for v in values)
        up = b.icmp_unsigned(">", b.sub(stop, counter), stride)
        down = b.icmp_unsigned(">", b.sub(counter, stop), b.neg(stride))
        result = up if self.ascending > 0 else down if self.ascending < 0 else b.select(self._is_positive(stride), up, down)
        return Uniform(result) if result.type == ir.IntType(1) else Vector(result)

    def _step_scalar(self) -> Any:
        assert isinstance(self.step, Uniform)
        return self.step.scalar

    def _is_positive(self, stride: Any) -> Any:
        return self.e.builder.icmp_signed(
            ">", stride, ir.Constant(stride.type, None) if isinstance(stride.type, ir.VectorType) else self.e.i64(0)
        )

    def _inside(self, counter: Lanes, origin: nodes.ValueOp | None) -> Lanes:
        """Whether a counter is before the stop. `origin` tells its range; None means that it cannot be near the limits of i64."""
        e = self.e
        if self.ascending:
            return self._order("lt" if self.ascending > 0 else "gt", counter, origin)
        up, down = self._order("lt", counter, origin), self._order("gt", counter, origin)
        b = e.builder
        if isinstance(up, Uniform) and isinstance(down, Uniform) and isinstance(self.step, Uniform):
            step = self.step.scalar
            forth, back = b.icmp_signed(">", step, e.i64(0)), b.icmp_signed("<", step, e.i64(0))
            return Uniform(b.or_(b.and_(forth, up.scalar), b.and_(back, down.scalar)))
        step, zero = e.lanes.vector(self.step), ir.Constant(ir.VectorType(I64, e.width), None)
        forth, back = b.icmp_signed(">", step, zero), b.icmp_signed("<", step, zero)
        return Vector(b.or_(b.and_(forth, e.lanes.vector(up)), b.and_(back, e.lanes.vector(down))))

    def _order(self, op: nodes.CompareName, counter: Lanes, origin: nodes.ValueOp | None) -> Lanes:
        e = self.e
        found = e.lanes.compare(op, counter, self.stop, origin, self.op.stop)
        if found is not None:
            return found
        if isinstance(counter, Uniform) and isinstance(self.stop, Uniform):
            return Uniform(e.scalars.compare(op, INDEX, counter.scalar, self.stop.scalar))
        return Vector(e.vectors.compare(op, INDEX, e.lanes.vector(counter), e.lanes.vector(self.stop)))


def _sign(step: nodes.ValueOp) -> int:
    low, high = (int(step.value),) * 2 if isinstance(step, nodes.Constant) else step.range or (-1, 1)
    return 1 if low > 0 else -1 if high < 0 else 0
