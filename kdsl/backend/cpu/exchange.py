"""Exchange between the lanes of a warp. A kernel that exchanges is emitted with groups of 32 lanes, so a group is a warp.

Lanes that do not take part are left out: a shuffle from one gives the own value, and in a reduction they count as the operation's neutral element,
which changes no bit of the result. What each row means stands in `kdsl.lang.intrinsics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, Lanes, Uniform, Vector, constant_of
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
        row = INTRINSICS[op.name].lowering
        assert isinstance(row, ToExchange)
        argument = self.e.value(op.arguments[0])
        if row.kind == "vote":
            return self._vote(row.mode, argument)
        if row.kind == "reduce":
            return Uniform(self._reduce(row.mode, op.type, self.e.lanes.vector(argument)))
        if isinstance(argument, Uniform):
            return argument
        return Vector(
            self._shuffle(
                row.mode, op.type, argument.vector if isinstance(argument, Vector) else self.e.lanes.vector(argument), op.arguments[1]
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
            neutral = ir.Constant(vector.type, [_neutral(mode, of)] * _LANES)
            vector = b.select(e.mask, vector, neutral)
        width = _LANES
        while width > 1:
            half = width // 2
            low, high = self._part(vector, 0, half), self._part(vector, half, half)
            if mode == "add":
                vector = b.fadd(low, high) if of.is_float else b.add(low, high)
            else:
                vector = e.vectors.extreme(mode, of, low, high)
            width = half
        return b.extract_element(vector, ir.Constant(I32, 0))

    def _part(self, vector: Any, first: int, count: int) -> Any:
        indices = ir.Constant(ir.VectorType(I32, count), list(range(first, first + count)))
        return self.e.builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), indices)

    # ----------------------------------------------------------------------------------------------------------------- shuffles

    def _shuffle(self, mode: str, of: DType, vector: Any, amount: nodes.ValueOp) -> Any:
        e = self.e
        b = e.builder
        how = e.value(amount)
        fixed = constant_of(how.scalar) if isinstance(how, Uniform) else None
        if fixed is not None:
            sources = [_source(mode, lane, fixed % _LANES) for lane in range(_LANES)]
            moved = self._permute(vector, sources)
            if e.mask is None:
                return moved
            active = self._permute(e.mask, sources)
            return b.select(active, moved, vector)
        lanes = ir.Constant(ir.VectorType(I32, _LANES), list(range(_LANES)))
        last = ir.Constant(ir.VectorType(I32, _LANES), [_LANES - 1] * _LANES)
        raw = e.lanes.vector(how)
        small = b.and_(b.trunc(raw, lanes.type) if raw.type.element.width > 32 else raw, last)
        if mode == "idx":
            source = small
        elif mode == "bfly":
            source = b.xor(lanes, small)
        else:
            moved = b.sub(lanes, small) if mode == "up" else b.add(lanes, small)
            inside = b.icmp_unsigned("<=", moved, last)  # below 0 is a large unsigned number
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


def _source(mode: str, lane: int, amount: int) -> int:
    """The lane from which `lane` takes its value."""
    match mode:
        case "bfly":
            return lane ^ amount
        case "idx":
            return amount
        case "up":
            return lane - amount if lane >= amount else lane
        case _:
            return lane + amount if lane + amount < _LANES else lane


def _neutral(mode: str, of: DType) -> float | int:
    """The element that changes nothing: -0.0 for sums of floats, since 0.0 would turn -0.0 into 0.0."""
    if mode == "add":
        return -0.0 if of.is_float else 0
    if of.is_float:
        return float("-inf") if mode == "max" else float("inf")
    return of.minimum if mode == "max" else of.maximum
