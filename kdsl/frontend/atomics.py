"""Atomic operations on elements of a `SliceMut` or of a shared array: what they may be applied to, their arguments, their check."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from kdsl.frontend import memory
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce
from kdsl.frontend.values import ArrayRef, Nothing, RemoteRef, Text, Value, ViewRef, describe
from kdsl.ir import nodes
from kdsl.lang.intrinsics import SCOPES, Intrinsic, ToAtomic
from kdsl.lang.types import DType

_FLOAT_EXTREMES = (
    "for floats combine in the block first (block_max, block_min), or loop with atomic_cas; integers have atomic_min and atomic_max"
)


def build(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    """The old value of the element, None for a store. `given` are the arguments by name, `places` where they stand."""
    lowering = row.lowering
    assert isinstance(lowering, ToAtomic)
    of = _element(ctx, row, lowering, given["array"], places["array"])
    scope = _choice(ctx, row, "scope", given["scope"], tuple(SCOPES), places["scope"])
    order = _choice(ctx, row, "order", given["order"], lowering.orders, places["order"])
    # the index stands in a call and is checked like one in brackets
    bracketed = ast.copy_location(ast.Subscript(places["array"], places["index"], ast.Load()), node)  # type: ignore[arg-type]  # both are expressions
    target = given["array"]
    rank: nodes.ValueOp | None = None
    if isinstance(target, ViewRef):
        held: nodes.Memory = target.view
        indices, checked = memory.shared_view_place(ctx, target, given["index"], bracketed)
    elif isinstance(target, RemoteRef):
        held, rank = target.memory, target.rank
        indices, checked = memory.remote_place(ctx, target, given["index"], bracketed)
    else:
        assert isinstance(target, ArrayRef)
        held = target.array
        indices, checked = memory.shared_array_place(ctx, target, given["index"], bracketed)
    arguments = tuple(
        coerce(ctx, given[name], of, places[name], f"`{name}` of {row.name}() on `{held.name}`")
        for name in ("compare", "value", "limit")
        if name in given
    )
    site = ctx.new_site("atomic", held.name, held)
    name: Any = lowering.op
    made = nodes.Atomic(
        location=ctx.location, type=of, name=row.name, op=name, memory=held, indices=indices, arguments=arguments,
        scope=scope, order=order, checked=checked, site=site, remote=rank,
    )  # fmt: skip
    ctx.emit(made)
    return Nothing() if lowering.op == "store" else made


def _element(ctx: Context, row: Intrinsic, lowering: ToAtomic, target: Value, place: ast.AST) -> DType:
    """The element type of what the operation is applied to; an error unless threads share it, may change it, and the operation has the type."""
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
    if isinstance(target, ArrayRef) and target.read_only:
        raise ctx.error(
            f"{row.name}() on `{held.name}`, which came here as a Slice and is only read", place, f"annotate it as SliceMut[{held.type}]"
        )
    if isinstance(target, ArrayRef) and target.array.space == "local":
        raise ctx.error(
            f"{row.name}() on `{held.name}`, a local array, which no other thread sees", place, "use a shared_array, or plain operations"
        )
    if target.vector is not None:
        hint = f"change its numbers one by one, in a {'SliceMut' if isinstance(target, ViewRef) else 'shared array'} of {held.type}"
        raise ctx.error(f"{row.name}() of {target.vector} elements: no target has atomic operations on vectors", place, hint)
    if held.type.name not in lowering.types:
        takes = ", ".join(lowering.types)
        hint = (
            _FLOAT_EXTREMES
            if held.type.is_float and lowering.op in ("min", "max")
            else f"make it an array of {takes.replace(', ', ' or ')}"
        )
        raise ctx.error(
            f"{row.name}() of {held.type} elements exists neither on the GPU targets (sm_80 and up) nor on the CPU: it takes {takes}",
            place,
            hint,
        )
    return held.type


def _choice(ctx: Context, row: Intrinsic, what: str, value: Value, allowed: tuple[str, ...], place: ast.AST) -> Any:
    if isinstance(value, Text) and value.value in allowed:
        return value.value
    names = ", ".join(f'"{name}"' for name in allowed)
    raise ctx.error(f"the {what} of {row.name}() is one of {names}; this is {describe(value)}", place, f'such as {what}="{allowed[0]}"')
