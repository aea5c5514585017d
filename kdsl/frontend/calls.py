"""Calls: of element types, built-in functions, intrinsics (by their row in the table) and `@function`s."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from kdsl.frontend import arrays, atomics, caching, expand, geometry, instructions, operators, printing, structs, vectors
from kdsl.frontend.arguments import Evaluated, expect_count, place_of
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, convert, is_loose, join, scalar, type_of, with_article
from kdsl.frontend.either import either
from kdsl.frontend.exchanges import exchange
from kdsl.frontend.function import Function, Overloaded
from kdsl.frontend.python_functions import BUILTINS
from kdsl.frontend.values import ArrayRef, Builtin, Literal, Nothing, Number, Scalar, Text, Value, Vector, describe, known_number
from kdsl.ir import nodes
from kdsl.lang import intrinsics as table
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.struct_type import StructType
from kdsl.lang.types import DTYPES, F32, F64, I32, I64, U32, DType
from kdsl.lang.vectors import VectorType, vector_type


def call(ctx: Context, node: ast.Call) -> Value:
    """The value of a call."""
    from kdsl.frontend.expressions import condition, evaluate  # expressions contain calls, calls contain expressions

    callee = evaluate(ctx, node.func)
    if isinstance(callee, Builtin) and callee.name == "print":
        printing.call(ctx, node)
        return Nothing()
    asks = isinstance(callee, Builtin) and callee.name == "bool"
    positional = tuple(condition(ctx, a) if asks and isinstance(a, ast.BoolOp) else evaluate(ctx, a) for a in node.args)
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
        return _conversion(ctx, callee, positional, node) if isinstance(callee, DType) else BUILTINS[callee.name](ctx, positional, node)
    raise ctx.error(f"{describe(callee)} cannot be called", node.func, "a kernel calls @functions, types and what kdsl provides")


def _applies_to_numbers(callee: Value) -> bool:
    """Whether it is a function of the table, or of mathematics, that makes one number of numbers."""
    if isinstance(callee, Intrinsic):
        return isinstance(callee.lowering, table.ToUnary | table.ToBinary | table.ToFma | table.ToApproximation | table.ToBitcast)
    return isinstance(callee, Overloaded)


def _takes(callee: Value, of: DType) -> bool:
    """Whether a function that wants floats can be applied to numbers of a type."""
    if isinstance(callee, Overloaded):
        return of in callee.functions
    lowering = callee.lowering if isinstance(callee, Intrinsic) else None
    if isinstance(lowering, table.ToApproximation):
        return of.name in lowering.ptx
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


def _conversion(ctx: Context, to: DType, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, to.name, arguments, 1, node, f"{to}(x)")
    return convert(ctx, to, arguments[0], node.args[0])


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


def _special(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, row.name, arguments, 0, node, row.name + row.signature)
    name: Any = row.lowering.name  # type: ignore[union-attr]
    return ctx.special(name)


def _floats(ctx: Context, row: Intrinsic, arguments: Evaluated, count: int, node: ast.Call) -> tuple[nodes.ValueOp, ...]:
    """Operands of a function on floats, in their common type."""
    expect_count(ctx, row.name, arguments, count, node, row.name + row.signature)
    numbers = [scalar(ctx, value, place_of(node, i), f"an argument of {row.name}()") for i, value in enumerate(arguments)]
    for position, number in enumerate(numbers):
        of = type_of(number)
        if not of.is_float and not (is_loose(ctx, number) and not of.is_bool):
            text = ctx.text(place_of(node, position))
            raise ctx.error(
                f"{row.name}() takes floats, not {with_article(of)}", place_of(node, position), f"write {row.name}(f32({text}))"
            )
    common = F32 if is_loose(ctx, numbers[0]) else type_of(numbers[0])
    whole = numbers[0]
    for position, number in enumerate(numbers[1:], 1):
        common = join(ctx, row.name, whole, number, place_of(node, 0), place_of(node, position), node)
        if not is_loose(ctx, number):
            whole = number if type_of(number) is common else whole
    if not common.is_float:
        common = F32
    return tuple(coerce(ctx, number, common, place_of(node, i), f"an argument of {row.name}()") for i, number in enumerate(numbers))


def _integers(ctx: Context, row: Intrinsic, arguments: Evaluated, count: int, node: ast.Call) -> tuple[nodes.ValueOp, ...]:
    """Operands of a function on integers, in their common type."""
    expect_count(ctx, row.name, arguments, count, node, row.name + row.signature)
    numbers = [scalar(ctx, value, place_of(node, i), f"an argument of {row.name}()") for i, value in enumerate(arguments)]
    for position, number in enumerate(numbers):
        if not type_of(number).is_integer:
            place = place_of(node, position)
            raise ctx.error(
                f"{row.name}() takes integers, not {with_article(type_of(number))}", place, f"convert it, as in u32({ctx.text(place)})"
            )
    common = type_of(numbers[0])
    if count == 2:
        common = join(ctx, row.name, numbers[0], numbers[1], place_of(node, 0), place_of(node, 1), node)
    return tuple(coerce(ctx, number, common, place_of(node, i), f"an argument of {row.name}()") for i, number in enumerate(numbers))


def _to_unary(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    lowering = row.lowering
    assert isinstance(lowering, table.ToUnary)
    if lowering.integer:
        return ctx.unary(lowering.op, *_integers(ctx, row, arguments, 1, node))
    if lowering.only:
        expect_count(ctx, row.name, arguments, 1, node, row.name + row.signature)
        return ctx.unary(lowering.op, coerce(ctx, arguments[0], DTYPES[lowering.only], place_of(node, 0), f"the argument of {row.name}()"))
    (operand,) = _floats(ctx, row, arguments, 1, node)
    return ctx.unary(lowering.op, operand)


def _to_binary(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    lowering = row.lowering
    assert isinstance(lowering, table.ToBinary)
    return ctx.binary(lowering.op, *(_integers if lowering.integer else _floats)(ctx, row, arguments, 2, node))


def _to_fma(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    return ctx.fma(*_floats(ctx, row, arguments, 3, node))


def _to_ternary(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    lowering = row.lowering
    assert isinstance(lowering, table.ToTernary)
    expect_count(ctx, row.name, arguments, 3, node, row.name + row.signature)
    names = [name for name, _ in row.parameters]
    wanted = [U32, U32, U32]
    if lowering.op == "dot":
        for position, value in enumerate(arguments[:2]):
            number = scalar(ctx, value, place_of(node, position, names[position]), f"an argument of {row.name}()")
            wanted[position] = U32 if not is_loose(ctx, number) and type_of(number) is U32 else I32
        wanted[2] = I32 if I32 in wanted[:2] else U32
    operands = (
        coerce(ctx, value, of, place_of(node, position, name), f"`{name}` of {row.name}()")
        for position, (value, of, name) in enumerate(zip(arguments, wanted, names, strict=True))
    )
    return ctx.ternary(lowering.op, *operands)


def _to_scale(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    number, exponent = (scalar(ctx, value, place_of(node, i), f"an argument of {row.name}()") for i, value in enumerate(arguments))
    of = type_of(number)
    whole = coerce(ctx, exponent, I32 if of is F32 else I64, place_of(node, 1), f"an argument of {row.name}()")
    return ctx.scale(coerce(ctx, number, of, place_of(node, 0), f"an argument of {row.name}()"), whole)


def _to_approximation(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    from kdsl.mathematics.accurate import ACCURATE  # it is written in the language, so it needs the frontend

    lowering = row.lowering
    assert isinstance(lowering, table.ToApproximation)
    operands = _floats(ctx, row, arguments, len(row.parameters), node)
    of = operands[0].type
    if of.name not in lowering.ptx:
        texts = (ctx.text(place_of(node, i, name)) for i, (name, _) in enumerate(row.parameters))
        narrowed = f"{row.name}({', '.join(f'f32({text})' for text in texts)})"
        hint = f"there are none of f64: use what is accurate, or write {narrowed}" if of is F64 else f"write {narrowed}"
        raise ctx.error(f"{row.name}() is there for {', '.join(lowering.ptx)}, not for {of}", node, hint)

    def approximated() -> tuple[nodes.ValueOp]:
        made = nodes.Approximation(location=ctx.location, type=of, name=row.name, arguments=operands)
        ctx.emit(made)
        return (made,)

    return either(ctx, approximated, ACCURATE[row.name], operands, (of,), node, node)[0]


def _to_bitcast(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, row.name, arguments, 1, node, row.name + row.signature)
    takes = DTYPES[row.signature[1 : row.signature.index(")")].split(":")[1].strip()]
    value = coerce(ctx, arguments[0], takes, place_of(node, 0), f"the argument of {row.name}()")
    return ctx.bitcast(DTYPES[row.lowering.to], value)  # type: ignore[union-attr]


def _to_barrier(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, row.name, arguments, 0, node, row.name + row.signature)
    ctx.emit(nodes.Barrier(location=ctx.location))
    return Nothing()


def _to_fence(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    lowering = row.lowering
    assert isinstance(lowering, table.ToFence)
    expect_count(ctx, row.name, arguments, 1, node, row.name + row.signature)
    order = atomics.choice(ctx, row, "order", arguments[0], lowering.orders, place_of(node, 0, "order"))
    ctx.emit(nodes.Fence(location=ctx.location, name=row.name, scope=lowering.scope, order=order))
    return Nothing()


def _to_clock(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, row.name, arguments, 0, node, row.name + row.signature)
    made = nodes.Clock(location=ctx.location, type=I64, name=row.name)
    ctx.emit(made)
    return made


def _to_sleep(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, row.name, arguments, 1, node, row.name + row.signature)
    time = coerce(ctx, arguments[0], U32, place_of(node, 0, row.parameters[0][0]), f"the argument of {row.name}()")
    ctx.emit(nodes.Sleep(location=ctx.location, name=row.name, nanoseconds=time))
    return Nothing()


def _to_atomic(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, row.name, arguments, len(row.parameters), node, row.name + row.signature)
    places = {name: place_of(node, position, name) for position, (name, _) in enumerate(row.parameters)}
    caching.refuse_hints(ctx, row, arguments, list(places.values()))
    return atomics.build(ctx, row, dict(zip(places, arguments, strict=True)), places, node)


def _to_instruction(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, row.name, arguments, len(row.parameters), node, row.name + row.signature)
    places = {name: place_of(node, position, name) for position, (name, _) in enumerate(row.parameters)}
    caching.refuse_hints(ctx, row, arguments, list(places.values()))
    return instructions.build(ctx, row, dict(zip(places, arguments, strict=True)), places, node)


def _static_assert(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    expect_count(ctx, row.name, arguments, 2, node, row.name + row.signature)
    place = place_of(node, 0, "condition")
    condition, message = operators.truth(ctx, arguments[0], place), arguments[1]
    if not isinstance(message, Text):
        raise ctx.error(
            f"the message of static_assert() is a string, not {describe(message)}", place_of(node, 1, "message"), "write it out"
        )
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
        ref = arrays.new_array(ctx, handler.removesuffix("_array"), arguments, node)
        if isinstance(ref, ArrayRef):
            (structs if isinstance(ref.array.type, StructType) else arrays).fill_registers(ctx, ref)
        return ref
    if handler == "shared_barriers":
        return arrays.new_barriers(ctx, arguments, node)
    if handler == "as_vectors":
        expect_count(ctx, row.name, arguments, 2, node, row.name + row.signature)
        return vectors.as_vectors(ctx, arguments, [place_of(node, i, name) for i, (name, _) in enumerate(row.parameters)], node)
    if handler == "cached":
        expect_count(ctx, row.name, arguments, 3, node, row.name + row.signature)
        return caching.cached(ctx, row, arguments, [place_of(node, i, name) for i, (name, _) in enumerate(row.parameters)])
    if handler == "static_assert":
        return _static_assert(ctx, row, arguments, node)
    if handler == "unroll":
        raise ctx.error("unroll() stands only in `for … in unroll(…):`", node, "loop over it")
    expect_count(ctx, row.name, arguments, 0, node, row.name + row.signature)
    return geometry.INDICES[handler](ctx, node)


_INTRINSICS: Final[dict[type, Callable[[Context, Intrinsic, Evaluated, ast.Call], Value]]] = {
    table.ToSpecial: _special,
    table.ToUnary: _to_unary,
    table.ToBinary: _to_binary,
    table.ToFma: _to_fma,
    table.ToTernary: _to_ternary,
    table.ToScale: _to_scale,
    table.ToApproximation: _to_approximation,
    table.ToBitcast: _to_bitcast,
    table.ToBarrier: _to_barrier,
    table.ToExchange: exchange,
    table.ToAtomic: _to_atomic,
    table.ToFence: _to_fence,
    table.ToClock: _to_clock,
    table.ToSleep: _to_sleep,
    table.ToInstruction: _to_instruction,
    table.ToFrontend: _to_frontend,
}
