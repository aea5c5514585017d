"""Types of operands: literals take the type they meet, numbers convert unasked only where no value can be lost, `T(x)` converts what is asked."""

from __future__ import annotations

import ast
import math

from kdsl.frontend.context import Context
from kdsl.frontend.values import (
    ArrayRef,
    Group,
    Literal,
    LiteralChoice,
    Nothing,
    Record,
    Scalar,
    Text,
    Value,
    Vector,
    ViewRef,
    default_type,
    describe,
)  # fmt: skip
from kdsl.ir import nodes
from kdsl.lang.intrinsics import IndexTriple
from kdsl.lang.struct_type import StructType
from kdsl.lang.types import BOOL, F32, I64, DType, can_convert_implicitly, convert_constant, promote, round_float
from kdsl.lang.vectors import VectorType


def scalar(ctx: Context, value: Value, node: ast.AST, purpose: str = "") -> Scalar:
    """The value, which must be a number."""
    if isinstance(value, Literal | LiteralChoice | nodes.ValueOp):
        return value
    raise ctx.error(f"{purpose or 'this'} must be a number, not {describe(value)}", node, _towards_number(ctx, value, node))


def _towards_number(ctx: Context, value: Value, node: ast.AST) -> str:
    """How to come from a value that is no number to one."""
    match value:
        case ViewRef() | ArrayRef():
            return f"name an element, such as {ctx.text(node)}[i]"
        case Group():
            return "use its items one by one"
        case Vector():
            return f"use its numbers one by one, {ctx.text(node)}[0] to {ctx.text(node)}[{value.type.lanes - 1}]"
        case Record():
            return f"use one of its fields: {', '.join(value.fields)}"
        case IndexTriple():
            return f"write {value.name}.x, {value.name}.y or {value.name}.z"
        case Text():
            return 'kernels compute with numbers; f32("inf"), f32("-inf") and f32("nan") are the only use of strings'
        case Nothing():
            return "nothing comes back from here; return a value"
        case StructType():
            return f"make one with {value}({', '.join(value.by_name)}), and use one of its fields"
        case DType() | VectorType():
            return f"call it to convert, as in {value}(x)"
        case _:
            return "call it, if it is a function"


def is_loose(ctx: Context, value: Scalar) -> bool:
    """Whether the value takes the type of what it meets. (True and False are of type bool.)"""
    if isinstance(value, nodes.ValueOp):
        return value in ctx.weak
    return default_type(value) is not BOOL


def type_of(value: Scalar) -> DType:
    """The type of a number; of a literal, the one that it has alone."""
    return value.type if isinstance(value, nodes.ValueOp) else default_type(value)


def materialise(ctx: Context, value: Scalar, node: ast.AST) -> nodes.ValueOp:
    """The number with the type that it has alone."""
    return value if isinstance(value, nodes.ValueOp) else coerce(ctx, value, default_type(value), node)


def coerce(ctx: Context, value: Value, to: DType, node: ast.AST, purpose: str = "") -> nodes.ValueOp:
    """The number as a `to`, by the conversions that happen unasked; `purpose` says in errors what wants it."""
    value = scalar(ctx, value, node, purpose)
    for_what = f" ({purpose} is {to})" if purpose else ""
    if isinstance(value, Literal):
        return _literal(ctx, value, to, node, for_what)
    if isinstance(value, LiteralChoice):
        return ctx.select(value.condition, coerce(ctx, value.then, to, node, purpose), coerce(ctx, value.orelse, to, node, purpose))
    if value.type is to:
        return value
    if value in ctx.weak:
        ctx.decisions.adapted = True
        return ctx.cast(to, value)
    if can_convert_implicitly(value.type, to):
        return ctx.cast(to, value)
    text = ctx.text(node)
    raise ctx.error(
        f"{with_article(value.type)} does not become {with_article(to)} by itself{for_what}: {_why(value.type, to)}",
        node,
        f"write {to}({text})",
    )


def _why(source: DType, to: DType) -> str:
    if source.is_bool or to.is_bool:
        return "a bool and a number are different things"
    return f"not every {source} is {with_article(to)}"


def with_article(type: DType | VectorType) -> str:
    """The name of a type with its article: "an f32", "a u8"."""
    return f"an {type}" if type.name[0] in "fi" else f"a {type}"


def _literal(ctx: Context, literal: Literal, to: DType, node: ast.AST, for_what: str) -> nodes.ValueOp:
    value = literal.value
    if isinstance(value, bool) or to.is_bool:
        if isinstance(value, bool) and to.is_bool:
            return ctx.constant(BOOL, value)
        right = f"write {to}({ctx.text(node)})" if isinstance(value, bool) else f"write {bool(value)}"
        raise ctx.error(f"{value} is not {with_article(to)}{for_what}", node, right)
    if isinstance(value, int):
        if to.is_integer:
            if to.minimum <= value <= to.maximum:
                return ctx.constant(to, value)
            raise ctx.error(
                f"{value} does not fit {with_article(to)}{for_what}, which holds {to.minimum} to {to.maximum}", node, "use a wider type"
            )
        rounded = round_float(to, value)
        if math.isinf(rounded) or int(rounded) != value:
            raise ctx.error(f"no {to} is exactly {value}{for_what}", node, f"write it as a float, {float(value)!r}, to have it rounded")
        return ctx.constant(to, rounded)
    if to.is_float:
        rounded = round_float(to, value)
        if math.isinf(rounded) and not math.isinf(value):
            raise ctx.error(f"{value} is too large for {with_article(to)}{for_what}", node, f'use a wider type, or {to}("inf")')
        return ctx.constant(to, rounded)
    whole = f"{int(value)}, or " if value.is_integer() else ""
    raise ctx.error(
        f"the float {value} is not {with_article(to)}{for_what}",
        node,
        f"write {whole}{to}({value}); or convert the integer beside it, as in f32(n)",
    )


def join(ctx: Context, operator: str, a: Scalar, b: Scalar, a_node: ast.AST, b_node: ast.AST, node: ast.AST) -> DType:
    """The type in which two numbers meet."""
    a_type, b_type = type_of(a), type_of(b)
    if is_loose(ctx, a) and is_loose(ctx, b):
        return F32 if a_type.is_float or b_type.is_float else promote(a_type, b_type) or I64
    if is_loose(ctx, a) or is_loose(ctx, b):
        weak, loose, fixed, beside = (a, a_type, b_type, b_node) if is_loose(ctx, a) else (b, b_type, a_type, a_node)
        if fixed.is_bool:
            raise ctx.error(f"`{operator}` of a bool and a number", node, f"write {loose}({ctx.text(beside)})")
        if loose.is_float and fixed.is_integer:
            common = promote(loose, fixed)
            if isinstance(weak, nodes.ValueOp) and common is not None:
                return common  # a name of float literals will be of some float type, and meets an integer as that does
            raise ctx.error(
                f"`{operator}` of {with_article(fixed)} and a float literal", node, f"write f32({ctx.text(beside)}) to compute with floats"
            )
        return fixed
    common = promote(a_type, b_type)
    if common is not None:
        return common
    raise ctx.error(*_no_common(ctx, operator, a_type, b_type, a_node, b_node, node))


def _no_common(
    ctx: Context, operator: str, a: DType, b: DType, a_node: ast.AST, b_node: ast.AST, node: ast.AST
) -> tuple[str, ast.AST, str]:
    message = f"`{operator}` of {with_article(a)} and {with_article(b)}"
    if a.is_bool or b.is_bool:
        number, flag = (b, a_node) if a.is_bool else (a, b_node)
        return f"{message}: a bool is not a number", node, f"write {number}({ctx.text(flag)})"
    if a.is_float != b.is_float:
        real, whole, beside = (a, b, b_node) if a.is_float else (b, a, a_node)
        return f"{message}: not every {whole} is {with_article(real)}", node, f"write {real}({ctx.text(beside)})"
    unsigned = b_node if a.is_signed else a_node  # a u64: every narrower one becomes a signed integer by itself
    return f"{message}: no type holds all values of both", node, f"write i64({ctx.text(unsigned)})"


def convert(ctx: Context, to: DType, value: Value, node: ast.AST) -> nodes.ValueOp:
    """What `to(value)` is: a conversion that was asked for."""
    if isinstance(value, Text):
        return _from_text(ctx, to, value, node)
    value = scalar(ctx, value, node, f"the argument of {to}()")
    if isinstance(value, Literal):
        if isinstance(value.value, int) and not isinstance(value.value, bool) and to.is_integer:
            return coerce(ctx, value, to, node)  # a literal that does not fit is a mistake, not a wish to wrap
        return ctx.constant(to, convert_constant(to, value.value))
    if isinstance(value, LiteralChoice):
        return ctx.select(value.condition, convert(ctx, to, value.then, node), convert(ctx, to, value.orelse, node))
    if value in ctx.weak and value.type is not to:
        ctx.decisions.adapted = True
    return ctx.cast(to, value)


def _from_text(ctx: Context, to: DType, value: Text, node: ast.AST) -> nodes.ValueOp:
    if not to.is_float:
        raise ctx.error(f"{to}() takes a number, not a string", node, "only a float can be named by a string: inf, -inf, nan")
    try:
        number = float(value.value)
    except ValueError:
        raise ctx.error(f"{value.value!r} is not a float", node, 'such as f32("inf"), f32("-inf") or f32("nan")') from None
    return ctx.constant(to, round_float(to, number))


def index(ctx: Context, value: Value, node: ast.AST, purpose: str) -> nodes.ValueOp:
    """The number as an i64, for an index or a bound of a loop."""
    number = scalar(ctx, value, node, purpose)
    of = type_of(number)
    if of.is_float or of.is_bool:
        raise ctx.error(f"{purpose} must be an integer, not {with_article(of)}", node, f"write i64({ctx.text(node)})")
    return coerce(ctx, number, I64, node, purpose)


def items_of(ctx: Context, value: Value, count: int, node: ast.AST) -> tuple[Value, ...]:
    """The items of a tuple or vector that is taken apart into `count` names."""
    if not isinstance(value, Group | Vector):
        raise ctx.error(f"{describe(value)} cannot be taken apart into {count} names", node, "only a tuple or a vector can")
    if len(value.items) != count:
        raise ctx.error(
            f"{len(value.items)} values cannot be assigned to {count} names", node, "the numbers of values and names must agree"
        )
    return value.items
