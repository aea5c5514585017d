"""Putting an instruction into the kernel: what the handlers of all topics share."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TypeAlias

from kdsl.frontend.context import Context
from kdsl.frontend.values import Value
from kdsl.ir import nodes
from kdsl.ir.instruction import Option
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.types import DType

Handler: TypeAlias = Callable[[Context, Intrinsic, Mapping[str, Value], Mapping[str, ast.AST], ast.Call], Value]
"""Takes the arguments by name, where they stand, and the call; its value."""


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
        location=ctx.location,
        name=row.name,
        arguments=arguments,
        elements=elements,
        options=options or {},
        results=results,
        variant=variant,
    )
    ctx.emit(instruction)
    made = tuple(nodes.Result(location=ctx.location, type=of, of=instruction, index=i) for i, of in enumerate(results))
    for result in made:
        ctx.emit(result)
    return made
