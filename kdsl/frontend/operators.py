"""Operators of Python on numbers: their types, what folds, what fuses. One meaning, decided here; no backend decides anything."""

from __future__ import annotations

import ast
import math
import operator as python
from collections.abc import Callable
from typing import Any, Final

from kdsl.frontend import expand
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, convert, is_loose, join, scalar, type_of, with_article
from kdsl.frontend.values import (
    LARGEST_LITERAL,
    Group,
    Literal,
    LiteralChoice,
    Number,
    Record,
    Scalar,
    Value,
    Vector,
    as_type,
    describe,
    known_number,
)  # fmt: skip
from kdsl.frontend.vectors import elementwise, number
from kdsl.ir import nodes
from kdsl.lang.types import BOOL, F32, U8, DType, promote
from kdsl.lang.vectors import VectorType

SYMBOLS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not",
}  # fmt: skip
_BINARY: Final[dict[str, str]] = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod",
    "<<": "shl", ">>": "shr", "&": "and", "|": "or", "^": "xor", "min": "min", "max": "max",
}  # fmt: skip
_COMPARE: Final[dict[str, nodes.CompareName]] = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_FOLD: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": python.add, "-": python.sub, "*": python.mul, "/": python.truediv, "//": python.floordiv, "%": python.mod,
    "<<": python.lshift, ">>": python.rshift, "&": python.and_, "|": python.or_, "^": python.xor, "min": min, "max": max,
}  # fmt: skip
_LARGEST_POWER: Final = 16
"""Up to here `x ** n` of a float for a literal n is a chain of products, which is off by at most n / 2 ulp; beyond, `pow` is closer."""


def binary(ctx: Context, symbol: str, a: Value, b: Value, a_node: ast.AST, b_node: ast.AST, node: ast.AST) -> Number:
    """`a symbol b` for every binary operator, and for `min` and `max`; of vectors number by number."""
    x, y = (number(ctx, value, place, f"an operand of `{symbol}`") for value, place in ((a, a_node), (b, b_node)))
    if isinstance(x, Vector) or isinstance(y, Vector):
        return elementwise(
            ctx, symbol, (x, y), (a_node, b_node), node, lambda left, right: _binary(ctx, symbol, left, right, a_node, b_node, node)
        )
    return _binary(ctx, symbol, x, y, a_node, b_node, node)


def _binary(ctx: Context, symbol: str, a: Scalar, b: Scalar, a_node: ast.AST, b_node: ast.AST, node: ast.AST) -> Scalar:
    if symbol == "**":
        return power(ctx, a, b, a_node, b_node, node)
    if isinstance(a, Literal) and isinstance(b, Literal):
        return _fold(ctx, symbol, a, b, a_node, b_node, node)
    common = join(ctx, symbol, a, b, a_node, b_node, node)
    _check(ctx, symbol, common, b, a_node, b_node, node)
    left, right = coerce(ctx, a, common, a_node), coerce(ctx, b, common, b_node)
    with ctx.of_a_type((a, b)):
        if symbol in ("//", "%") and common.is_float:
            return _float_division(ctx, symbol, left, right, node)
        return ctx.binary(_BINARY[symbol], left, right)


def _operand(ctx: Context, symbol: str, value: Value, node: ast.AST) -> Scalar:
    return scalar(ctx, value, node, f"an operand of `{symbol}`")


def _check(ctx: Context, symbol: str, common: DType, b: Scalar, a_node: ast.AST, b_node: ast.AST, node: ast.AST) -> None:
    """Refuse an operator that its type does not have, and right operands that are certainly wrong."""
    if common.is_bool and symbol not in ("&", "|", "^"):
        raise ctx.error(f"`{symbol}` of two bools", node, f"convert them, as in i32({ctx.text(a_node)}), or use `and`, `or`, `!=`")
    if common.is_float and symbol in ("<<", ">>", "&", "|", "^"):
        raise ctx.error(
            f"`{symbol}` of {with_article(common)}", node, "only integers have bits to work on; float_bits(x) gives those of an f32"
        )
    if common.is_integer and symbol == "/":
        floats = f"f32({ctx.text(a_node)}) / f32({ctx.text(b_node)})"
        raise ctx.error(f"`/` of integers ({common})", node, f"write `//` for the integer quotient, or convert: {floats}")
    known = known_number(b)
    if known is None or not common.is_integer:
        return
    if symbol in ("//", "%") and known == 0:
        raise ctx.error(f"`{symbol}` by zero", node, "the divisor is always 0 here")
    if symbol in ("<<", ">>") and not 0 <= known < common.bits:
        raise ctx.error(f"a shift of {with_article(common)} by {known}", node, f"shift by 0 to {common.bits - 1}")


def _fold(ctx: Context, symbol: str, a: Literal, b: Literal, a_node: ast.AST, b_node: ast.AST, node: ast.AST) -> Scalar:
    """Two literals give a literal, by Python's own arithmetic (exact integers)."""
    x, y = a.value, b.value
    if isinstance(x, bool) or isinstance(y, bool):
        if isinstance(x, bool) and isinstance(y, bool) and symbol in ("&", "|", "^"):
            return Literal(_FOLD[symbol](x, y))
        raise ctx.error(f"`{symbol}` of a bool", node, "True and False are no numbers; write 1 and 0")
    if isinstance(x, int) and isinstance(y, int):
        if symbol == "/":
            raise ctx.error("`/` of integers", node, f"write `//` for the integer quotient, or {float(x)!r} / {float(y)!r}")
        if symbol in ("//", "%") and y == 0:
            raise ctx.error(f"`{symbol}` by zero", node, "the divisor is always 0 here")
        if symbol in ("<<", ">>") and not 0 <= y < 64:
            raise ctx.error(f"a shift by {y}", node, "shift by 0 to 63")
    elif symbol in ("<<", ">>", "&", "|", "^"):
        raise ctx.error(f"`{symbol}` of a float", node, "only integers have bits to work on")
    elif y == 0 and symbol in ("/", "//", "%"):
        raise ctx.error(f"`{symbol}` of two literals, the second of them zero", node, 'write f32("inf") or f32("nan") if that is meant')
    if symbol in ("min", "max") and isinstance(x, float) != isinstance(y, float):
        x, y = float(x), float(y)
    return Literal(_limited(ctx, _FOLD[symbol](x, y), node))


def _limited(ctx: Context, value: Any, node: ast.AST) -> Any:
    if isinstance(value, int) and value.bit_length() > LARGEST_LITERAL:
        raise ctx.error("a literal of more digits than any type holds", node, "use floats, or a smaller number")
    return value


def fused(
    ctx: Context,
    symbol: str,
    product: tuple[Number, Number, ast.BinOp],
    other: Number,
    other_node: ast.AST,
    product_is_left: bool,
    node: ast.AST,
) -> Number:
    """A sum or difference with a product as a direct operand: one rounding for floats (`a * b + c`, `c - a * b`), as usual for everything else."""
    a, b, product_node = product
    if isinstance(a, Vector) or isinstance(b, Vector) or isinstance(other, Vector):

        def of_numbers(x: Scalar, y: Scalar, z: Scalar) -> Scalar:
            return _fused(ctx, symbol, (x, y, product_node), z, other_node, product_is_left, node)

        what = "*" if isinstance(a, Vector) or isinstance(b, Vector) else symbol
        return elementwise(ctx, what, (a, b, other), (product_node.left, product_node.right, other_node), node, of_numbers)
    return _fused(ctx, symbol, (a, b, product_node), other, other_node, product_is_left, node)


def _fused(
    ctx: Context,
    symbol: str,
    product: tuple[Scalar, Scalar, ast.BinOp],
    other: Scalar,
    other_node: ast.AST,
    product_is_left: bool,
    node: ast.AST,
) -> Scalar:
    a, b, product_node = product
    if isinstance(a, Literal) and isinstance(b, Literal):
        return _unfused(ctx, symbol, product, other, other_node, product_is_left, node)
    common = join(ctx, "*", a, b, product_node.left, product_node.right, product_node)
    if is_loose(ctx, a) and is_loose(ctx, b) and not is_loose(ctx, other) and type_of(other).is_float:
        common = type_of(other)
    # a product that is narrower than the sum is rounded on the way, so that it cannot fuse
    if common.is_float and (is_loose(ctx, other) or promote(common, type_of(other)) is common):
        x, y = coerce(ctx, a, common, product_node.left), coerce(ctx, b, common, product_node.right)
        z = coerce(ctx, other, common, other_node)
        if symbol == "-":
            x, z = (x, ctx.unary("neg", z)) if product_is_left else (ctx.unary("neg", x), z)
        with ctx.of_a_type((a, b, other)):
            return ctx.fma(x, y, z)
    return _unfused(ctx, symbol, product, other, other_node, product_is_left, node)


def _unfused(
    ctx: Context,
    symbol: str,
    product: tuple[Scalar, Scalar, ast.BinOp],
    other: Scalar,
    other_node: ast.AST,
    product_is_left: bool,
    node: ast.AST,
) -> Scalar:
    """The product, and then the sum or difference."""
    a, b, product_node = product
    with ctx.at(product_node):
        whole = _binary(ctx, "*", a, b, product_node.left, product_node.right, product_node)
    if product_is_left:
        return _binary(ctx, symbol, whole, other, product_node, other_node, node)
    return _binary(ctx, symbol, other, whole, other_node, product_node, node)


def power(ctx: Context, a: Scalar, b: Scalar, a_node: ast.AST, b_node: ast.AST, node: ast.AST) -> Scalar:
    """`a ** b`: products for a known integer exponent (binary, lowest bit first), a loop for an integer one at run time, `pow` for the rest."""
    exponent = known_number(b)
    if type_of(a).is_bool or type_of(b).is_bool:
        raise ctx.error("`**` of a bool", node, "convert it, as in i32(flag)")
    if isinstance(a, Literal) and isinstance(b, Literal):
        return _literal_power(ctx, a.value, b.value, node)
    of = type_of(b) if is_loose(ctx, a) and not is_loose(ctx, b) else type_of(a)
    if of.is_integer and type_of(a).is_float:
        of = type_of(a)
    if of.is_integer:
        if type_of(b).is_float:
            raise ctx.error(f"{with_article(of)} to a power that is not an integer", node, f"convert the base: f32({ctx.text(a_node)})")
        if exponent is not None:
            if exponent < 0:
                raise ctx.error("an integer to a negative power", node, f"convert the base: f32({ctx.text(a_node)}) ** {exponent}")
            return _products(ctx, coerce(ctx, a, of, a_node), int(exponent))
        return expand.library_call(ctx, "integer_power", (coerce(ctx, a, of, a_node), coerce(ctx, b, type_of(b), b_node)), node)
    left = coerce(ctx, a, of, a_node)
    if exponent is not None and float(exponent).is_integer() and abs(exponent) <= _LARGEST_POWER:
        whole = _products(ctx, left, abs(int(exponent)))
        return ctx.binary("div", ctx.constant(of, 1), whole) if exponent < 0 else whole
    if type_of(b).is_integer and not isinstance(b, Literal):
        raise ctx.error(
            f"{with_article(of)} to an integer power that is known only at run time",
            node,
            f"write {of}({ctx.text(b_node)}) as the exponent",
        )
    right = coerce(ctx, b, of, b_node)
    if of.is_narrow_float:
        left, right = ctx.cast(F32, left), ctx.cast(F32, right)
    return ctx.cast(of, expand.mathematics_call(ctx, "pow", (left, right), node, "`**`", "multiply in a loop, or use sqrt(x) for x ** 0.5"))


def _literal_power(ctx: Context, base: bool | int | float, exponent: bool | int | float, node: ast.AST) -> Literal:
    if isinstance(base, int) and isinstance(exponent, int):
        if exponent < 0:
            raise ctx.error("an integer to a negative power", node, f"write {float(base)!r} ** {exponent}")
        if base.bit_length() * exponent > LARGEST_LITERAL:
            raise ctx.error("a literal of more digits than any type holds", node, "use floats, or a smaller number")
        return Literal(base**exponent)
    try:
        value = math.pow(base, exponent)
    except (ValueError, OverflowError):
        raise ctx.error(f"{base} ** {exponent} is not a finite number", node, 'write f32("inf") or f32("nan") if that is meant') from None
    return Literal(value)


def _products(ctx: Context, base: nodes.ValueOp, exponent: int) -> nodes.ValueOp:
    result: nodes.ValueOp | None = None
    square = base
    while exponent:
        if exponent & 1:
            result = square if result is None else ctx.binary("mul", result, square)
        exponent >>= 1
        if exponent:
            square = ctx.binary("mul", square, square)
    return ctx.constant(base.type, 1) if result is None else result


def _float_division(ctx: Context, symbol: str, a: nodes.ValueOp, b: nodes.ValueOp, node: ast.AST) -> Scalar:
    of = a.type
    if of.is_narrow_float:  # quotients of more bits than the type has would be wrong before they are rounded
        a, b = ctx.cast(F32, a), ctx.cast(F32, b)
    name = "floor_divide" if symbol == "//" else "modulo"
    result = expand.mathematics_call(ctx, name, (a, b), node, f"`{symbol}`", "convert both to f32 or f64")
    return ctx.cast(of, result)


def unary(ctx: Context, symbol: str, value: Value, value_node: ast.AST, node: ast.AST) -> Number:
    """`-x`, `+x`, `~x` (for `not` see `truth`); of a vector number by number."""
    if isinstance(value, Vector):
        return elementwise(ctx, symbol, (value,), (value_node,), node, lambda x: unary(ctx, symbol, x, value_node, node))
    x = _operand(ctx, symbol, value, value_node)
    of = type_of(x)
    if of.is_bool:
        raise ctx.error(f"`{symbol}` of a bool", node, "write `not`" if symbol == "~" else f"convert it, as in i32({ctx.text(value_node)})")
    if symbol == "~" and of.is_float:
        raise ctx.error(f"`~` of {with_article(of)}", node, "only integers have bits to work on")
    if symbol == "+":
        return x
    if isinstance(x, Literal):
        return Literal(-x.value if symbol == "-" else ~int(x.value))
    if isinstance(x, LiteralChoice):
        x = coerce(ctx, x, of, value_node)
    return ctx.unary("neg" if symbol == "-" else "invert", x)


def absolute(ctx: Context, value: Value, value_node: ast.AST, node: ast.AST) -> Number:
    """`abs(x)`; of a vector number by number."""
    if isinstance(value, Vector):
        return elementwise(ctx, "abs", (value,), (value_node,), node, lambda x: absolute(ctx, x, value_node, node))
    x = scalar(ctx, value, value_node, "the argument of abs()")
    if type_of(x).is_bool:
        raise ctx.error("abs() of a bool", node, f"convert it, as in i32({ctx.text(value_node)})")
    if isinstance(x, Literal):
        return Literal(abs(x.value))
    if type_of(x).kind == "unsigned":
        return x
    return ctx.unary("abs", coerce(ctx, x, type_of(x), value_node))


def compare(ctx: Context, symbol: str, a: Value, b: Value, a_node: ast.AST, b_node: ast.AST, node: ast.AST) -> Literal | nodes.ValueOp:
    """`a symbol b` for the six comparisons of numbers and of tuples; types can be compared for equality."""
    a, b = as_type(a), as_type(b)
    if isinstance(a, Group) or isinstance(b, Group):
        from kdsl.frontend import tuples  # tuples are compared item by item

        return tuples.compare(ctx, symbol, a, b, a_node, b_node, node)
    for value, place in ((a, a_node), (b, b_node)):
        if isinstance(value, Record) and value.struct is not None:
            first = min(value.struct.numbers, key=lambda number: len(number.shape))
            hint = f"compare fields, such as {ctx.text(place)}.{first.path}"
            raise ctx.error(f"`{symbol}` of {describe(value)}: structs are not compared", node, hint)
    if isinstance(a, DType | VectorType) and isinstance(b, DType | VectorType) and symbol in ("==", "!="):
        return Literal((a is b) == (symbol == "=="))
    if isinstance(a, Vector) or isinstance(b, Vector):
        text = ctx.text(a_node if isinstance(a, Vector) else b_node)
        raise ctx.error(f"vectors are not compared with `{symbol}`", node, f"compare numbers, such as {text}[0]")
    if isinstance(a, DType | VectorType) or isinstance(b, DType | VectorType):
        raise ctx.error(
            f"{describe(a)} and {describe(b)} cannot be compared with `{symbol}`", node, "compare two types, such as x.dtype == f32"
        )
    x, y = _operand(ctx, symbol, a, a_node), _operand(ctx, symbol, b, b_node)
    if isinstance(x, Literal) and isinstance(y, Literal):
        if isinstance(x.value, bool) != isinstance(y.value, bool):
            raise ctx.error(f"`{symbol}` of a bool and a number", node, "write 1 and 0 for True and False")
        return Literal({"<": x.value < y.value, "<=": x.value <= y.value, ">": x.value > y.value, ">=": x.value >= y.value}.get(
            symbol, (x.value == y.value) == (symbol == "==")
        ))  # fmt: skip
    common = join(ctx, symbol, x, y, a_node, b_node, node)
    left, right = coerce(ctx, x, common, a_node), coerce(ctx, y, common, b_node)
    if common is BOOL and symbol not in ("==", "!="):
        left, right = ctx.cast(U8, left), ctx.cast(U8, right)  # False is below True
    return ctx.compare(_COMPARE[symbol], left, right)


def truth(ctx: Context, value: Value, node: ast.AST) -> Literal | nodes.ValueOp:
    """Whether a value counts as true: a number is, unless it is 0."""
    if not isinstance(value, Literal | LiteralChoice | nodes.ValueOp):
        hint = (
            f"compare its numbers, such as {ctx.text(node)}[0] > 0"
            if isinstance(value, Vector)
            else "compare something, such as len(y) > 0"
        )
        raise ctx.error(f"{describe(value)} is neither true nor false", node, hint)
    if isinstance(value, Literal):
        return Literal(bool(value.value))
    if isinstance(value, nodes.Constant):
        return Literal(bool(value.value))
    if isinstance(value, LiteralChoice):
        return convert(ctx, BOOL, value, node)
    return value if value.type is BOOL else ctx.compare("ne", value, ctx.constant(value.type, 0))


def negate(ctx: Context, value: Literal | nodes.ValueOp) -> Literal | nodes.ValueOp:
    """`not value`, of a truth value."""
    return Literal(not value.value) if isinstance(value, Literal) else ctx.unary("not", value)
