"""Local arrays begin as zeros: those of a whole group at once, or of its active lanes only, for which an array may begin anew while others still use theirs.

How the elements of the lanes lie in memory stands in `storage`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu import masked
from kdsl.backend.cpu.lanes import I64
from kdsl.backend.cpu.scratch import ALIGNMENT
from kdsl.ir import nodes
from kdsl.lang.struct_type import StructType

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_IN_LINE: Final = 8
"""Stores of a group that need no loop."""


def clear(e: Emission, array: nodes.Array) -> None:
    """Make all elements of a local array 0 in the active lanes."""
    mask = e.mask
    if mask is None:
        _whole(e, array)
    else:
        e.memory.either(e.masks.whole(mask), lambda: _whole(e, array), lambda: _of_lanes(e, array, mask))


def _whole(e: Emission, array: nodes.Array) -> None:
    line = ir.Constant(ir.VectorType(I64, ALIGNMENT // 8), None)

    def store(number: Any) -> None:
        e.storage.mark(e.builder.store(line, e.builder.gep(start, [number], source_etype=line.type), align=ALIGNMENT), array)

    start, count = e.storage.start(array), -(-array.size * array.type.itemsize * e.width // ALIGNMENT)
    if count > _IN_LINE:
        _each(e, count, store)
        return
    for number in range(count):
        store(e.i64(number))


def _of_lanes(e: Emission, array: nodes.Array, mask: Any) -> None:
    start, element = e.storage.start(array), array.type.itemsize * e.width

    def store(number: Any) -> None:
        for offset, size in _numbers(array):
            zeros = ir.Constant(ir.VectorType(ir.IntType(8 * size), e.width), None)
            place = e.builder.add(e.builder.mul(number, e.i64(element)), e.i64(offset * e.width))
            address = e.builder.gep(start, [place], source_etype=ir.IntType(8))
            masked.store(e, zeros, address, min(ALIGNMENT, size * e.width), mask, array)

    _each(e, array.size, store)


def _numbers(array: nodes.Array) -> list[tuple[int, int]]:
    """Where the numbers of an element lie in it, and their sizes, in bytes."""
    if not isinstance(array.type, StructType):
        return [(0, array.type.itemsize)]
    found = []
    for number in array.type.numbers:
        places = [number.offset]
        for extent, stride in zip(number.shape, number.strides, strict=True):
            places = [place + index * stride for place in places for index in range(extent)]
        found += [(place, number.type.itemsize) for place in places]
    return found


def _each(e: Emission, count: int, action: Callable[[Any], None]) -> None:
    """A loop over numbers from 0 on."""
    b = e.builder
    before, head, after = b.block, e.append("clear"), e.append("cleared")
    b.branch(head)
    b.position_at_end(head)
    number = b.phi(I64)
    action(number)
    following = b.add(number, e.i64(1))
    number.add_incoming(e.i64(0), before)
    number.add_incoming(following, head)
    b.cbranch(b.icmp_unsigned("<", following, e.i64(count)), head, after)
    b.position_at_end(after)
