"""Calls of rows that become a `nodes.Instruction`: each checks its arguments and builds it, in the file of its topic."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final

from kdsl.frontend.context import Context
from kdsl.frontend.values import Value
from kdsl.ir import nodes
from kdsl.ir.instruction import Option
from kdsl.lang.intrinsics import Intrinsic, ToInstruction
from kdsl.lang.types import DType

HANDLERS: Final[dict[str, Callable[[Context, Intrinsic, Mapping[str, Value], Mapping[str, ast.AST], ast.Call], Value]]] = {}
"""By the handler's name in `ToInstruction`: takes the arguments by name, where they stand, and the call. `HANDLERS.update({...})` with the tables of the
topics stands below."""


def build(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    """The value of a call of the row."""
    assert isinstance(row.lowering, ToInstruction)
    return HANDLERS[row.lowering.handler](ctx, row, given, places, node)


def emit(
    ctx: Context,
    row: Intrinsic,
    *,
    arguments: tuple[nodes.ValueOp, ...] = (),
    elements: tuple[nodes.Element, ...] = (),
    options: Mapping[str, Option] | None = None,
    results: tuple[DType, ...] = (),
    variant: str = "",
) -> tuple[nodes.Result, ...]:
    """Put an instruction into the kernel; its results."""
    instruction = nodes.Instruction(
        location=ctx.location, name=row.name, arguments=arguments, elements=elements, options=options or {}, results=results,
        variant=variant,
    )  # fmt: skip
    ctx.emit(instruction)
    made = tuple(nodes.Result(location=ctx.location, type=of, of=instruction, index=i) for i, of in enumerate(results))
    for result in made:
        ctx.emit(result)
    return made


from kdsl.frontend.instructions import copies, matrix  # noqa: E402  # they use what stands above

HANDLERS.update({**copies.HANDLERS, **matrix.HANDLERS})
