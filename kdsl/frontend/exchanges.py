"""Calls of lane exchanges: their modes, widths, masks and types."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from kdsl.frontend import operators, vectors
from kdsl.frontend.arguments import Evaluated, expect_count, place_of
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, materialise, scalar, with_article
from kdsl.frontend.values import Value, Vector, describe, known_number
from kdsl.ir import nodes
from kdsl.lang import intrinsics as table
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.types import BOOL, DTYPES, I64, U32, DType

_ALL_LANES: Final = 0xFFFFFFFF


def exchange(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> Value:
    """The value of a call of a row that becomes an `Exchange`."""
    lowering = row.lowering
    assert isinstance(lowering, table.ToExchange)
    expect_count(ctx, row.name, arguments, len(row.parameters), node, row.name + row.signature)
    place = place_of(node, 0, row.parameters[0][0])
    if lowering.kind == "shuffle":
        return _shuffle(ctx, row, arguments, place, node)
    if lowering.kind == "vote":
        operands: tuple[nodes.ValueOp, ...] = (materialise(ctx, operators.truth(ctx, arguments[0], place), node),)
        of = U32 if lowering.mode == "ballot" else BOOL
    else:
        value = materialise(ctx, scalar(ctx, arguments[0], place, f"the value of {row.name}()"), place)
        _refuse_type(ctx, row, lowering, value.type, place)
        of = value.type if lowering.kind != "match" else U32 if lowering.mode == "any" else BOOL
        operands = (value,)
    made = nodes.Exchange(location=ctx.location, type=of, name=row.name, arguments=operands, mask=_mask(ctx, row, arguments, node))
    ctx.emit(made)
    return made


def _shuffle(ctx: Context, row: Intrinsic, arguments: Evaluated, place: ast.AST, node: ast.Call) -> Value:
    """A number or a vector of another lane."""
    given = vectors.number(ctx, arguments[0], place, f"the value of {row.name}()")
    value = given if isinstance(given, Vector) else materialise(ctx, given, place)
    amount = coerce(ctx, arguments[1], I64, place_of(node, 1, row.parameters[1][0]), f"the second argument of {row.name}()")
    width = _width(ctx, row, arguments[2], place_of(node, 2, "width"))
    mask = _mask(ctx, row, arguments, node)

    def moved(number: nodes.ValueOp) -> nodes.ValueOp:
        made = nodes.Exchange(location=ctx.location, type=number.type, name=row.name, arguments=(number, amount), width=width, mask=mask)
        ctx.emit(made)
        return made

    return _in_words(ctx, value, moved) if isinstance(value, Vector) else moved(value)


def _in_words(ctx: Context, vector: Vector, moved: Callable[[nodes.ValueOp], nodes.ValueOp]) -> Vector:
    """A vector whose numbers are moved one by one, those of 8 and 16 bits together in words of 32: the hardware moves a word at a time."""
    of, bits = vector.type.element, vector.type.element.bits
    if bits >= U32.bits:
        return Vector(vector.type, tuple(map(moved, vector.items)))
    raw = DTYPES[f"u{bits}"]
    numbers: list[nodes.ValueOp] = []
    for first in range(0, vector.type.lanes, U32.bits // bits):
        items = vector.items[first : first + U32.bits // bits]
        word, *others = (ctx.cast(U32, ctx.bitcast(raw, item) if of.is_float else ctx.cast(raw, item)) for item in items)
        for place, other in enumerate(others, 1):
            word = ctx.binary("or", word, ctx.binary("shl", other, ctx.constant(U32, place * bits)))
        word = moved(word)
        for place in range(len(items)):
            part = ctx.cast(raw, ctx.binary("shr", word, ctx.constant(U32, place * bits)) if place else word)
            numbers.append(ctx.bitcast(of, part) if of.is_float else ctx.cast(of, part))
    return Vector(vector.type, tuple(numbers))


def _mask(ctx: Context, row: Intrinsic, arguments: Evaluated, node: ast.Call) -> nodes.ValueOp | None:
    """The lanes that take part, None for all."""
    value, place = arguments[-1], place_of(node, len(row.parameters) - 1, "mask")
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
