"""Slices of local arrays and of arrays in structs: `a[i, :]` and `a[0:4]` are tuples of elements along the last dimension, read and assigned as such."""

from __future__ import annotations

import ast

from kdsl.frontend import structs
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import items_of
from kdsl.frontend.values import ArrayRef, Group, Literal, Place, Value, describe, known_number
from kdsl.lang.struct_type import ArrayType


def is_slice(node: ast.Subscript) -> bool:
    """Whether a subscript has a slice in it."""
    return any(isinstance(part, ast.Slice) for part in _parts(node))


def load(ctx: Context, base: Value, node: ast.Subscript) -> Group:
    """The elements."""
    return Group(tuple(structs.load(ctx, base, place, node) for place in _places(ctx, base, node)))


def store(ctx: Context, base: Value, value: Value, node: ast.Subscript, value_node: ast.AST) -> None:
    """Assign to the elements, one by one."""
    places = _places(ctx, base, node)
    for place, item in zip(places, items_of(ctx, value, len(places), value_node), strict=True):
        structs.store(ctx, base, place, item, node, value_node)


def _parts(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _places(ctx: Context, base: Value, node: ast.Subscript) -> list[Group]:
    """The index of each element."""
    from kdsl.frontend.expressions import evaluate  # expressions contain slices, slices contain expressions

    *before, last = _parts(node)
    wrong = next((part for part in before if isinstance(part, ast.Slice)), None)
    sliced = _fixed(base)
    if sliced is None:
        part = wrong or last
        raise ctx.error(
            f"a slice of {describe(base)}: only local arrays and arrays in structs have them",
            part,
            "index single elements; pass a slice of the array to the launch instead",
        )
    shape, name = sliced
    if wrong is not None:
        raise ctx.error(f"a slice along another dimension of `{name}` than the last", wrong, "write the elements one by one")
    if len(before) + 1 != len(shape):
        raise ctx.error(f"`{name}` has {len(shape)} dimensions, not {len(before) + 1}", node.slice, f"its shape is {shape}")
    assert isinstance(last, ast.Slice)
    if last.step is not None:
        raise ctx.error("a slice with a step", last.step, "write the elements one by one")
    start, stop = (
        _bound(ctx, default if part is None else evaluate(ctx, part), name, shape[-1], part or last)
        for part, default in ((last.lower, Literal(0)), (last.upper, Literal(shape[-1])))
    )
    indices = tuple(evaluate(ctx, part) for part in before)
    return [Group((*indices, Literal(position))) for position in range(start, stop)]


def _fixed(base: Value) -> tuple[tuple[int, ...], str] | None:
    """Shape and name of an array that has slices."""
    if isinstance(base, ArrayRef) and base.array.space != "shared":
        return base.shape, base.array.name
    if isinstance(base, Place) and isinstance(base.type, ArrayType):
        return base.type.shape, base.label
    return None


def _bound(ctx: Context, value: Value, name: str, extent: int, node: ast.AST) -> int:
    bound = known_number(value)
    if not isinstance(bound, int) or isinstance(bound, bool):
        raise ctx.error(
            f"a bound of a slice is known to the compiler, and this is {describe(value)}",
            node,
            "use literals, captured numbers, Const parameters or the counter of an unroll",
        )
    if not 0 <= bound <= extent:
        raise ctx.error(f"{bound} is no bound of a slice of `{name}`, whose extent there is {extent}", node, f"bounds are 0 to {extent}")
    return bound
