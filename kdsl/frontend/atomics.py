"""Atomic operations on elements of a `SliceMut` or of a shared array: what they may be applied to, their arguments, their check."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from kdsl.frontend import atomic_vectors, memory, parts, structs
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce
from kdsl.frontend.values import ArrayRef, Nothing, Place, RemoteRef, Text, Value, ViewRef, describe
from kdsl.ir import nodes
from kdsl.lang.intrinsics import SCOPES, Intrinsic, ToAtomic
from kdsl.lang.struct_type import ArrayType, StructType
from kdsl.lang.types import DType

_FLOAT_EXTREMES = (
    "for floats combine in the block first (block_max, block_min), or loop with atomic_cas; integers have atomic_min and atomic_max"
)


def build(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    """The old value of the element, None for a store. `given` are the arguments by name, `places` where they stand."""
    lowering = row.lowering
    assert isinstance(lowering, ToAtomic)
    target, array_place = given["array"], places["array"]
    held = _shared_memory(ctx, row, target, array_place)
    assert isinstance(target, ViewRef | ArrayRef | RemoteRef)
    # the index stands in a call and is checked like one in brackets
    bracketed = ast.copy_location(ast.Subscript(array_place, places["index"], ast.Load()), node)  # type: ignore[arg-type]  # both are expressions
    own = target.own if isinstance(target, RemoteRef) else target
    if own.vector is not None:
        atomic_vectors.form_of(ctx, row, own, array_place)
        options = {
            "scope": choice(ctx, row, "scope", given["scope"], tuple(SCOPES), places["scope"]),
            "order": choice(ctx, row, "order", given["order"], lowering.orders, places["order"]),
        }
        return atomic_vectors.build(ctx, row, target, given, places, bracketed, options)
    place = parts.along(ctx, target, given["index"], bracketed) if isinstance(held.type, StructType) else None
    of = _number_type(ctx, row, lowering, held, place, array_place if place is None else places["index"])
    scope = choice(ctx, row, "scope", given["scope"], tuple(SCOPES), places["scope"])
    order = choice(ctx, row, "order", given["order"], lowering.orders, places["order"])
    rank: nodes.ValueOp | None = target.rank if isinstance(target, RemoteRef) else None
    if place is not None:
        indices, checked = place.indices, structs.must_check(ctx, place, memory.touch_shared)
    elif isinstance(target, ViewRef):
        indices, checked = memory.shared_view_place(ctx, target, given["index"], bracketed)
    elif isinstance(target, RemoteRef):
        indices, checked = memory.remote_place(ctx, target, given["index"], bracketed)
    else:
        indices, checked = memory.shared_array_place(ctx, target, given["index"], bracketed)
    called = held.name if place is None else place.label
    arguments = tuple(
        coerce(ctx, given[name], of, places[name], f"`{name}` of {row.name}() on `{called}`")
        for name in ("compare", "value", "limit")
        if name in given
    )
    site = ctx.new_site("atomic", held.name if place is None else place.name, held, () if place is None else place.shape)
    name: Any = lowering.op
    made = nodes.Atomic(
        location=ctx.location, type=of, name=row.name, op=name, memory=held, indices=indices, arguments=arguments,
        scope=scope, order=order, checked=checked, site=site, remote=rank, field=None if place is None else parts.number_field(place),
    )  # fmt: skip
    ctx.emit(made)
    return Nothing() if lowering.op == "store" else made


def _shared_memory(ctx: Context, row: Intrinsic, target: Value, place: ast.AST) -> nodes.Memory:
    """The array that the operation is applied to; an error unless threads share it and may change it."""
    target = target.own if isinstance(target, RemoteRef) else target
    if not isinstance(target, ViewRef | ArrayRef):
        raise ctx.error(
            f"{row.name}() is on an element of an array, not {describe(target)}", place, f"its form is {row.name}{row.signature}"
        )
    held = target.view if isinstance(target, ViewRef) else target.array
    if isinstance(target, ViewRef) and (target.view.kind != "SliceMut" or target.read_only):
        kind = "Slice" if target.read_only else target.view.kind
        why = "each element of which belongs to one thread" if kind == "DisjointSlice" else "which is only read"
        raise ctx.error(f"{row.name}() on `{held.name}`, a {kind}, {why}", place, f"declare it as SliceMut[{held.type}]")
    if isinstance(target, ArrayRef) and target.member:
        raise ctx.error(
            f"{row.name}() on `{held.name}`, an array in a struct, which is only read", place, "use a SliceMut or a shared_array"
        )
    if isinstance(target, ArrayRef) and target.array.space == "constant":
        raise ctx.error(f"{row.name}() on `{held.name}`, a constant array, which is only read", place, "use a shared_array or a SliceMut")
    if isinstance(target, ArrayRef) and target.read_only:
        raise ctx.error(
            f"{row.name}() on `{held.name}`, which came here as a Slice and is only read", place, f"annotate it as SliceMut[{held.type}]"
        )
    if isinstance(target, ArrayRef) and target.array.space == "local":
        raise ctx.error(
            f"{row.name}() on `{held.name}`, a local array, which no other thread sees", place, "use a shared_array, or plain operations"
        )
    return held


def _number_type(ctx: Context, row: Intrinsic, lowering: ToAtomic, held: nodes.Memory, place: Place | None, node: ast.AST) -> DType:
    """The type of the number that the operation changes; an error unless the operation has the type."""
    of = held.type if place is None else place.type
    if place is not None and isinstance(of, StructType | ArrayType):
        first = f'"{of.fields[0].name}"' if isinstance(of, StructType) else ", ".join("0" * len(of.shape))
        hint = f"go on to a number in the index, such as (i, …, {first})"
        raise ctx.error(f"{row.name}() is on a number, and `{place.label}` is {parts.described(of)}", node, hint)
    assert isinstance(of, DType)
    if of.name not in lowering.types:
        takes = ", ".join(lowering.types)
        hint = _FLOAT_EXTREMES if of.is_float and lowering.op in ("min", "max") else f"make it an array of {takes.replace(', ', ' or ')}"
        raise ctx.error(
            f"{row.name}() of {of} elements exists neither on the GPU targets (sm_80 and up) nor on the CPU: it takes {takes}", node, hint
        )
    return of


def choice(ctx: Context, row: Intrinsic, what: str, value: Value, allowed: tuple[str, ...], place: ast.AST) -> Any:
    """One of some words, which a text in the kernel names."""
    if isinstance(value, Text) and value.value in allowed:
        return value.value
    names = ", ".join(f'"{name}"' for name in allowed)
    raise ctx.error(f"the {what} of {row.name}() is one of {names}; this is {describe(value)}", place, f'such as {what}="{allowed[0]}"')
