"""Asynchronous copies: what they copy, how many bytes, and where they may; the hint of what is read soon."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from kdsl.frontend import memory
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, index, scalar, type_of
from kdsl.frontend.guards import Guard, is_shared, memory_of
from kdsl.frontend.instructions.emit import emit
from kdsl.frontend.instructions.places import view
from kdsl.frontend.values import ArrayRef, Nothing, Text, Value, ViewRef, describe, known_number
from kdsl.ir import nodes
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.types import I64

_SIZES: Final = (4, 8, 16)
"""Bytes of a copy (PTX ISA, "cp.async")."""


def subscript(array: ast.AST, index: ast.AST, node: ast.Call) -> ast.Subscript:
    """An index that stands in a call, as if it stood in brackets: it is checked and shown like one."""
    return ast.copy_location(ast.Subscript(array, index, ast.Load()), node)  # type: ignore[arg-type]  # both are expressions


def _copy_async(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    array, source = _array(ctx, row, given["array"], places["array"]), _source(ctx, row, given["source"], places["source"])
    to_memory = memory_of(array)
    of = to_memory.type
    if source.view.type is not of:
        raise ctx.error(
            f"{row.name}() copies elements as they are: `{to_memory.name}` has {of}, `{source.view.name}` has {source.view.type}",
            places["source"],
            "give both the same element type, or load, convert and store",
        )
    count = _count(ctx, row, given["count"], of.itemsize, places["count"])
    size = count * of.itemsize
    to = memory.shared_array_place(ctx, array, given["index"], subscript(places["array"], places["index"], node))[0]
    start = memory.read_view_place(ctx, source, given["source_index"], subscript(places["source"], places["source_index"], node))
    source.view.alignment = max(source.view.alignment, size)
    valid = _valid(ctx, row, given["valid"], count, places["valid"])
    guard = Guard(ctx, row.name, "copy")
    guard.inside(array, to, count, places["index"])
    guard.aligned(array, to, size, places["index"])
    guard.inside(source, start, count, places["source_index"], touched=valid)
    guard.aligned(source, start, size, places["source_index"])
    elements = (nodes.Element(to_memory, to), nodes.Element(source.view, start))
    arguments = () if valid is None else (valid,)
    guard.do(lambda: _ignore(emit(ctx, row, arguments=arguments, elements=elements, options={"count": count})))
    return Nothing()


def _ignore(_: object) -> None:
    """For a lambda whose value nobody wants."""


def _array(ctx: Context, row: Intrinsic, value: Value, place: ast.AST) -> ArrayRef | ViewRef:
    """Where to copy to."""
    if not is_shared(value):
        raise ctx.error(f"{row.name}() copies to a shared array, not to {describe(value)}", place, f"its form is {row.name}{row.signature}")
    if value.read_only:
        raise ctx.error(
            f"{row.name}() to `{memory_of(value).name}`, which came here as a Slice and is only read",
            place,
            f"annotate it as SliceMut[{memory_of(value).type}]",
        )
    return value


def _source(ctx: Context, row: Intrinsic, value: Value, place: ast.AST) -> ViewRef:
    """Where to copy from."""
    if not isinstance(value, ViewRef) or isinstance(value.view, nodes.SharedView):
        raise ctx.error(
            f"{row.name}() copies from an array parameter, not from {describe(value)}", place, f"its form is {row.name}{row.signature}"
        )
    if value.view.kind == "DisjointSlice":
        raise ctx.error(
            f"{row.name}() from `{value.view.name}`, a DisjointSlice, each element of which belongs to one thread",
            place,
            f"declare it as Slice[{value.view.type}]",
        )
    return value


def _count(ctx: Context, row: Intrinsic, value: Value, itemsize: int, place: ast.AST) -> int:
    """Elements to copy."""
    count = known_number(value)
    allowed = [size // itemsize for size in _SIZES if size >= itemsize]
    if isinstance(count, int) and not isinstance(count, bool) and count in allowed:
        return count
    what = describe(value) if count is None else str(count)
    choices = " or ".join(map(str, allowed))
    raise ctx.error(
        f"the count of {row.name}() is {choices}, known to the compiler; this is {what}",
        place,
        "it copies 4, 8 or 16 bytes: use a literal, a captured number or a Const parameter",
    )


def _valid(ctx: Context, row: Intrinsic, value: Value, count: int, place: ast.AST) -> nodes.ValueOp | None:
    """How many elements to read, 0 to `count`; None for all of them. A bool says all or none."""
    if value == Text("count"):
        return None
    number = scalar(ctx, value, place, f"`valid` of {row.name}()")
    none, every = ctx.constant(I64, 0), ctx.constant(I64, count)
    if type_of(number).is_bool:
        if isinstance(number, nodes.ValueOp):
            return ctx.select(number, every, none)
        return every if known_number(number) else none
    return ctx.binary("max", ctx.binary("min", coerce(ctx, number, I64, place, f"`valid` of {row.name}()"), every), none)


def _group(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    emit(ctx, row)
    return Nothing()


def _wait_copies(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    newest = known_number(given["newest"])
    if not isinstance(newest, int) or isinstance(newest, bool) or not 0 <= newest < 1 << 31:
        raise ctx.error(
            f"{row.name}() leaves a number of groups under way that the compiler knows, from 0 on; this is {describe(given['newest'])}",
            places["newest"],
            "use a literal, a captured number or a Const parameter",
        )
    emit(ctx, row, options={"newest": newest})
    return Nothing()


def _prefetch(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    source = view(ctx, row, given["source"], places["source"], writes=False).view
    at = index(ctx, given["index"], places["index"], f"the index of {row.name}()")
    emit(ctx, row, arguments=(at, ctx.length(source, 0)), elements=(nodes.Element(source, (at,)),))
    return Nothing()


HANDLERS: Final[dict[str, Any]] = {
    "copy_async": _copy_async,
    "commit_copies": _group,
    "wait_copies": _wait_copies,
    "wait_all_copies": _group,
    "prefetch": _prefetch,
}
