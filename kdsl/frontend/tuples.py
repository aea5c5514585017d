"""What tuples do as wholes: comparison and membership, with Python's meaning. Construction, indexing and unpacking need no rules of their own."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from typing import Final, TypeAlias

from kdsl.frontend import operators
from kdsl.frontend.context import Context
from kdsl.frontend.values import Group, Literal, Value, describe
from kdsl.ir import nodes
from kdsl.lang.types import BOOL

Truth: TypeAlias = Literal | nodes.ValueOp
_ORDERS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def compare(ctx: Context, symbol: str, a: Value, b: Value, a_node: ast.AST, b_node: ast.AST, node: ast.AST) -> Truth:
    """`a symbol b` of tuples: by the first items that are not equal, or by their numbers of items if there are none."""
    if not isinstance(a, Group) or not isinstance(b, Group):
        raise ctx.error(f"{describe(a)} and {describe(b)} cannot be compared", node, "compare two tuples, or items of the tuple")
    count = min(len(a.items), len(b.items))
    places = zip(_places(a_node, a)[:count], _places(b_node, b)[:count], strict=True)
    pairs = [(x, y, *place) for x, y, place in zip(a.items, b.items, places, strict=False)]
    if symbol in ("==", "!="):
        result: Truth = Literal((len(a.items) == len(b.items)) == (symbol == "=="))
        connective = "and" if symbol == "==" else "or"
        for x, y, x_node, y_node in pairs:
            result = _joined(ctx, connective, result, operators.compare(ctx, symbol, x, y, x_node, y_node, node))
        return result
    result = Literal(_ORDERS[symbol](len(a.items), len(b.items)))
    for x, y, x_node, y_node in reversed(pairs):
        differ = operators.compare(ctx, "!=", x, y, x_node, y_node, node)
        result = _chosen(ctx, differ, operators.compare(ctx, symbol, x, y, x_node, y_node, node), result)
    return result


def contains(ctx: Context, item: Value, group: Group, item_node: ast.AST, group_node: ast.AST, node: ast.AST) -> Truth:
    """`item in group`: whether it equals one of the items."""
    result: Truth = Literal(False)
    for other, place in zip(group.items, _places(group_node, group), strict=True):
        result = _joined(ctx, "or", result, operators.compare(ctx, "==", item, other, item_node, place, node))
    return result


def _places(node: ast.AST, group: Group) -> Sequence[ast.AST]:
    """Where the items stand, if the tuple is written out; else all where it stands."""
    return node.elts if isinstance(node, ast.Tuple) and len(node.elts) == len(group.items) else [node] * len(group.items)


def _joined(ctx: Context, connective: str, a: Truth, b: Truth) -> Truth:
    """Both or either, with what is known left out."""
    for known, other in ((a, b), (b, a)):
        if isinstance(known, Literal):
            return other if known.value == (connective == "and") else known
    assert not isinstance(a, Literal)
    assert not isinstance(b, Literal)
    return ctx.binary(connective, a, b)


def _chosen(ctx: Context, condition: Truth, then: Truth, orelse: Truth) -> Truth:
    if isinstance(condition, Literal):
        return then if condition.value else orelse
    first, second = (ctx.constant(BOOL, side.value) if isinstance(side, Literal) else side for side in (then, orelse))
    return ctx.select(condition, first, second)
