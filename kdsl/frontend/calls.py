"""Calls: of element types, built-in functions, intrinsics (by their row in the table) and `@function`s."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from kdsl.frontend import atomics, expand, geometry, instructions, memory, operators, printing, structs, vectors
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, convert, is_loose, join, materialise, scalar, type_of, with_article
from kdsl.frontend.function import Function, Overloaded
from kdsl.frontend.values import (
    ArrayRef,
    Builtin,
    Group,
    Literal,
    Nothing,
    Number,
    Scalar,
    Text,
    Value,
    Vector,
    describe,
    known_number,
)  # fmt: skip
from kdsl.ir import nodes
from kdsl.lang import intrinsics as table
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.struct_type import StructType
from kdsl.lang.types import BOOL, DTYPES, F32, I64, U32, DType
from kdsl.lang.vectors import VectorType, vector_type

Evaluated = tuple[Value, ...]
_ALL_LANES: Final = 0xFFFFFFFF


def call(ctx: Context, node: ast.Call) -> Value:
    """The value of a call."""
    from kdsl.frontend.expressions import evaluate  # expressions contain calls, calls contain expressions

    callee = evaluate(ctx, node.func)
    if isinstance(callee, Builtin) and callee.name == "print":
        printing.call(ctx, node)
        return Nothing()
    positional = tuple(evaluate(ctx, argument) for argument in node.args)
    keywords: dict[str, Value] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ctx.error("`**` in a call is not part of the language", keyword.value, "write the arguments one by one")
        keywords[keyword.arg] = evaluate(ctx, keyword.value)
    if _applies_to_numbers(callee) and any(isinstance(value, Vector) for value in (*positional, *keywords.values())):
        return _for_each_number(ctx, callee, positional, keywords, node)
    return _apply(ctx, callee, positional, keywords, node)


def _apply(ctx: Context, callee: Value, positional: Evaluated, keywords: dict[str, Value], node: ast.Call) -> Value:
    if isinstance(callee, Function | Overloaded):
        named = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        return expand.call(ctx, callee, positional, keywords, node, node.args, named)
    if isinstance(callee, Intrinsic):
        positional = _fill(ctx, callee, positional, keywords, node)
        return _INTRINSICS[type(callee.lowering)](ctx, callee, positional, node)
    if isinstance(callee, StructType):
        return structs.construct(ctx, callee, positional, keywords, node)
    if isinstance(callee, DType | VectorType | Builtin):
        if keywords:
            raise ctx.error(f"{callee.name}() takes no arguments by name", node, "give them in order")
        if isinstance(callee, VectorType):
            return vectors.construct(ctx, callee, positional, node)
        return _conversion(ctx, callee, positional, node) if isinstance(callee, DType) else _BUILTINS[callee.name](ctx, positional, node)
    raise ctx.error(f"{describe(callee)} cannot be called", node.func, "a kernel calls @functions, types and what kdsl provides")


def _applies_to_numbers(callee: Value) -> bool:
    """Whether it is a function of the table, or of mathematics, that makes one number of numbers."""
    if isinstance(callee, Intrinsic):
        return isinstance(callee.lowering, table.ToUnary | table.ToBinary | table.ToFma | table.ToBitcast)
    return isinstance(callee, Overloaded)


def _takes(callee: Value, of: DType) -> bool:
    """Whether a function that wants floats can be applied to numbers of a type."""
    if isinstance(callee, Overloaded):
        return of in callee.functions
    lowering = callee.lowering if isinstance(callee, Intrinsic) else None
    return of.is_float or not isinstance(lowering, table.ToUnary | table.ToBinary | table.ToFma) or getattr(lowering, "integer", False)


def _for_each_number(ctx: Context, callee: Value, positional: Evaluated, keywords: dict[str, Value], node: ast.Call) -> Value:
    """A function of numbers, applied to each number of vectors."""
    name: str = callee.name  # type: ignore[union-attr]  # what `_applies_to_numbers` lets through has one
    values = [*positional, *keywords.values()]
    places = [*node.args, *(keyword.value for keyword in node.keywords)]
    operands: list[Number] = [
        vectors.number(ctx, value, place, f"an argument of {name}()") for value, place in zip(values, places, strict=True)
    ]

    for operand, place in zip(operands, places, strict=True):
        if isinstance(operand, Vector) and not _takes(callee, operand.type.element):
            hint = f"write {name}({vector_type(F32, operand.type.lanes) or 'f32'}({ctx.text(place)}))"
            raise ctx.error(f"{name}() does not take {with_article(operand.type)}", place, hint)

    def of_numbers(*numbers: Scalar) -> Value:
        given, named = numbers[: len(positional)], numbers[len(positional) :]
        return _apply(ctx, callee, given, dict(zip(keywords, named, strict=True)), node)

    return vectors.elementwise(ctx, f"{name}()", operands, places, node, of_numbers)


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


_BUILTINS: Final[dict[str, Callable[[Context, Evaluated, ast.Call], Value]]] = {
    "int": _int, "float": _float, "bool": _bool, "len": _len, "abs": _abs, "min": _extreme("min"), "max": _extreme("max"), "range": _range,
}  # fmt: skip


# -------------------------------------------------------------------------------------------------------------------------- intrinsics


def _fill(ctx: Context, row: Intrinsic, positional: Evaluated, keywords: dict[str, Value], node: ast.Call) -> Evaluated:
    """Arguments by name, and those that have defaults, put in the order of the row's signature."""
    names = [name for name, _ in row.parameters]
    given = dict(zip(names, positional, strict=False))
    for name, value in keywords.items():
        if name not in names or name in given:
            raise ctx.error(f"{row.name}() has no argument `{name}` left", node, f"its form is {row.name}{row.signature}")
        given[name] = value
    if len(positional) > len(names):
        raise ctx.error(f"{row.name}() takes {len(names)} arguments, not {len(positional)}", node, f"its form is {row.name}{row.signature}")
    for name, default in row.parameters:
        if default is not None:
            given.setdefault(name, Text(default) if isinstance(default, str) else Literal(default))
    missing = [name for name in names if name not in given]
    if missing and (keywords or len(given) > len(positional)):
        raise ctx.error(f"{row.name}() lacks `{missing[0]}`", node, f"its form is {row.name}{row.signature}")
    return tuple(given[name] for name in names if name in given)


def _place(node: ast.Call, position: int, name: str = "") -> ast.AST:
    """Where an argument stands that is given by position or by name; the whole call if it is a default."""
    if position < len(node.args):
        return node.args[position]
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), node)


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


def _integers(ctx: Context, row: Intrinsic, arguments: Evaluated, count: int, node: ast.Call) -> tuple[nodes.ValueOp, ...]:
    """Operands of a function on integers, in their common type."""
    _count(ctx, row.name, arguments, count, node, row.name + row.signature)
    numbers = [scalar(ctx, value, _place(node, i), f"an argument of {row.name}()") for i, value in enumerate(arguments)]
    for position, number in enumerate(numbers):
        if not type_of(number).is_integer:
            place = _place(node, position)
            raise ctx.error(
                f"{row.name}() takes integers, not {with_article(type_of(number))}", place, f"convert it, as in u32({ctx.text(place)})"
            )
    common = type_of(numbers[0])
    if count == 2:
        common = join(ctx, row.name, numbers[0], numbers[1], _place(node, 0), _place(node, 1), node)
    return tuple(coerce(ctx, number, common, _place(node, i), f"an argument of {row.name}()") for i, number in enumerate(numbers))


def _to_unary(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    lowering = row.lowering
    assert isinstance(lowering, table.ToUnary)
    if lowering.integer:
        return ctx.unary(lowering.op, *_integers(ctx, row, arguments, 1, node))
    if lowering.only:
        _count(ctx, row.name, arguments, 1, node, row.name + row.signature)
        return ctx.unary(lowering.op, coerce(ctx, arguments[0], DTYPES[lowering.only], _place(node, 0), f"the argument of {row.name}()"))
    (operand,) = _floats(ctx, row, arguments, 1, node)
    return ctx.unary(lowering.op, operand)


def _to_binary(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    lowering = row.lowering
    assert isinstance(lowering, table.ToBinary)
    return ctx.binary(lowering.op, *(_integers if lowering.integer else _floats)(ctx, row, arguments, 2, node))


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
    _count(ctx, row.name, arguments, len(row.parameters), node, row.name + row.signature)
    width = nodes.WARP_SIZE
    place = _place(node, 0, row.parameters[0][0])
    if lowering.kind == "vote":
        operands: tuple[nodes.ValueOp, ...] = (materialise(ctx, operators.truth(ctx, arguments[0], place), node),)
        of = U32 if lowering.mode == "ballot" else BOOL
    else:
        value = materialise(ctx, scalar(ctx, arguments[0], place, f"the value of {row.name}()"), place)
        _refuse_type(ctx, row, lowering, value.type, place)
        of = value.type if lowering.kind != "match" else U32 if lowering.mode == "any" else BOOL
        operands = (value,)
        if lowering.kind == "shuffle":
            amount = _place(node, 1, row.parameters[1][0])
            operands = (value, coerce(ctx, arguments[1], I64, amount, f"the second argument of {row.name}()"))
            width = _width(ctx, row, arguments[2], _place(node, 2, "width"))
    mask = _mask(ctx, row, arguments[-1], _place(node, len(row.parameters) - 1, "mask"))
    made = nodes.Exchange(location=ctx.location, type=of, name=row.name, arguments=operands, width=width, mask=mask)
    ctx.emit(made)
    return made


def _mask(ctx: Context, row: Intrinsic, value: Value, place: ast.AST) -> nodes.ValueOp | None:
    """The lanes that take part, None for all."""
    known = known_number(value)
    if known == _ALL_LANES:
        return None
    if known == 0:
        raise ctx.error(f"the mask of {row.name}() names no lane", place, "each lane that comes is in its mask")
    mask = coerce(ctx, value, U32, place, f"the mask of {row.name}()")
    # A lane outside its own mask would end the program on a GPU, so it takes part alone
    own = ctx.binary("shl", ctx.constant(U32, 1), ctx.cast(U32, ctx.special("lane_index")))
    named = ctx.compare("ne", ctx.binary("and", mask, own), ctx.constant(U32, 0))
    if ctx.asserts:
        ctx.emit(nodes.Assertion(location=ctx.location, condition=named, site=ctx.new_site("mask", row.name, None)))
    return ctx.select(named, mask, own)


def _refuse_type(ctx: Context, row: Intrinsic, lowering: table.ToExchange, of: DType, place: ast.AST) -> None:
    if of.is_bool and lowering.kind != "match":
        raise ctx.error(f"{row.name}() of a bool", place, "use warp_any, warp_all or warp_ballot, or convert it")
    if lowering.mode in ("and", "or", "xor") and not of.is_integer:
        raise ctx.error(f"{row.name}() takes integers, not {with_article(of)}", place, "take the bits of a float with float_bits(x)")


def _width(ctx: Context, row: Intrinsic, value: Value, place: ast.AST) -> int:
    width = known_number(value)
    if width in (2, 4, 8, 16, 32) and not isinstance(width, float):
        return int(width)
    what = describe(value) if width is None else str(width)
    raise ctx.error(
        f"the width of {row.name}() is one of 2, 4, 8, 16 and 32, known to the compiler; this is {what}",
        place,
        "use a literal, a captured number or a Const parameter",
    )


def _to_fence(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    lowering = row.lowering
    assert isinstance(lowering, table.ToFence)
    _count(ctx, row.name, arguments, 0, node, row.name + row.signature)
    ctx.emit(nodes.Fence(location=ctx.location, name=row.name, scope=lowering.scope))
    return Nothing()


def _to_clock(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, row.name, arguments, 0, node, row.name + row.signature)
    made = nodes.Clock(location=ctx.location, type=I64, name=row.name)
    ctx.emit(made)
    return made


def _to_sleep(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, row.name, arguments, 1, node, row.name + row.signature)
    time = coerce(ctx, arguments[0], U32, _place(node, 0, row.parameters[0][0]), f"the argument of {row.name}()")
    ctx.emit(nodes.Sleep(location=ctx.location, name=row.name, nanoseconds=time))
    return Nothing()


def _to_atomic(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, row.name, arguments, len(row.parameters), node, row.name + row.signature)
    places = {name: _place(node, position, name) for position, (name, _) in enumerate(row.parameters)}
    return atomics.build(ctx, row, dict(zip(places, arguments, strict=True)), places, node)


def _to_instruction(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, row.name, arguments, len(row.parameters), node, row.name + row.signature)
    places = {name: _place(node, position, name) for position, (name, _) in enumerate(row.parameters)}
    return instructions.build(ctx, row, dict(zip(places, arguments, strict=True)), places, node)


def _static_assert(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    _count(ctx, row.name, arguments, 2, node, row.name + row.signature)
    place = _place(node, 0, "condition")
    condition, message = operators.truth(ctx, arguments[0], place), arguments[1]
    if not isinstance(message, Text):
        raise ctx.error(f"the message of static_assert() is a string, not {describe(message)}", _place(node, 1, "message"), "write it out")
    known = known_number(condition)
    if known is None:
        hint = "use literals, captured numbers, Const parameters, types and shapes; `assert` checks what is known at run time only"
        raise ctx.error("the condition of static_assert() must be known to the compiler", place, hint)
    if not known:
        raise ctx.error(f"static assertion failed: {message.value}", node, f"`{ctx.text(place)}` must hold")
    return Nothing()


def _to_frontend(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    handler = row.lowering.handler  # type: ignore[union-attr]
    if handler in ("shared_array", "local_array"):
        ref = memory.new_array(ctx, handler.removesuffix("_array"), arguments, node)
        if isinstance(ref, ArrayRef):
            (structs if isinstance(ref.array.type, StructType) else memory).fill_registers(ctx, ref)
        return ref
    if handler == "shared_barriers":
        return memory.new_barriers(ctx, arguments, node)
    if handler == "as_vectors":
        _count(ctx, row.name, arguments, 2, node, row.name + row.signature)
        return vectors.as_vectors(ctx, arguments, [_place(node, i, name) for i, (name, _) in enumerate(row.parameters)], node)
    if handler == "static_assert":
        return _static_assert(ctx, row, arguments, node)
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
    table.ToAtomic: _to_atomic,
    table.ToFence: _to_fence,
    table.ToClock: _to_clock,
    table.ToSleep: _to_sleep,
    table.ToInstruction: _to_instruction,
    table.ToFrontend: _to_frontend,
}
