"""Atomic operations on vectors (PTX ISA, "atom"): sums of packed and of several floats, their extremes, and moves of 128 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import value_type
from kdsl.backend.nvptx import assembly
from kdsl.backend.nvptx.atomics import negated
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, SCOPES, ToAtomic

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)


def _atomic(e: Emission) -> Sequence[Any]:
    b, op = e.builder, e.op
    lowering, of, lanes = INTRINSICS[op.name].lowering, op.elements[0].memory.type, len(op.results)
    assert isinstance(lowering, ToAtomic)
    scope, order = SCOPES[str(op.options["scope"])], str(op.options["order"])
    if order == "seq_cst":
        assembly.statement(b, f"fence.sc.{scope};")
        order = "acq_rel"
    space = "shared" if isinstance(op.elements[0].memory, nodes.Array | nodes.SharedView) else "global"
    name, _, suffix = lowering.ptx.partition(".")
    kind = lowering.vectors[str(op.options["vector"])].ptx
    instruction = f"{name}.{order}.{scope}.{space}.{suffix}.{kind}"
    place = b.ptrtoint(e.addresses[0], _I64)
    numbers = [negated(b, of, a) for a in e.arguments] if lowering.op == "sub" else list(e.arguments)
    if kind == "b128":
        return _moved(b, instruction, place, op, numbers)
    if kind.endswith("x2"):
        old = assembly.value(b, f"{instruction} $0, [$1], $2;", _I32, place, _joined(b, op, numbers, _I32))
        return _parted(b, op, old)
    text = f"{instruction} {assembly.vector(0, lanes)}, [${lanes}], {assembly.vector(lanes + 1, lanes)};"
    return assembly.values(b, text, [value_type(of)] * lanes, place, *numbers)


def _moved(b: ir.IRBuilder, instruction: str, place: Any, op: nodes.Instruction, numbers: list[Any]) -> Sequence[Any]:
    """128 bits as two halves of 64, which lie in one register for the instruction only."""
    lanes, pair = len(op.results), ir.VectorType(_I64, 2)
    halves: list[Any] = []
    for first in range(0, len(numbers), lanes):
        whole = _joined(b, op, numbers[first : first + lanes], pair)
        halves += [b.extract_element(whole, _I32(0)), b.extract_element(whole, _I32(1))]
    given = ["value"] if len(halves) == 2 else ["compare", "value"]
    made = " ".join(f"mov.b128 {name}, {assembly.vector(3 + 2 * number, 2)};" for number, name in enumerate(given))
    text = f"{{ .reg .b128 old, {', '.join(given)}; {made} {instruction} old, [$2], {', '.join(given)}; mov.b128 {{$0, $1}}, old; }}"
    low, high = assembly.values(b, text, [_I64, _I64], place, *halves)
    old = b.insert_element(b.insert_element(ir.Constant(pair, ir.Undefined), low, _I32(0)), high, _I32(1))
    return _parted(b, op, old)


def _joined(b: ir.IRBuilder, op: nodes.Instruction, numbers: Sequence[Any], to: ir.Type) -> Any:
    """The numbers of a vector as one value of as many bits."""
    whole: Any = ir.Constant(value_type(op.results[0], len(numbers)), ir.Undefined)
    for lane, number in enumerate(numbers):
        whole = b.insert_element(whole, number, _I32(lane))
    return whole if whole.type == to else b.bitcast(whole, to)


def _parted(b: ir.IRBuilder, op: nodes.Instruction, whole: Any) -> Sequence[Any]:
    kind = value_type(op.results[0], len(op.results))
    vector = whole if whole.type == kind else b.bitcast(whole, kind)
    return [b.extract_element(vector, _I32(lane)) for lane in range(len(op.results))]


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {
    name: _atomic for name, row in INTRINSICS.items() if isinstance(row.lowering, ToAtomic) and row.lowering.vectors
}
"""By the name of the row."""
