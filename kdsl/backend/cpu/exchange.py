"""Exchange between the lanes of a warp. A kernel that exchanges is emitted with groups of 32 lanes, so a group is a warp.

Lanes that do not take part are left out: a shuffle from one gives the own value, and in a reduction they count as the operation's neutral element,
which changes no bit of the result. What each row means stands in `kdsl.lang.intrinsics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu import matches
from kdsl.backend.cpu.lanes import I32, Lanes, Uniform, Vector, constant_of
from kdsl.backend.llvm.identities import identity
from kdsl.backend.llvm.module import value_type
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, ToExchange
from kdsl.lang.types import DType

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_LANES = nodes.WARP_SIZE


class Exchanges:
    """Emits `Exchange`."""

    def __init__(self, emission: Emission) -> None:
        self.e = emission

    def value(self, op: nodes.Exchange) -> Lanes:
        """The value of an exchange."""
        if op.mask is None:
            return self._among_active(op)
        named = self.e.value(op.mask)
        return self._in_sets(op, self.e.lanes.vector(named))

    def _in_sets(self, op: nodes.Exchange, named: Any) -> Lanes:
        """Each set of lanes in its turn: the first lane that is left, and all active lanes that have the same mask."""
        e = self.e
        b, masks, active = e.builder, e.masks, e.mask
        nothing = ir.Constant(value_type(op.type, _LANES), None)
        head, body, after = (e.append(name) for name in ("sets", "set", "exchanged"))
        everyone, before = masks.packed(active), b.block
        b.branch(head)
        b.position_at_end(head)
        left, results = b.phi(everyone.type), b.phi(nothing.type)
        left.add_incoming(everyone, before)
        results.add_incoming(nothing, before)
        b.cbranch(b.icmp_unsigned("!=", left, ir.Constant(left.type, 0)), body, after)
        b.position_at_end(body)
        first = masks.lane(named, masks.unpacked(left))
        alike = masks.packed(b.icmp_unsigned("==", named, e.lanes.splat(first)))
        members = b.and_(alike, left)
        e.mask = masks.unpacked(b.and_(members, first))
        known = dict(e.values)
        got = e.lanes.vector(self._among_active(op))
        e.values = known  # what was made in the loop is not there behind it
        merged = b.select(e.mask, got, results)
        left.add_incoming(b.and_(left, b.not_(members)), b.block)
        results.add_incoming(merged, b.block)
        b.branch(head)
        b.position_at_end(after)
        e.mask = active
        return Vector(results)

    def _among_active(self, op: nodes.Exchange) -> Lanes:
        """The exchange among the active lanes."""
        row = INTRINSICS[op.name].lowering
        assert isinstance(row, ToExchange)
        argument = self.e.value(op.arguments[0])
        if row.kind == "vote":
            return self._vote(row.mode, argument)
        if row.kind == "reduce":
            return Uniform(self._reduce(row.mode, op.type, self.e.lanes.vector(argument)))
        if row.kind == "scan":
            return Vector(self._scan(row.mode, op.type, self.e.lanes.vector(argument)))
        if row.kind == "exclusive":
            return Vector(self._exclusive(row.mode, op.type, self.e.lanes.vector(argument)))
        if row.kind == "match":
            return matches.match(self.e, row.mode, op.arguments[0].type, argument)
        if isinstance(argument, Uniform):
            return argument
        return Vector(
            self._shuffle(
                row.mode,
                op.type,
                argument.vector if isinstance(argument, Vector) else self.e.lanes.vector(argument),
                op.arguments[1],
                op.width,
            )
        )

    # -------------------------------------------------------------------------------------------------------------------- votes

    def _vote(self, mode: str, predicate: Lanes) -> Lanes:
        e = self.e
        b, masks = e.builder, e.masks
        if isinstance(predicate, Uniform) and mode != "ballot":
            return predicate
        vector = e.lanes.vector(predicate)
        zero = ir.Constant(masks.bits, 0)
        if mode == "all":
            return Uniform(b.icmp_unsigned("==", masks.packed(masks.without(e.mask, vector)), zero))
        holds = masks.packed(masks.both(e.mask, vector))
        return Uniform(holds if mode == "ballot" else b.icmp_unsigned("!=", holds, zero))

    # --------------------------------------------------------------------------------------------------------------- reductions

    def _reduce(self, mode: str, of: DType, vector: Any) -> Any:
        """The lowest lane's result of the butterfly, which is the result of every lane: the operations commute."""
        e = self.e
        b = e.builder
        if e.mask is not None:
            neutral = e.vectors.constant(of, _neutral(mode, of))
            vector = b.select(e.mask, vector, neutral)
        width = _LANES
        while width > 1:
            half = width // 2
            low, high = self._part(vector, 0, half), self._part(vector, half, half)
            vector = e.vectors.combine(mode, of, low, high)
            width = half
        return b.extract_element(vector, ir.Constant(I32, 0))

    def _scan(self, mode: str, of: DType, vector: Any) -> Any:
        """In the round of d, a lane with the bit d adds what the last of the d lanes below its own d has: all of theirs together."""
        e = self.e
        b = e.builder
        if e.mask is not None:
            vector = b.select(e.mask, vector, e.vectors.constant(of, _neutral(mode, of)))
        distance = 1
        while distance < _LANES:
            below = self._permute(vector, [lane & -(2 * distance) | (distance - 1) for lane in range(_LANES)])
            takes = ir.Constant(e.masks.type, [int(lane & distance != 0) for lane in range(_LANES)])
            vector = b.select(takes, e.vectors.combine(mode, of, below, vector), vector)
            distance *= 2
        return vector

    def _exclusive(self, mode: str, of: DType, vector: Any) -> Any:
        """What the scan gives the lane below, which is that of the next one below that takes part; the identity where none does."""
        e = self.e
        b, bits = e.builder, e.masks.bits
        scanned = self._scan(mode, of, vector)
        below = self._permute(scanned, [max(lane - 1, 0) for lane in range(_LANES)])
        present = e.masks.packed(e.mask) if e.mask is not None else ir.Constant(bits, -1)
        # none takes part below the first one, nor in lanes up to it
        lowest = b.and_(present, b.neg(present))
        first = e.masks.unpacked(b.or_(lowest, b.sub(lowest, ir.Constant(bits, 1))))
        return b.select(first, e.vectors.constant(of, identity(mode, of)), below)

    def _part(self, vector: Any, first: int, count: int) -> Any:
        indices = ir.Constant(ir.VectorType(I32, count), list(range(first, first + count)))
        return self.e.builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), indices)

    # ----------------------------------------------------------------------------------------------------------------- shuffles

    def _shuffle(self, mode: str, of: DType, vector: Any, amount: nodes.ValueOp, width: int) -> Any:
        e = self.e
        b = e.builder
        how = e.value(amount)
        fixed = constant_of(how.scalar) if isinstance(how, Uniform) else None
        if fixed is not None:
            sources = [_source(mode, lane, fixed % width, width) for lane in range(_LANES)]
            moved = self._permute(vector, sources)
            if e.mask is None:
                return moved
            active = self._permute(e.mask, sources)
            return b.select(active, moved, vector)
        lanes = ir.Constant(ir.VectorType(I32, _LANES), list(range(_LANES)))
        last = ir.Constant(ir.VectorType(I32, _LANES), [width - 1] * _LANES)
        first = ir.Constant(ir.VectorType(I32, _LANES), [lane & -width for lane in range(_LANES)])
        raw = e.lanes.vector(how)
        small = b.and_(b.trunc(raw, lanes.type) if raw.type.element.width > 32 else raw, last)
        if mode == "idx":
            source = b.or_(first, small)
        elif mode == "bfly":
            source = b.xor(lanes, small)
        else:
            moved = b.sub(lanes, small) if mode == "up" else b.add(lanes, small)
            inside = b.icmp_unsigned("<=", b.sub(moved, first), last)  # below 0 is a large unsigned number
            source = b.select(inside, moved, lanes)
        source = source if e.mask is None else b.select(e.mask, source, lanes)
        taken = self._pick(vector if not of.is_bool else b.zext(vector, ir.VectorType(ir.IntType(8), _LANES)), source)
        if of.is_bool:
            taken = b.trunc(taken, vector.type)
        if e.mask is None:
            return taken
        one = ir.Constant(ir.VectorType(I32, _LANES), [1] * _LANES)
        bits = b.lshr(e.lanes.splat(e.masks.packed(e.mask)), source)
        active = b.icmp_unsigned("!=", b.and_(bits, one), ir.Constant(bits.type, None))
        return b.select(active, taken, vector)

    def _permute(self, vector: Any, sources: list[int]) -> Any:
        indices = ir.Constant(ir.VectorType(I32, _LANES), sources)
        return self.e.builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), indices)

    def _pick(self, vector: Any, source: Any) -> Any:
        """The elements of a vector that run-time lane numbers name: through a buffer, and a gather from it."""
        e = self.e
        b = e.builder
        buffer = e.allocate(vector.type, "exchange")
        b.store(vector, buffer)
        return e.memory.gather(buffer, vector.type.element, source, None, None)


def _source(mode: str, lane: int, amount: int, width: int) -> int:
    """The lane from which `lane` takes its value, within its segment."""
    first = lane & -width
    match mode:
        case "bfly":
            return lane ^ amount
        case "idx":
            return first + amount
        case "up":
            return lane - amount if lane - amount >= first else lane
        case _:
            return lane + amount if lane + amount < first + width else lane


def _neutral(mode: str, of: DType) -> float | int:
    """The element that changes nothing: -0.0 for sums of floats, since 0.0 would turn -0.0 into 0.0."""
    if mode == "add":
        return -0.0 if of.is_float else 0
    if mode in ("and", "or", "xor"):
        return (-1 if of.is_signed else of.maximum) if mode == "and" else 0
    if of.is_float:
        return float("-inf") if mode == "max" else float("inf")
    return of.minimum if mode == "max" else of.maximum
