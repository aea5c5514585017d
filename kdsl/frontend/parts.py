"""Places: elements of arrays of structs, and parts of them, that are named and neither read nor written yet.

`steps[i]` is a place, `steps[i].rate` a place in it; what is read or written there in the end is the matter of `structs.py`.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from kdsl.frontend import memory
from kdsl.frontend.context import Context
from kdsl.frontend.values import ArrayRef, Group, Literal, Place, Record, RemoteRef, Text, Value, Vector, ViewRef
from kdsl.ir import nodes
from kdsl.lang.struct_type import ArrayType, Field, FieldType, StructType
from kdsl.lang.types import I64, DType


def element(ctx: Context, base: Value, subscript: Value, node: ast.Subscript) -> Place | None:
    """`base[subscript]` as a place, None if it is no struct nor an array in one."""
    if isinstance(base, Place):
        of = base.type
        if not isinstance(of, ArrayType):
            hint = f"name a field: {_listed(of, ctx.text(node.value))}" if isinstance(of, StructType) else "it is a number"
            raise ctx.error(f"`{ctx.text(node.value)}` is {described(of)}, which has no elements", node, hint)
        return item(base, memory.fixed_indices(ctx, base.label, of.shape, subscript, node))
    if isinstance(base, ViewRef | ArrayRef | RemoteRef):
        own = base.own if isinstance(base, RemoteRef) else base
        held = own.view.type if isinstance(own, ViewRef) else own.array.type
        if isinstance(held, StructType):
            return Place(base, memory.element_indices(ctx, base, subscript, node), node, held)
    return None


def along(ctx: Context, base: memory.Base, path: Value, node: ast.Subscript) -> Place:
    """The place that indices and names of fields lead to, as in `atomic_add(bins, (i, "count"), 1)`."""
    items = path.items if isinstance(path, Group) else (path,)
    place: Place | None = None
    for is_name, group in itertools.groupby(items, lambda item: isinstance(item, Text)):
        steps = tuple(group)
        if not is_name:
            place = element(ctx, place or base, steps[0] if len(steps) == 1 else Group(steps), node)
            continue
        for name in steps:
            if place is None or not isinstance(name, Text):
                raise ctx.error("the index of an element comes before the name of its field", node.slice, 'write it as (i, "count")')
            place = _select(ctx, place, name.value, node.slice, place.label)
    assert place is not None, "no index at all is refused"
    return place


def field(ctx: Context, base: Place, name: str, node: ast.Attribute) -> Value:
    """`base.name`: a field, or what an array or a number has."""
    if isinstance(base.type, StructType):
        return _select(ctx, base, name, node, ctx.text(node.value))
    if name == "dtype":
        return base.type.element if isinstance(base.type, ArrayType) else base.type
    if isinstance(base.type, ArrayType) and name == "shape":
        return Group(tuple(Literal(extent) for extent in base.type.shape))
    hint = "it has .dtype and .shape" if isinstance(base.type, ArrayType) else "it has .dtype"
    raise ctx.error(f"`{ctx.text(node.value)}` is {described(base.type)} and has no attribute `{name}`", node, hint)


def target(ctx: Context, base: Value, node: ast.Attribute) -> Place:
    """`base.name` on the left of an assignment."""
    if isinstance(base, Place):
        found = field(ctx, base, node.attr, node)
        if isinstance(found, Place):
            return found
    if isinstance(base, Record) and base.struct is not None:
        hint = f"structs are read only; make a new one, as in {base.name}(...), or write to an element of an array"
        raise ctx.error("a field of a struct value cannot be assigned", node, hint)
    if isinstance(base, Vector):
        raise ctx.error(f"`{ctx.text(node)}` cannot be assigned: a vector is not changed in place", node, f"make a new one: {base.type}(…)")
    raise ctx.error(
        f"`{ctx.text(node)}` cannot be assigned", node, "assign to a name, an element, a field of an element, or a tuple of those"
    )


def _select(ctx: Context, base: Place, name: str, node: ast.AST, written: str) -> Place:
    of = base.type
    if not isinstance(of, StructType) or name not in of.by_name:
        raise no_field(ctx, of, name, node, written)
    found = of.by_name[name]
    return dataclasses.replace(base, type=found.type, path=f"{base.path}.{name}".lstrip("."), offset=base.offset + found.offset)


def item(base: Place, indices: tuple[nodes.ValueOp, ...]) -> Place:
    of = base.type
    assert isinstance(of, ArrayType)
    more = {"indices": (*base.indices, *indices), "shape": (*base.shape, *of.shape), "strides": (*base.strides, *of.strides)}
    return dataclasses.replace(base, type=of.element, **more)  # type: ignore[arg-type]  # each has the type of its field


def no_field(ctx: Context, of: FieldType, name: str, node: ast.AST, written: str) -> Exception:
    """The error for a field that does not exist; `written` is the struct as it stands in the source."""
    if not isinstance(of, StructType):
        return ctx.error(f"`{written}` is {described(of)} and has no field `{name}`", node, "only structs have fields")
    return ctx.error(f"`{written}` is {described(of)}, which has no field `{name}`", node, f"its fields are {_listed(of, written)}")


def _listed(of: StructType, written: str) -> str:
    return ", ".join(f"{written}.{part.name}" for part in of.fields)


def described(of: FieldType) -> str:
    return f"an array ({of})" if isinstance(of, ArrayType) else of.with_article if isinstance(of, StructType) else f"a number ({of})"


def numbers(ctx: Context, place: Place) -> Iterator[Place]:
    """The numbers of a place, in order."""
    if isinstance(place.type, StructType):
        for part in place.type.fields:
            inner = dataclasses.replace(
                place, type=part.type, path=f"{place.path}.{part.name}".lstrip("."), offset=place.offset + part.offset
            )
            yield from numbers(ctx, inner)
    elif isinstance(place.type, ArrayType):
        for position in positions(place.type.shape):
            yield from numbers(ctx, item(place, tuple(ctx.constant(I64, index) for index in position)))
    else:
        yield place


def positions(shape: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All indices of an array, the last running fastest."""
    return itertools.product(*map(range, shape))


def number_field(place: Place) -> Field:
    assert isinstance(place.type, DType)
    return Field(place.path, place.type, place.offset, place.shape, place.strides)
