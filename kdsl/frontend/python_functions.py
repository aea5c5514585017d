"""Built-in functions of Python in kernels: `int`, `float`, `bool`, `len`, `abs`, `min`, `max`, `range`."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Final

from kdsl.frontend import arrays_described, operators
from kdsl.frontend.arguments import Evaluated, expect_count
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import convert
from kdsl.frontend.values import Group, Literal, Value, Vector
from kdsl.ir import nodes
from kdsl.lang.types import F32, I64


def _int(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, "int", arguments, 1, node, "int(x)")
    if isinstance(arguments[0], Literal):
        if not math.isfinite(arguments[0].value):
            raise ctx.error(f"{arguments[0].value} is no integer", node.args[0], "write the integer that is meant")
        return Literal(int(arguments[0].value))
    return convert(ctx, I64, arguments[0], node.args[0])


def _float(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, "float", arguments, 1, node, "float(x)")
    if isinstance(arguments[0], Literal):
        return Literal(float(arguments[0].value))
    value = arguments[0]
    if isinstance(value, nodes.ValueOp) and value.type.is_float:
        return value
    return convert(ctx, F32, value, node.args[0])


def _bool(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, "bool", arguments, 1, node, "bool(x)")
    return operators.truth(ctx, arguments[0], node.args[0])


def _len(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, "len", arguments, 1, node, "len(y)")
    return arrays_described.length(ctx, arguments[0], node.args[0])


def _abs(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, "abs", arguments, 1, node, "abs(x)")
    return operators.absolute(ctx, arguments[0], node.args[0], node)


def _extreme(name: str) -> Callable[[Context, Evaluated, ast.Call], Value]:
    def handler(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
        places: Sequence[ast.AST] = node.args
        if len(arguments) == 1 and isinstance(arguments[0], Group | Vector):
            arguments = arguments[0].items
            places = [node.args[0]] * len(arguments)
        if len(arguments) < 2:
            raise ctx.error(f"{name}() takes at least two numbers", node, f"such as {name}(a, b)")
        result, place = arguments[0], places[0]
        for following, following_place in zip(arguments[1:], places[1:], strict=True):
            result = operators.binary(ctx, name, result, following, place, following_place, node)
            place = node
        return result

    return handler


def _range(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
    raise ctx.error("range() stands only in `for … in range(…):`", node, "loop over it")


BUILTINS: Final[dict[str, Callable[[Context, Evaluated, ast.Call], Value]]] = {
    "int": _int, "float": _float, "bool": _bool, "len": _len, "abs": _abs, "min": _extreme("min"), "max": _extreme("max"), "range": _range,
}  # fmt: skip
