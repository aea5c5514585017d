"""Calls: of element types, built-in functions, intrinsics (by their row in the table) and `@function`s."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from kdsl.frontend import expand, geometry, memory, operators
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, convert, is_loose, join, materialise, scalar, type_of, with_article
from kdsl.frontend.function import Function, Overloaded
from kdsl.frontend.values import Builtin, Group, Literal, Nothing, Value, describe
from kdsl.ir import nodes
from kdsl.lang import intrinsics as table
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.types import BOOL, DTYPES, F32, I64, U32, DType

Evaluated = tuple[Value, ...]


def call(ctx: Context, node: ast.Call) -> Value:
    """The value of a call."""
    from kdsl.frontend.expressions import evaluate  # expressions contain calls, calls contain expressions

    callee = evaluate(ctx, node.func)
    positional = tuple(evaluate(ctx, argument) for argument in node.args)
    keywords: dict[str, Value] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ctx.error("`**` in a call is not part of the language", keyword.value, "write the arguments one by one")
        keywords[keyword.arg] = evaluate(ctx, keyword.value)
    if isinstance(callee, Function | Overloaded):
        named = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        return expand.call(ctx, callee, positional, keywords, node, node.args, named)
    if isinstance(callee, Intrinsic):
        positional = _fill(ctx, callee, positional, keywords, node)
        return _INTRINSICS[type(callee.lowering)](ctx, callee, positional, node)
    if isinstance(callee, DType | Builtin):
        if keywords:
            raise ctx.error(f"{callee.name}() takes no arguments by name", node, "give them in order")
        return _conversion(ctx, callee, positional, node) if isinstance(callee, DType) else _BUILTINS[callee.name](ctx, positional, node)
    raise ctx.error(f"{describe(callee)} cannot be called", node.func, "a kernel calls @functions, types and what kdsl provides")


def _count(ctx: Context, name: str, arguments: Sequence[Value], count: int, node: ast.AST, signature: str) -> None:
    if len(arguments) != count:
        wanted = "no argument" if count == 0 else "1 argument" if count == 1 else f"{count} arguments"
        raise ctx.error(f"{name}() takes {wanted}, not {len(arguments)}", node, f"its form is {signature}")


def _conversion(ctx: Context, to: DType, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, to.name, arguments, 1, node, f"{to}(x)")
    return convert(ctx, to, arguments[0], node.args[0])


# --------------------------------------------------------------------------------------------------------------------------- built-ins


def _int(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, "int", arguments, 1, node, "int(x)")
    if isinstance(arguments[0], Literal):
        if not math.isfinite(arguments[0].value):
            raise ctx.error(f"{arguments[0].value} is no integer", node.args[0], "write the integer that is meant")
        return Literal(int(arguments[0].value))
    return convert(ctx, I64, arguments[0], node.args[0])


def _float(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, "float", arguments, 1, node, "float(x)")
    if isinstance(arguments[0], Literal):
        return Literal(float(arguments[0].value))
    value = arguments[0]
    if isinstance(value, nodes.ValueOp) and value.type.is_float:
        return value
    return convert(ctx, F32, value, node.args[0])


def _bool(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, "bool", arguments, 1, node, "bool(x)")
    return operators.truth(ctx, arguments[0], node.args[0])


def _len(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, "len", arguments, 1, node, "len(y)")
    return memory.length(ctx, arguments[0], node.args[0])


def _abs(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, "abs", arguments, 1, node, "abs(x)")
    return operators.absolute(ctx, arguments[0], node.args[0], node)


def _extreme(name: str) -> Callable[[Context, Evaluated, ast.Call], Value]:
    def handler(ctx: Context, arguments: Evaluated, node: ast.Call) -> Value:
        places: Sequence[ast.AST] = node.args
        if len(arguments) == 1 and isinstance(arguments[0], Group):
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


_BUILTINS: Final[dict[str, Callable[[Context, Evaluated, ast.Call], Value]]] = {
    "int": _int, "float": _float, "bool": _bool, "len": _len, "abs": _abs, "min": _extreme("min"), "max": _extreme("max"), "range": _range,
}  # fmt: skip


# -------------------------------------------------------------------------------------------------------------------------- intrinsics


def _fill(ctx: Context, row: Intrinsic, positional: Evaluated, keywords: dict[str, Value], node: ast.Call) -> Evaluated:
    """Arguments by name, put in the order of the row's signature."""
    names = [part.split(":")[0].strip() for part in row.signature[1 : row.signature.index(")")].split(",") if part.strip()]
    given = dict(zip(names, positional, strict=False))
    for name, value in keywords.items():
        if name not in names or name in given:
            raise ctx.error(f"{row.name}() has no argument `{name}` left", node, f"its form is {row.name}{row.signature}")
        given[name] = value
    if len(positional) > len(names):
        raise ctx.error(f"{row.name}() takes {len(names)} arguments, not {len(positional)}", node, f"its form is {row.name}{row.signature}")
    if keywords and list(given) != names[: len(given)]:
        raise ctx.error(f"{row.name}() lacks `{next(n for n in names if n not in given)}`", node, f"its form is {row.name}{row.signature}")
    return tuple(given[name] for name in names if name in given)


def _place(node: ast.Call, position: int) -> ast.AST:
    return node.args[position] if position < len(node.args) else node


def _special(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, row.name, arguments, 0, node, row.name + row.signature)
    name: Any = row.lowering.name  # type: ignore[union-attr]
    return ctx.special(name)


def _floats(ctx: Context, row: Intrinsic, arguments: Evaluated, count: int, node: ast.Call) -> tuple[nodes.ValueOp, ...]:
    """Operands of a function on floats, in their common type."""
    _count(ctx, row.name, arguments, count, node, row.name + row.signature)
    numbers = [scalar(ctx, value, _place(node, i), f"an argument of {row.name}()") for i, value in enumerate(arguments)]
    for position, number in enumerate(numbers):
        of = type_of(number)
        if not of.is_float and not (is_loose(ctx, number) and not of.is_bool):
            text = ctx.text(_place(node, position))
            raise ctx.error(f"{row.name}() takes floats, not {with_article(of)}", _place(node, position), f"write {row.name}(f32({text}))")
    common = F32 if is_loose(ctx, numbers[0]) else type_of(numbers[0])
    whole = numbers[0]
    for position, number in enumerate(numbers[1:], 1):
        common = join(ctx, row.name, whole, number, _place(node, 0), _place(node, position), node)
        if not is_loose(ctx, number):
            whole = number if type_of(number) is common else whole
    if not common.is_float:
        common = F32
    return tuple(coerce(ctx, number, common, _place(node, i), f"an argument of {row.name}()") for i, number in enumerate(numbers))


def _to_unary(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    (operand,) = _floats(ctx, row, arguments, 1, node)
    return ctx.unary(row.lowering.op, operand)  # type: ignore[union-attr]


def _to_binary(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    left, right = _floats(ctx, row, arguments, 2, node)
    return ctx.binary(row.lowering.op, left, right)  # type: ignore[union-attr]


def _to_fma(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    return ctx.fma(*_floats(ctx, row, arguments, 3, node))


def _to_bitcast(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, row.name, arguments, 1, node, row.name + row.signature)
    takes = DTYPES[row.signature[1 : row.signature.index(")")].split(":")[1].strip()]
    value = coerce(ctx, arguments[0], takes, _place(node, 0), f"the argument of {row.name}()")
    return ctx.bitcast(DTYPES[row.lowering.to], value)  # type: ignore[union-attr]


def _to_barrier(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, row.name, arguments, 0, node, row.name + row.signature)
    ctx.emit(nodes.Barrier(location=ctx.location))
    return Nothing()


def _to_exchange(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    lowering = row.lowering
    assert isinstance(lowering, table.ToExchange)
    _count(ctx, row.name, arguments, 2 if lowering.kind == "shuffle" else 1, node, row.name + row.signature)
    if lowering.kind == "vote":
        operands: tuple[nodes.ValueOp, ...] = (materialise(ctx, operators.truth(ctx, arguments[0], _place(node, 0)), node),)
        of = U32 if lowering.mode == "ballot" else BOOL
    else:
        value = materialise(ctx, scalar(ctx, arguments[0], _place(node, 0), f"the value of {row.name}()"), _place(node, 0))
        of = value.type
        if of.is_bool:
            raise ctx.error(f"{row.name}() of a bool", _place(node, 0), "use warp_any, warp_all or warp_ballot, or convert it")
        operands = (value,)
        if lowering.kind == "shuffle":
            operands = (value, coerce(ctx, arguments[1], I64, _place(node, 1), f"the second argument of {row.name}()"))
    made = nodes.Exchange(location=ctx.location, type=of, name=row.name, arguments=operands)
    ctx.emit(made)
    return made


def _to_frontend(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    handler = row.lowering.handler  # type: ignore[union-attr]
    if handler in ("shared_array", "local_array"):
        ref = memory.new_array(ctx, handler.removesuffix("_array"), arguments, node)
        memory.fill_registers(ctx, ref)
        return ref
    if handler == "unroll":
        raise ctx.error("unroll() stands only in `for … in unroll(…):`", node, "loop over it")
    _count(ctx, row.name, arguments, 0, node, row.name + row.signature)
    return geometry.INDICES[handler](ctx, node)


_INTRINSICS: Final[dict[type, Callable[[Context, Intrinsic, Evaluated, ast.Call], Value]]] = {
    table.ToSpecial: _special,
    table.ToUnary: _to_unary,
    table.ToBinary: _to_binary,
    table.ToFma: _to_fma,
    table.ToBitcast: _to_bitcast,
    table.ToBarrier: _to_barrier,
    table.ToExchange: _to_exchange,
    table.ToFrontend: _to_frontend,
}
