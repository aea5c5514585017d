"""Inline PTX with several results. Operands of PTX are named by `operands`, results first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)


def shared_address(builder: ir.IRBuilder, address: Any) -> Any:
    """An address in the shared space, which has 32 bits."""
    return builder.ptrtoint(address, _I32)


def global_address(builder: ir.IRBuilder, address: Any) -> Any:
    """An address in the global space."""
    return builder.ptrtoint(address, _I64)


def operands(first: int, count: int) -> str:
    """`{$4, $5}`: a vector of `count` operands from number `first` on."""
    return f"{{{', '.join(f'${number}' for number in range(first, first + count))}}}"


def assembly(
    builder: ir.IRBuilder, text: str, results: Sequence[ir.Type], arguments: Sequence[Any], *, memory: bool = True, convergent: bool = False
) -> Sequence[Any]:
    """Emit an instruction. `memory` says that it touches memory or orders accesses, so that nothing moves across it; `convergent` that whole warps do it."""
    constraints = [*("=" + _letter(of) for of in results), *(_letter(a.type) for a in arguments), *(["~{memory}"] if memory else [])]
    result = ir.VoidType() if not results else results[0] if len(results) == 1 else ir.LiteralStructType(results)
    made = builder.asm(ir.FunctionType(result, [a.type for a in arguments]), text, ",".join(constraints), list(arguments), memory)
    if convergent:
        made.attributes.add("convergent")
    if len(results) <= 1:
        return (made,) * len(results)
    return [builder.extract_value(made, number) for number in range(len(results))]


def _letter(kind: ir.Type) -> str:
    """The constraint for a register of a type."""
    if isinstance(kind, ir.IntType):
        return {16: "h", 32: "r", 64: "l"}[kind.width]
    return "f" if isinstance(kind, ir.FloatType) else "d"
