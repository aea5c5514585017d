"""Atomic operations on vectors (PTX ISA, "atom", "ld", "st"): sums of packed and of several floats, their extremes, and moves of 128 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import value_type
from kdsl.backend.nvptx import assembly
from kdsl.backend.nvptx.atomics import STRONGEST, negated
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, SCOPES, ToAtomic
from kdsl.lang.vectors import VECTORS

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)


def _atomic(e: Emission) -> Sequence[Any]:
    b, op = e.builder, e.op
    lowering, (element,), lanes = INTRINSICS[op.name].lowering, op.elements, VECTORS[str(op.options["vector"])].lanes
    assert isinstance(lowering, ToAtomic)
    of = element.memory.type
    scope, order = SCOPES[str(op.options["scope"])], str(op.options["order"])
    if order == "seq_cst":
        assembly.statement(b, f"fence.sc.{scope};")
        order = STRONGEST.get(lowering.op, "acq_rel")
    shared = "shared" if element.remote is None else "shared::cluster"
    space = shared if isinstance(element.memory, nodes.Array | nodes.SharedView) else "global"
    name, _, suffix = lowering.ptx.partition(".")
    kind = lowering.vectors[str(op.options["vector"])].ptx
    instruction = ".".join(part for part in (name, order, scope, space, suffix, kind) if part)
    place = b.ptrtoint(e.addresses[0], _I64)
    numbers = [negated(b, of, a) for a in e.arguments] if lowering.op == "sub" else list(e.arguments)
    if kind == "b128":
        return _moved(b, instruction, place, op, numbers, lanes)
    if kind.endswith("x2") and element.remote is not None:
        # ptxas (13.0) makes a load and a store of it, where another thread comes between; the elements are atomic one by one anyway (PTX ISA, "atom")
        one = instruction.removesuffix("x2")
        halves = f"{one} low, [$1], low; {one} high, [$1+2], high;"
        text = f"{{ .reg .b16 low, high; mov.b32 {{low, high}}, $2; {halves} mov.b32 $0, {{low, high}}; }}"
        return _parted(b, op, assembly.value(b, text, _I32, place, _joined(b, op, numbers, _I32)))
    if kind.endswith("x2"):
        old = assembly.value(b, f"{instruction} $0, [$1], $2;", _I32, place, _joined(b, op, numbers, _I32))
        return _parted(b, op, old)
    text = f"{instruction} {assembly.vector(0, lanes)}, [${lanes}], {assembly.vector(lanes + 1, lanes)};"
    return assembly.values(b, text, [value_type(of)] * lanes, place, *numbers)


def _moved(b: ir.IRBuilder, instruction: str, place: Any, op: nodes.Instruction, numbers: list[Any], lanes: int) -> Sequence[Any]:
    """128 bits as two halves of 64, which lie in one register for the instruction only."""
    pair = ir.VectorType(_I64, 2)
    halves: list[Any] = []
    for first in range(0, len(numbers), lanes):
        whole = _joined(b, op, numbers[first : first + lanes], pair)
        halves += [b.extract_element(whole, _I32(0)), b.extract_element(whole, _I32(1))]
    given, old = ["compare", "value"][2 - len(halves) // 2 :], ["old"] if op.results else []
    first = 2 * len(old)
    moves = [f"mov.b128 {name}, {assembly.vector(first + 1 + 2 * number, 2)};" for number, name in enumerate(given)]
    moves.append(f"{instruction} {', '.join((*old, f'[${first}]', *given))};")
    moves += [f"mov.b128 {assembly.vector(0, 2)}, old;" for _ in old]
    parts = assembly.values(b, f"{{ .reg .b128 {', '.join((*old, *given))}; {' '.join(moves)} }}", [_I64] * first, place, *halves)
    if not old:
        return ()
    low, high = parts
    whole = b.insert_element(b.insert_element(ir.Constant(pair, ir.Undefined), low, _I32(0)), high, _I32(1))
    return _parted(b, op, whole)


def _joined(b: ir.IRBuilder, op: nodes.Instruction, numbers: Sequence[Any], to: ir.Type) -> Any:
    """The numbers of a vector as one value of as many bits."""
    whole: Any = ir.Constant(value_type(op.elements[0].memory.type, len(numbers)), ir.Undefined)
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
