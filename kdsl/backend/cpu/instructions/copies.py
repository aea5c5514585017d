"""Asynchronous copies on the CPU: done at once, lane by lane, each with one access of 4, 8 or 16 bytes. Groups of copies then need no waiting.
The hint of what is read soon is one per cache line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.ahead import hint
from kdsl.backend.cpu.lanes import I32, Lanes, Uniform
from kdsl.backend.cpu.turns import each_lane
from kdsl.backend.llvm.module import call_intrinsic, mangled, memory_type
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


def _copy(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    e = emission
    b = e.builder
    to, source = op.elements
    element, count = memory_type(to.memory.type), op.options["count"]
    assert isinstance(count, int)
    kind = ir.VectorType(element, count)
    places = [e.storage.index(place.memory, [e.value(i) for i in place.indices]) for place in (to, source)]
    starts = [e.storage.start(place.memory) for place in (to, source)]
    itemsize = to.memory.type.itemsize

    def one(scalars: Sequence[Any]) -> None:
        target, origin = (b.gep(start, [index], source_etype=element) for start, index in zip(starts, scalars[:2], strict=True))
        if op.arguments:
            lanes = ir.Constant(ir.VectorType(I32, count), list(range(count)))
            valid = b.trunc(scalars[2], I32)
            is_read = b.icmp_signed("<", lanes, _splat(b, valid, count))
            zero, alignment = ir.Constant(kind, None), ir.Constant(I32, itemsize)
            loaded = call_intrinsic(b, f"llvm.masked.load.{mangled(kind)}.p0", kind, origin, alignment, is_read, zero)
        else:
            loaded = b.load(origin, align=itemsize, typ=kind)
        e.storage.mark(loaded, source.memory)
        e.storage.mark(b.store(loaded, target, align=itemsize), to.memory)

    in_turn(e, [*places, *(e.value(a) for a in op.arguments)], one)
    return ()


def in_turn(emission: Emission, values: Sequence[Lanes], action: Callable[[Sequence[Any]], None]) -> None:
    """Run an action for the active lanes, from the lowest to the highest, with the values of the lane."""
    e = emission
    b = e.builder
    buffers: list[Any] = [None if isinstance(value, Uniform) else _stored(e, number, value) for number, value in enumerate(values)]

    def turn(lane: Any, _: Any) -> None:
        scalars: list[Any] = []
        for value, stored in zip(values, buffers, strict=True):
            if isinstance(value, Uniform):
                scalars.append(value.scalar)
            else:
                buffer, of = stored
                scalars.append(b.load(b.gep(buffer, [lane], source_etype=of), typ=of))
        action(scalars)

    each_lane(e, e.mask, turn)


def _stored(e: Emission, number: int, value: Lanes) -> tuple[Any, ir.Type]:
    """A buffer with the values of all lanes, and their type."""
    vector = e.lanes.vector(value)
    buffer = e.buffer(vector.type, ("turn", number, str(vector.type)))
    e.builder.store(vector, buffer)
    return buffer, vector.type.element


def _splat(b: ir.IRBuilder, scalar: Any, count: int) -> Any:
    undefined = ir.Constant(ir.VectorType(scalar.type, count), ir.Undefined)
    first = b.insert_element(undefined, scalar, ir.Constant(I32, 0))
    return b.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, count), [0] * count))


def _nothing(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    return ()


def _prefetch(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    e = emission
    (source,) = op.elements
    if not e.is_fallback:
        hint(e, source.memory, e.storage.index(source.memory, [e.value(i) for i in source.indices]))
    return ()


EMITTERS: Final[dict[str, Callable[[Emission, nodes.Instruction], Sequence[Lanes]]]] = {
    "copy_async": _copy,
    "commit_copies": _nothing,
    "wait_copies": _nothing,
    "wait_all_copies": _nothing,
    "prefetch": _prefetch,
}
