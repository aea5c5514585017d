"""What a GPU does by instructions of its own, and the CPU by a function: both are built, and a condition that is known when code is made chooses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from kdsl.frontend import expand
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, items_of
from kdsl.frontend.function import Function, Overloaded
from kdsl.frontend.values import Nothing, describe
from kdsl.ir import nodes
from kdsl.lang.types import BOOL, DType


def either(
    ctx: Context, on_gpu: Callable[[], Sequence[nodes.ValueOp]], cpu: Function | Overloaded, operands: Sequence[nodes.ValueOp],
    results: Sequence[DType], place: ast.AST, node: ast.Call,
) -> Sequence[nodes.ValueOp]:  # fmt: skip
    """The results of what `on_gpu` emits, and on the CPU of the function `cpu` of the operands; `place` is where the function is named."""
    condition = nodes.OnGpu(location=ctx.location, type=BOOL)
    ctx.emit(condition)
    location = ctx.location
    variables = [ctx.new_variable("result", of) for of in results]
    blocks = (nodes.Block(), nodes.Block())
    mark = len(ctx.set_log)
    with ctx.nested(blocks[0]):
        for variable, value in zip(variables, on_gpu(), strict=True):
            ctx.set(variable, value)
    with ctx.nested(blocks[1]):
        made = expand.call(ctx, cpu, operands, {}, node)
        if results:
            values = (made,) if len(results) == 1 else items_of(ctx, made, len(results), place)
            for variable, given in zip(variables, values, strict=True):
                ctx.set(variable, coerce(ctx, given, variable.type, place, f"a result of {cpu.name}"))
        elif not isinstance(made, Nothing):
            raise ctx.error(f"`{cpu.name}` returns {describe(made)}, and the text has no result", place, "let both have the same results")
    ctx.location = location
    ctx.emit(nodes.If(location=location, condition=condition, then=blocks[0], orelse=blocks[1]))
    ctx.forget_since(mark)
    return [ctx.get(variable) for variable in variables]
