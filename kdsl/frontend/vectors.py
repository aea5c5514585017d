"""Vectors: made of their numbers, which every operation takes one by one, so that an element means what the same expression of numbers means.

Only accesses to memory take all numbers at once (`nodes.LoadVector`, `nodes.StoreVector`). What is not here: which index is which (`memory`), names
that hold vectors (`variables`).
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, convert, is_loose, materialise, scalar, type_of, with_article
from kdsl.frontend.multiples import multiple_of, power_of_two_in
from kdsl.frontend.values import ArrayRef, Group, MapRef, Number, RemoteRef, Text, Value, Vector, ViewRef, describe, known_number
from kdsl.ir import nodes
from kdsl.lang.caching import CacheHint
from kdsl.lang.types import F32, F64, DType, can_convert_implicitly, promote
from kdsl.lang.vectors import VECTORS, VectorType, vector_type

_NAMES: Final = "xyzw"


def element_type(value: Value) -> DType | VectorType | None:
    """The element type of an array, None of anything else."""
    if isinstance(value, ViewRef):
        return value.vector or value.view.type
    if isinstance(value, MapRef):
        return value.map.type
    return value.vector or value.array.type if isinstance(value, ArrayRef) else None


def number(ctx: Context, value: Value, node: ast.AST, purpose: str) -> Number:
    """The value, which must be a number or a vector."""
    return value if isinstance(value, Vector) else scalar(ctx, value, node, purpose)


def is_float(value: Number) -> bool:
    """Whether a number is a float, or a vector one of floats."""
    return (value.type.element if isinstance(value, Vector) else type_of(value)).is_float


# ----------------------------------------------------------------------------------------------------------------------------- values


def construct(ctx: Context, to: VectorType, arguments: Sequence[Value], node: ast.Call) -> Vector:
    """`f32x4(a, b, c, d)`, `f32x4(a)` of one number for all, `f32x4(v)` of a vector of as many numbers: each is converted, as by `f32(a)`."""
    if len(arguments) == 1:
        (given,) = arguments
        if isinstance(given, Vector):
            if given.type.lanes != to.lanes:
                raise ctx.error(f"{to}() of {with_article(given.type)}", node.args[0], f"it takes a vector of {to.lanes} numbers")
            return _vector(ctx, to, [convert(ctx, to.element, item, node.args[0]) for item in given.items])
        if not isinstance(given, Group):
            return _vector(ctx, to, [_converted(ctx, to, given, node.args[0])] * to.lanes)
    if len(arguments) != to.lanes:
        names = ", ".join("abcdefghijklmnop"[: to.lanes])
        raise ctx.error(
            f"{to}() takes {to.lanes} numbers, or one for all, not {len(arguments)}", node, f"its form is {to}({names}) or {to}(a)"
        )
    return _vector(ctx, to, [_converted(ctx, to, value, place) for value, place in zip(arguments, node.args, strict=True)])


def _converted(ctx: Context, to: VectorType, value: Value, node: ast.AST) -> nodes.ValueOp:
    """A number of a vector that is made of it; a text names a float, as in `f32("inf")`."""
    return convert(ctx, to.element, value if isinstance(value, Text) else scalar(ctx, value, node, f"an argument of {to}()"), node)


def _vector(ctx: Context, of: VectorType, numbers: Sequence[nodes.ValueOp]) -> Vector:
    if any(item in ctx.weak for item in numbers):
        ctx.decisions.adapted = True  # the numbers of a vector have its type for good
    return Vector(of, tuple(numbers))


def coerce_vector(ctx: Context, value: Value, to: VectorType, node: ast.AST, purpose: str = "") -> Vector:
    """The vector as a `to`, by the conversions that happen unasked; `purpose` says in errors what wants it."""
    for_what = f" ({purpose} is {to})" if purpose else ""
    if not isinstance(value, Vector):
        scalar(ctx, value, node, purpose)
        raise ctx.error(f"a number is not {with_article(to)}{for_what}", node, f"write {to}({ctx.text(node)}) to have it in every place")
    if value.type is to:
        return value
    if value.type.lanes != to.lanes:
        raise ctx.error(f"{with_article(value.type)} is not {with_article(to)}{for_what}", node, f"make one of its numbers: {to}(…)")
    if not can_convert_implicitly(value.type.element, to.element):
        message = f"{with_article(value.type)} does not become {with_article(to)} by itself{for_what}"
        raise ctx.error(f"{message}: not every {value.type.element} is {with_article(to.element)}", node, f"write {to}({ctx.text(node)})")
    return Vector(to, tuple(coerce(ctx, item, to.element, node) for item in value.items))


def elementwise(
    ctx: Context, what: str, operands: Sequence[Number], places: Sequence[ast.AST], node: ast.AST, apply: Callable[..., Value]
) -> Vector:
    """What `apply` gives for the first numbers of all vectors, for the second ones, and so on; a number stands beside each. `what` is its name in errors."""
    vectors = [(operand, place) for operand, place in zip(operands, places, strict=True) if isinstance(operand, Vector)]
    first, lanes = vectors[0][0].type, vectors[0][0].type.lanes
    for other, place in vectors[1:]:
        if other.type.lanes != lanes:
            raise ctx.error(f"`{what}` of {with_article(first)} and {with_article(other.type)}", place, "both need as many numbers")
    if what != "**":  # whose operands need no common type
        _refuse_mixture(ctx, what, operands[:2], places[:2], node)
    results = []
    for lane in range(lanes):
        given = [operand.items[lane] if isinstance(operand, Vector) else operand for operand in operands]
        results.append(materialise(ctx, scalar(ctx, apply(*given), node), node))
    of = vector_type(results[0].type, lanes)
    if of is None:
        whole = f"{results[0].type}x{lanes}"
        raise ctx.error(
            f"`{what}` gives {lanes} {results[0].type}, and there is no vector {whole}: it would have more than 16 bytes",
            node, "convert an operand to a narrower type, or compute number by number",
        )  # fmt: skip
    return _vector(ctx, of, results)


def _refuse_mixture(ctx: Context, what: str, operands: Sequence[Number], places: Sequence[ast.AST], node: ast.AST) -> None:
    """Refuse a vector with something that its numbers do not meet, with a hint that converts the whole vector."""
    if len(operands) < 2 or not any(isinstance(operand, Vector) for operand in operands):
        return
    (a, b), (a_place, b_place) = operands, places
    if not isinstance(a, Vector):
        a, b, a_place, b_place = b, a, b_place, a_place
    assert isinstance(a, Vector)
    own = a.type.element
    other = b.type.element if isinstance(b, Vector) else type_of(b)
    if not isinstance(b, Vector) and is_loose(ctx, b):
        if other.is_float and own.is_integer:
            wanted = vector_type(F32 if own.bits <= 32 else F64, a.type.lanes)
            hint = f"write {wanted}({ctx.text(a_place)}) to compute with floats" if wanted else "convert its numbers one by one"
            raise ctx.error(f"`{what}` of {with_article(a.type)} and a float literal", node, hint)
        return
    if promote(own, other) is not None or own.is_bool or other.is_bool:
        return
    message = f"`{what}` of {with_article(a.type)} and {with_article(b.type if isinstance(b, Vector) else other)}"
    to, place, given = (own, b_place, b) if own.is_float or (own.is_signed and not other.is_float) else (other, a_place, a)
    target = vector_type(to, a.type.lanes) if isinstance(given, Vector) else to
    hint = f"write {target}({ctx.text(place)})" if target is not None else "convert its numbers one by one"
    raise ctx.error(f"{message}: no type holds all values of both", node, hint)


def attribute(ctx: Context, value: Vector, name: str, node: ast.Attribute) -> Value:
    """`.x .y .z .w` and `.dtype` of a vector."""
    if name == "dtype":
        return value.type
    lanes = value.type.lanes
    if lanes <= len(_NAMES) and name in tuple(_NAMES[:lanes]):
        return value.items[_NAMES.index(name)]
    names = ", ".join(f".{letter}" for letter in _NAMES[:lanes]) + " and .dtype" if lanes <= len(_NAMES) else ".dtype"
    raise ctx.error(f"{with_article(value.type)} has no `{name}`", node, f"it has {names}, and its numbers are v[0] to v[{lanes - 1}]")


def item(ctx: Context, base: Vector, subscript: Value, node: ast.Subscript) -> Value:
    """`v[2]`."""
    position = known_number(subscript)
    last = base.type.lanes - 1
    if not isinstance(position, int) or isinstance(position, bool):
        hint = f"use a literal, unroll(), or a local_array for indices known at run time; indices are 0 to {last}"
        raise ctx.error("a vector is indexed by a number that the compiler knows", node.slice, hint)
    if not 0 <= position <= last:
        raise ctx.error(f"index {position} of {with_article(base.type)}", node.slice, f"indices are 0 to {last}")
    return base.items[position]


# ------------------------------------------------------------------------------------------------------------------------ whole arrays


def as_vectors(ctx: Context, arguments: Sequence[Value], places: Sequence[ast.AST], node: ast.Call) -> Value:
    """`as_vectors(array, f32x4)`: the same memory, its last dimension in vectors. `places` are those of the arguments."""
    target, wanted = arguments
    if isinstance(target, RemoteRef):
        own = as_vectors(ctx, (target.own, wanted), places, node)
        assert isinstance(own, ViewRef | ArrayRef)
        return dataclasses.replace(target, own=own)
    if not isinstance(target, ViewRef | ArrayRef):
        raise ctx.error(f"as_vectors() takes an array, not {describe(target)}", places[0], "such as as_vectors(x, f32x4)")
    held: nodes.Memory = target.view if isinstance(target, ViewRef) else target.array
    if target.vector is not None:
        raise ctx.error(f"`{held.name}` is {describe(target)} already", places[0], f"its elements are {target.vector}")
    if isinstance(target, ArrayRef) and target.member:
        raise ctx.error(
            f"`{held.name}` is an array in a struct, which begins where its elements may", places[0], "copy it to a local array"
        )
    of = _wanted(ctx, held, wanted, places[1], node)
    if isinstance(target, ViewRef):
        target.view.alignment = max(target.view.alignment, of.itemsize)
        if isinstance(target.view, nodes.SharedView):
            _refuse_rows(ctx, target.view, of, node)
    else:
        last = target.array.shape[-1]
        if last < of.lanes or (len(target.array.shape) > 1 and last % of.lanes):
            where = "its last extent is" if len(target.array.shape) > 1 else "it has"
            what = f"a multiple of {of.lanes}" if len(target.array.shape) > 1 else f"at least {of.lanes} elements"
            raise ctx.error(f"`{held.name}` cannot be taken as {of}: {where} {last}", node, f"give it {what}")
    return dataclasses.replace(target, vector=of)


def _refuse_rows(ctx: Context, view: nodes.SharedView, of: VectorType, node: ast.Call) -> None:
    """Refuse a shared array whose extents the launch decides if its rows may begin within a vector."""
    last = view.rank - 1
    extent = view.extents[last]
    source = ctx.exact_extents.get((view, last))
    multiple = power_of_two_in(extent) if isinstance(extent, int) else 1 if source is None else multiple_of(ctx, source)
    if last and multiple % of.lanes:
        hint = f"write it as a product, such as {of.lanes} * n, or make the array of vectors: shared_array((…, n), {of})"
        raise ctx.error(
            f"`{view.name}` cannot be taken as {of}: its last extent, {extent}, is not known to be a multiple of {of.lanes}", node, hint
        )


def _wanted(ctx: Context, held: nodes.Memory, wanted: Value, place: ast.AST, node: ast.Call) -> VectorType:
    """The vector type that is asked for: by its name, or by how many numbers it has."""
    fitting = [of for of in VECTORS.values() if of.element is held.type]  # none of structs
    hint = f"such as as_vectors({held.name}, {fitting[-1]})" if fitting else "give the array another element type"
    if isinstance(wanted, VectorType):
        if wanted.element is not held.type:
            raise ctx.error(
                f"`{held.name}` has elements of {held.type}, and {with_article(wanted)} consists of {wanted.element}", node, hint
            )
        return wanted
    lanes = known_number(wanted)
    of = next((each for each in fitting if each.lanes == lanes), None)
    if of is None:
        given = describe(wanted) if lanes is None else str(lanes)
        kinds = ", ".join(str(each) for each in fitting) or "none"
        raise ctx.error(f"the vectors of {held.type} are {kinds}; this is {given}", place, hint)
    return of


def extent(ctx: Context, ref: ViewRef, dimension: int) -> nodes.ValueOp:
    """The extent of a view along a dimension, the last one of vectors counted in vectors."""
    length = ctx.length(ref.view, dimension)
    if ref.vector is None or dimension != ref.view.rank - 1:
        return length
    return ctx.binary("floordiv", length, ctx.constant(length.type, ref.vector.lanes))


def loaded(
    ctx: Context, memory: nodes.Memory, places: tuple[nodes.ValueOp, ...], of: VectorType, *, checked: bool,
    remote: nodes.ValueOp | None = None, cache: CacheHint | None = None,
) -> Vector:  # fmt: skip
    """The vector at a place; `remote` is the rank of another block whose array it is."""
    site = ctx.new_site("load", memory.name, memory, lanes=of.lanes)
    whole = nodes.LoadVector(
        location=ctx.location, memory=memory, indices=places, lanes=of.lanes, checked=checked, site=site, remote=remote, cache=cache
    )
    ctx.emit(whole)
    items = tuple(nodes.Result(location=ctx.location, type=of.element, of=whole, index=lane) for lane in range(of.lanes))
    for result in items:
        ctx.emit(result)
    return Vector(of, items)


def stored(
    ctx: Context, memory: nodes.Memory, places: tuple[nodes.ValueOp, ...], values: tuple[nodes.ValueOp, ...], *, checked: bool,
    remote: nodes.ValueOp | None = None, cache: CacheHint | None = None,
) -> None:  # fmt: skip
    """Write a vector to a place."""
    site = ctx.new_site("store", memory.name, memory, lanes=len(values))
    ctx.emit(
        nodes.StoreVector(
            location=ctx.location, memory=memory, indices=places, values=values, checked=checked, site=site, remote=remote, cache=cache
        )
    )
