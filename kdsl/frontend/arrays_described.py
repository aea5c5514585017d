"""What may be asked of an array as a whole: its length, its shape and element type, and whether an index is one of it."""

from __future__ import annotations

import ast
import dataclasses

from kdsl.frontend import vectors
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import index
from kdsl.frontend.guards import extents_of, is_shared
from kdsl.frontend.values import ArrayRef, BarrierRef, Group, Literal, MapRef, RemoteRef, Value, Vector, ViewRef, describe
from kdsl.ir import nodes
from kdsl.lang.limits import SHARED_BYTES
from kdsl.lang.struct_type import StructType
from kdsl.lang.types import I64


def length(ctx: Context, value: Value, node: ast.AST) -> Value:
    """`len(value)`."""
    if isinstance(value, RemoteRef):
        value = value.own
    if isinstance(value, ViewRef):
        return vectors.extent(ctx, value, 0)
    if isinstance(value, MapRef):
        return ctx.length(value.map)
    if isinstance(value, BarrierRef):
        return Literal(value.array.shape[0])
    if isinstance(value, ArrayRef):
        return Literal(value.shape[0])
    if isinstance(value, Group | Vector):
        return Literal(len(value.items))
    raise ctx.error(f"{describe(value)} has no length", node, "len() is for arrays, tuples and vectors")


def attribute(ctx: Context, value: ViewRef | ArrayRef | RemoteRef | MapRef, name: str, node: ast.Attribute) -> Value:
    """`.dtype`, `.unchecked`, `.shape` and `.nbytes` of arrays, `.dtype` and `.shape` of tensor maps."""
    if isinstance(value, RemoteRef):
        own = attribute(ctx, value.own, name, node)
        return dataclasses.replace(value, own=own) if isinstance(own, ArrayRef | ViewRef) else own
    if isinstance(value, MapRef):
        if name == "shape":
            return Group(tuple(ctx.length(value.map, dimension) for dimension in range(value.map.rank)))
        if name == "dtype":
            return value.map.type
        raise ctx.error(f"a tensor map has no `{name}`", node, "it has .dtype and .shape")
    if name == "nbytes" and isinstance(value, ArrayRef):
        return Literal(value.array.size * value.array.type.itemsize)
    if name == "nbytes" and isinstance(value, ViewRef) and isinstance(value.view, nodes.SharedView):
        return _launched_bytes(ctx, value)
    if name == "dtype":
        return value.vector or (value.view.type if isinstance(value, ViewRef) else value.array.type)
    if name == "unchecked":
        return dataclasses.replace(value, unchecked=True)
    if name == "shape":
        return (
            Group(tuple(vectors.extent(ctx, value, dimension) for dimension in range(value.view.rank)))
            if isinstance(value, ViewRef)
            else Group(tuple(Literal(extent) for extent in value.shape))
        )
    of = value.view.type if isinstance(value, ViewRef) else value.array.type
    more = ", .nbytes" if is_shared(value) or isinstance(value, ArrayRef) else ""
    hint = f"it has .dtype, .shape{more} and .unchecked"
    if isinstance(of, StructType) and name in of.by_name:
        hint = f"its elements have: write {ctx.text(node.value)}[i].{name}"
    raise ctx.error(f"an array has no `{name}`", node, hint)


def _launched_bytes(ctx: Context, value: ViewRef) -> Value:
    """The bytes of a shared array whose shape the launch decides, which sees to it that a block has so many. A product of extents that wraps on the way
    has a factor of 0, too."""
    size: nodes.ValueOp = ctx.constant(I64, value.view.type.itemsize)
    for extent in extents_of(ctx, value):
        size = ctx.binary("mul", size, extent)
    if isinstance(size, nodes.Binary):
        size.range = (0, SHARED_BYTES)
    return size


def contains(ctx: Context, item: Value, value: Value, item_node: ast.AST, node: ast.AST) -> nodes.ValueOp:
    """`item in value`: whether it is an index of it."""
    if isinstance(value, RemoteRef):
        value = value.own
    if isinstance(value, ViewRef) and value.view.rank == 1:
        extent = vectors.extent(ctx, value, 0)
    elif isinstance(value, ArrayRef) and len(value.shape) == 1:
        extent = ctx.constant(I64, value.shape[0])
    else:
        hint = "such as `if i in y:`"
        if isinstance(value, ViewRef):
            hint = f"compare each index with its extent, as in i < {value.view.name}.shape[0]"
        raise ctx.error(f"`in` asks whether an index lies in an array of one dimension, not in {describe(value)}", node, hint)
    place = index(ctx, item, item_node, "the left side of `in`")
    below = ctx.compare("lt", place, extent)
    if (place.range or (-1, 0))[0] >= 0:
        return below
    above = ctx.compare("ge", place, ctx.constant(I64, 0))
    both = ctx.binary("and", above, below)
    if not isinstance(both, nodes.Constant):  # a constant is shared: it may be one of its own parts
        ctx.connectives[both] = ("and", above, below)
    return both
