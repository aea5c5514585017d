"""Inline PTX: one or several instructions as a statement, a value, or several values.

Operands are written `$0`, `$1` …, results first. Unless it is said otherwise LLVM takes all of it as an effect that touches all memory, so that nothing moves
across it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_ORDERS_ALL: Final = "~{memory}"
_LETTERS: Final = {16: "h", 32: "r", 64: "l"}


def letter(kind: ir.Type) -> str:
    """The constraint for a register of a type."""
    if isinstance(kind, ir.IntType):
        return _LETTERS[kind.width]
    return "f" if isinstance(kind, ir.FloatType) else "d"


def statement(builder: ir.IRBuilder, text: str, *arguments: Any, convergent: bool = False) -> None:
    """Instructions that yield nothing."""
    call(builder, text, ir.VoidType(), [letter(a.type) for a in arguments], arguments, convergent=convergent)


def value(builder: ir.IRBuilder, text: str, result: ir.Type, *arguments: Any, convergent: bool = False) -> Any:
    """Instructions that yield a value."""
    constraints = ["=" + letter(result), *(letter(a.type) for a in arguments)]
    return call(builder, text, result, constraints, arguments, convergent=convergent)


def values(
    builder: ir.IRBuilder, text: str, results: Sequence[ir.Type], *arguments: Any, memory: bool = True, convergent: bool = False
) -> Sequence[Any]:
    """Instructions that yield any number of values. `memory`: whether they touch memory or order accesses; if not, LLVM may move and drop them."""
    constraints = [*("=" + letter(of) for of in results), *(letter(a.type) for a in arguments)]
    result = ir.VoidType() if not results else results[0] if len(results) == 1 else ir.LiteralStructType(results)
    made = call(builder, text, result, constraints, arguments, effects=memory, memory=memory, convergent=convergent)
    return (made,) * len(results) if len(results) <= 1 else [builder.extract_value(made, number) for number in range(len(results))]


def needed(builder: ir.IRBuilder, value: Any) -> None:
    """Nothing, for which a value of 32 or 64 bits has to be there: LLVM computes it here, and not behind a branch."""
    assembly = ir.InlineAsm(ir.FunctionType(ir.VoidType(), [value.type]), "", letter(value.type), side_effect=True)
    builder.call(assembly, [value], attrs=("nounwind", "readnone"))


def holds(builder: ir.IRBuilder, text: str, *arguments: Any, convergent: bool = False) -> Any:
    """Instructions that set the predicate `p`, i1; their operands begin with `$1`."""
    whole = f"{{ .reg .pred p; {text} selp.b32 $0, 1, 0, p; }}"
    return builder.icmp_unsigned("!=", value(builder, whole, _I32, *arguments, convergent=convergent), _I32(0))


def call(
    builder: ir.IRBuilder,
    text: str,
    result: ir.Type,
    constraints: Sequence[str],
    arguments: Sequence[Any],
    *,
    effects: bool = True,
    memory: bool = True,
    convergent: bool = False,
) -> Any:
    """Instructions with the constraints of results and arguments, in order. `effects` and `memory`: whether LLVM has to keep them, and accesses around
    them, where they stand."""
    kind = ir.FunctionType(result, [a.type for a in arguments])
    every = [*constraints, _ORDERS_ALL] if memory else list(constraints)
    assembly = ir.InlineAsm(kind, text, ",".join(every), side_effect=effects)
    return builder.call(assembly, list(arguments), attrs=("convergent",) if convergent else ())


def shared_address(builder: ir.IRBuilder, pointer: Any) -> Any:
    """A pointer into the shared space as the 32 bits that instructions take."""
    return builder.ptrtoint(pointer, _I32)


def global_address(builder: ir.IRBuilder, pointer: Any) -> Any:
    """A pointer into the global or the generic space as the 64 bits that instructions take."""
    return builder.ptrtoint(pointer, _I64)


def vector(first: int, count: int) -> str:
    """`{$4, $5}`: a vector of `count` operands from number `first` on."""
    return f"{{{', '.join(f'${number}' for number in range(first, first + count))}}}"
