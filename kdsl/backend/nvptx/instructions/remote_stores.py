"""Asynchronous stores to another block of the cluster (PTX ISA, "st.async", "red.async").

Both the place and the barrier are those of the other block. What is stored is visible to whoever waits there for the phase and acquires from the whole
cluster (`barriers.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.nvptx import assembly
from kdsl.lang.intrinsics.clusters import ASYNC_REDUCTIONS

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_BYTES: Final = "shared::cluster.mbarrier::complete_tx::bytes"


def _store(instruction: Callable[[Emission], str]) -> Callable[[Emission], Sequence[Any]]:
    """Elements: barrier, destination. Arguments: the rank of the block, then the numbers. Without a destination the barrier only counts so many bytes as the
    second argument says."""

    def emit(e: Emission) -> Sequence[Any]:
        b = e.builder
        rank, *numbers = e.arguments
        bar, *destination = (assembly.shared_address(b, address) for address in e.addresses)
        there = "{ .reg .b32 bar, there; mapa.shared::cluster.u32 bar, $0, $1;"
        if not destination:
            assembly.statement(b, f"{there} mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], $2; }}", bar, rank, *numbers)
            return ()
        words = _words(b, numbers, e.op.elements[1].memory.type.itemsize)
        operand = assembly.vector(3, len(words)) if len(words) > 1 else "$3"
        text = f"{there} mapa.shared::cluster.u32 there, $2, $1; {instruction(e)} [there], {operand}, [bar]; }}"
        assembly.statement(b, text, bar, rank, *destination, *words)
        return ()

    return emit


def _words(b: ir.IRBuilder, numbers: Sequence[Any], itemsize: int) -> list[Any]:
    """The numbers, which have `itemsize` bytes each, in one register of 4 or 8 bytes, or in two of 8."""
    size = itemsize * len(numbers)
    to = _I32 if size == 4 else _I64 if size == 8 else ir.VectorType(_I64, 2)
    whole = numbers[0]
    if len(numbers) > 1:
        whole = ir.Constant(ir.VectorType(numbers[0].type, len(numbers)), ir.Undefined)
        for lane, number in enumerate(numbers):
            whole = b.insert_element(whole, number, _I32(lane))
    whole = whole if whole.type == to else b.bitcast(whole, to)
    return [b.extract_element(whole, _I32(half)) for half in range(2)] if size == 16 else [whole]


def _stored(e: Emission) -> str:
    size = e.op.elements[1].memory.type.itemsize * (len(e.op.arguments) - 1)
    return f"st.async.weak.{_BYTES}.{'v2.b64' if size == 16 else f'b{8 * size}'}"


def _reduced(e: Emission) -> str:
    operation = str(e.op.options["op"])
    return f"red.async.relaxed.cluster.{_BYTES}.{operation}.{ASYNC_REDUCTIONS[operation][e.op.elements[1].memory.type.name]}"


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {"store_async": _store(_stored), "reduce_async": _store(_reduced)}
"""By the name of the row."""
