"""Atomic operations and fences. The active lanes of a group take turns, from the lowest to the highest.

Blocks run on several threads, so an operation on a view is one of the processor's own. A block runs on one thread alone, so one on a shared array is a
load and a store, whatever its scope and order say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import Lanes, Uniform, Vector
from kdsl.backend.cpu.masks import Mask
from kdsl.backend.cpu.turns import each_lane
from kdsl.backend.llvm import narrow
from kdsl.backend.llvm.module import memory_type, value_type
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, ToAtomic

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

ORDERS: Final = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel", "seq_cst": "seq_cst"}
"""Memory orders as LLVM calls them."""
ORDERS_OF_FAILURE: Final = {
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "monotonic",
    "acq_rel": "acquire",
    "seq_cst": "seq_cst",
}
"""What is left of them for a compare-and-swap that finds something else."""


def value(emission: Emission, op: nodes.Atomic) -> Lanes:
    """The old values of the elements that the lanes name."""
    e = emission
    places = [e.value(i) for i in op.indices]
    index = e.storage.index(op.memory, places, op.field)
    arguments = [e.value(a) for a in op.arguments]

    def access(mask: Mask) -> Any:
        return _in_turn(e, op, index, arguments, mask)

    return Vector(e.checks.checked(op, places, access) if op.checked else access(e.mask))


def fence(emission: Emission, op: nodes.Fence) -> None:
    """Threads of a block share a thread of the processor, so among them only the compiler must keep the order."""
    emission.builder.fence(ORDERS[op.order], "singlethread" if op.scope == "block" else None)


def _in_turn(e: Emission, op: nodes.Atomic, index: Lanes, arguments: list[Lanes], mask: Mask) -> Any:
    """A loop over the lanes of the mask; a vector of old values, 0 in other lanes."""
    b = e.builder

    def turn(lane: Any, results: Any) -> Any:
        def of_lane(value: Lanes) -> Any:
            return value.scalar if isinstance(value, Uniform) else b.extract_element(e.lanes.vector(value), lane)

        address = b.gep(e.storage.start(op.memory), [of_lane(index)], source_etype=memory_type(op.type))
        one = Turn(e, op, address)
        old = one.old([of_lane(a) for a in arguments])
        return b.insert_element(results, ir.Constant(value_type(op.type), 0) if op.op == "store" else old, lane)

    return each_lane(e, mask, turn, ir.Constant(value_type(op.type, e.width), None))


class Turn:
    """The operation of one lane, on the element at an address."""

    def __init__(self, emission: Emission, op: nodes.Atomic, address: Any) -> None:
        self.e = emission
        self.op = op
        self.address = address
        lowering = INTRINSICS[op.name].lowering
        assert isinstance(lowering, ToAtomic)
        self.llvm = lowering.llvm.get(op.type.kind, "")

    def old(self, arguments: list[Any]) -> Any:
        """Do it; the old value."""
        return (self.alone if isinstance(self.op.memory, nodes.Array | nodes.SharedView) else self.among_threads)(arguments)

    def _marked(self, access: Any) -> Any:
        self.e.storage.mark(access, self.op.memory)
        return access

    def _bits(self, value: Any) -> Any:
        """A float as an integer."""
        return self.e.builder.bitcast(value, ir.IntType(self.op.type.bits)) if self.op.type.is_float else value

    def _value(self, bits: Any) -> Any:
        return self.e.builder.bitcast(bits, value_type(self.op.type)) if self.op.type.is_float else bits

    def among_threads(self, arguments: list[Any]) -> Any:
        """With an instruction of the processor, or a loop of compare-and-swap; the old value."""
        b, op, order = self.e.builder, self.op, ORDERS[self.op.order]
        match op.op:
            case "load":
                loaded = b.load_atomic(self.address, order, op.type.itemsize, typ=ir.IntType(op.type.bits))
                return self._value(self._marked(loaded))
            case "store" | "exchange":
                return self._value(self._marked(b.atomic_rmw("xchg", self.address, self._bits(arguments[0]), order)))
            case "cas":
                compare, new = map(self._bits, arguments)
                exchanged = self._marked(b.cmpxchg(self.address, compare, new, order, ORDERS_OF_FAILURE[op.order]))
                return self._value(b.extract_value(exchanged, 0))
            case _ if op.type.is_float and op.type.bits == 16:
                return self._until_alone(arguments, order)
            case _:
                return self._marked(b.atomic_rmw(self.llvm, self.address, arguments[0], order))

    def _until_alone(self, arguments: list[Any], order: str) -> Any:
        """A loop of compare-and-swap: no processor adds 16-bit floats in one instruction."""
        b, op = self.e.builder, self.op
        first = self._marked(b.load_atomic(self.address, "monotonic", op.type.itemsize, typ=ir.IntType(16)))
        before, again, done = b.block, self.e.append("exchange"), self.e.append("exchanged")
        b.branch(again)
        b.position_at_end(again)
        seen = b.phi(ir.IntType(16))
        seen.add_incoming(first, before)
        exchanged = self._marked(b.cmpxchg(self.address, seen, self._new(seen, arguments), order, ORDERS_OF_FAILURE[op.order]))
        seen.add_incoming(b.extract_value(exchanged, 0), b.block)
        b.cbranch(b.extract_value(exchanged, 1), done, again)
        b.position_at_end(done)
        return seen

    def alone(self, arguments: list[Any]) -> Any:
        """By a load and a store; the old value."""
        b, op = self.e.builder, self.op
        old = self._marked(b.load(self.address, align=op.type.itemsize, typ=value_type(op.type)))
        if op.op != "load":
            self._marked(b.store(self._new(old, arguments), self.address, align=op.type.itemsize))
        return old

    def _new(self, old: Any, arguments: list[Any]) -> Any:
        b, of, given = self.e.builder, self.op.type, arguments[-1]
        zero, one = ir.Constant(old.type, 0), ir.Constant(old.type, 1) if of.is_integer else None
        match self.op.op:
            case "add":
                return self.e.scalars.combine("add", of, old, given)
            case "sub":
                if of.is_float and of.bits == 16:
                    return self.e.scalars.combine("add", of, old, narrow.negated(b, given))
                return b.fsub(old, given) if of.is_float else b.sub(old, given)
            case "min" | "max":
                return self.e.scalars.extreme(self.op.op, of, old, given)
            case "and":
                return b.and_(old, given)
            case "or":
                return b.or_(old, given)
            case "xor":
                return b.xor(old, given)
            case "cas":
                return b.select(b.icmp_unsigned("==", self._bits(old), self._bits(arguments[0])), given, old)
            case "inc":
                return b.select(b.icmp_unsigned(">=", old, given), zero, b.add(old, one))
            case "dec":
                wraps = b.or_(b.icmp_unsigned("==", old, zero), b.icmp_unsigned(">", old, given))
                return b.select(wraps, given, b.sub(old, one))
            case _:
                return given
