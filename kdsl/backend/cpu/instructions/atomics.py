"""Atomic operations on vectors: sums and extremes number by number, and moves of 128 bits as one integer. The active lanes take turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.atomics import ORDERS, ORDERS_OF_FAILURE, Turn
from kdsl.backend.cpu.lanes import I32, Lanes, Uniform, Vector
from kdsl.backend.cpu.turns import each_lane
from kdsl.backend.llvm.module import memory_type, value_type
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, ToAtomic
from kdsl.lang.vectors import VECTORS

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_I128: Final = ir.IntType(128)


def _atomic(e: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    b, (element,), count = e.builder, op.elements, VECTORS[str(op.options["vector"])].lanes
    of = element.memory.type
    lowering = INTRINSICS[op.name].lowering
    assert isinstance(lowering, ToAtomic)
    index = e.storage.index(element.memory, [e.value(i) for i in element.indices])
    arguments = [e.value(a) for a in op.arguments]
    whole = lowering.vectors[str(op.options["vector"])].ptx == "b128"

    def turn(lane: Any, results: Any) -> Any:
        def of_lane(value: Lanes) -> Any:
            return value.scalar if isinstance(value, Uniform) else b.extract_element(e.lanes.vector(value), lane)

        address = b.gep(e.storage.start(element.memory), [of_lane(index)], source_etype=memory_type(of))
        given = [of_lane(a) for a in arguments]
        olds = (
            _moved(e, op, lowering.op, address, given, count)
            if whole
            else [_changed(e, op, lowering.op, address, number, given[number]) for number in range(count)]
        )
        for number, old in enumerate(olds[: len(op.results)]):
            row = b.insert_element(b.extract_value(results, number), old, lane)
            results = b.insert_value(results, row, number)
        return results

    nothing = ir.Constant(ir.LiteralStructType([value_type(of, e.width) for of in op.results]), None)
    made = each_lane(e, e.mask, turn, nothing)
    return [Vector(b.extract_value(made, number)) for number in range(len(op.results))]


def _changed(e: Emission, op: nodes.Instruction, kind: Any, address: Any, number: int, value: Any) -> Any:
    """One number of a vector, by the operation on numbers; its old value."""
    of, options = op.results[0], op.options
    scope: Any = options["scope"]
    order: Any = options["order"]
    one = nodes.Atomic(
        location=op.location, type=of, name=op.name, op=kind, memory=op.elements[0].memory, indices=(), arguments=(),
        scope=scope, order=order, checked=False, site=0,
    )  # fmt: skip
    place = e.builder.gep(address, [ir.Constant(I32, number)], source_etype=memory_type(of))
    return Turn(e, one, place).old([value])


def _moved(e: Emission, op: nodes.Instruction, what: str, address: Any, numbers: list[Any], count: int) -> list[Any]:
    """All of a vector, as an integer; its old numbers. Blocks run on several threads, so what is not shared memory is touched by one instruction."""
    b, memory = e.builder, op.elements[0].memory
    kind = value_type(memory.type, count)
    given = [_joined(b, kind, numbers[first : first + count]) for first in range(0, len(numbers), count)]
    order = str(op.options["order"])
    if isinstance(memory, nodes.Array | nodes.SharedView):
        old = b.load(address, align=16, typ=_I128)
        accesses = [old]
        if given:
            new = b.select(b.icmp_unsigned("==", old, given[0]), given[1], old) if what == "cas" else given[0]
            accesses.append(b.store(new, address, align=16))
    elif what == "load":
        old = b.load_atomic(address, ORDERS[order], 16, typ=_I128)
        accesses = [old]
    elif what in ("store", "exchange"):
        old = b.atomic_rmw("xchg", address, given[0], ORDERS[order])
        accesses = [old]
    else:
        exchanged = b.cmpxchg(address, *given, ORDERS[order], ORDERS_OF_FAILURE[order])
        old = b.extract_value(exchanged, 0)
        accesses = [exchanged]
    for access in accesses:
        e.storage.mark(access, memory)
    whole = b.bitcast(old, kind)
    return [b.extract_element(whole, ir.Constant(I32, number)) for number in range(count)]


def _joined(b: ir.IRBuilder, kind: ir.Type, numbers: Sequence[Any]) -> Any:
    whole: Any = ir.Constant(kind, ir.Undefined)
    for number, value in enumerate(numbers):
        whole = b.insert_element(whole, value, ir.Constant(I32, number))
    return b.bitcast(whole, _I128)


EMITTERS: Final[dict[str, Callable[[Emission, nodes.Instruction], Sequence[Lanes]]]] = {
    name: _atomic for name, row in INTRINSICS.items() if isinstance(row.lowering, ToAtomic) and row.lowering.vectors
}
