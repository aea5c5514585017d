"""Pieces of shared arrays that instructions touch as a whole: their indices, whether they are certainly inside, and what happens if not.

A piece that the compiler cannot prove to be inside is checked when the kernel runs: a failure is recorded like a failed `assert`, and the instruction left out.
Through `.unchecked` only checked builds do so.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, index, scalar, type_of
from kdsl.frontend.guards import extents_of, is_shared, known_extents, memory_of
from kdsl.frontend.multiples import multiple_of
from kdsl.frontend.proofs import bounds, run_inside_view
from kdsl.frontend.values import ArrayRef, BarrierRef, Group, Text, Value, ViewRef, describe, known_number
from kdsl.ir import nodes
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.types import I64, U32


@dataclass(frozen=True)
class Piece:
    """A piece of an array."""

    element: nodes.Element
    """Where it begins."""
    holds: nodes.ValueOp | None
    """Whether it is inside, None if it certainly is."""


def shared_array(ctx: Context, row: Intrinsic, value: Value, node: ast.AST, *, writes: bool) -> ArrayRef | ViewRef:
    """The argument, which must be a shared array of this block."""
    if not is_shared(value):
        raise ctx.error(f"{row.name}() takes a shared array here, not {describe(value)}", node, "make it with shared_array(shape, dtype)")
    if writes and value.read_only:
        raise ctx.error(
            f"{row.name}() writes to `{memory_of(value).name}`, which came here as a Slice and is only read",
            node,
            f"annotate the parameter as SliceMut[{memory_of(value).type}]",
        )
    return value


def view(ctx: Context, row: Intrinsic, value: Value, node: ast.AST, *, writes: bool) -> ViewRef:
    """The argument, which must be a view of one dimension of which any element may be touched."""
    if not isinstance(value, ViewRef) or value.view.rank != 1 or isinstance(value.view, nodes.TensorMap | nodes.SharedView):
        raise ctx.error(
            f"{row.name}() takes a view of one dimension here, not {describe(value)}", node, "pass a Slice or SliceMut parameter"
        )
    if value.view.kind == "DisjointSlice" or (writes and (value.view.kind == "Slice" or value.read_only)):
        raise ctx.error(f"{row.name}() on `{value.view.name}`, a {value.view.kind}", node, f"declare it as SliceMut[{value.view.type}]")
    ctx.accesses.setdefault(value.view, []).append((None, ctx.locate(node)))
    value.view.written |= writes
    value.view.read |= not writes
    return value


def items(subscript: Value, node: ast.AST) -> list[tuple[Value, ast.AST]]:
    """The indices that an argument holds, each with its place."""
    values = subscript.items if isinstance(subscript, Group) else (subscript,)
    parts: Sequence[ast.AST] = node.elts if isinstance(node, ast.Tuple) and len(node.elts) == len(values) else [node] * len(values)
    return list(zip(values, parts, strict=True))


def piece(
    ctx: Context,
    row: Intrinsic,
    base: ArrayRef | ViewRef | BarrierRef,
    subscript: Value,
    node: ast.AST,
    sizes: Sequence[int],
    steps: Sequence[int] = (),
) -> Piece:
    """The piece that begins at the indices `subscript` and has `sizes` elements along each dimension. Dimensions behind those that are indexed are taken
    whole. An index is a multiple of its entry in `steps`."""
    array = memory_of(base)
    extents, known_ones = extents_of(ctx, base), known_extents(array)
    given = items(subscript, node)
    indices: list[nodes.ValueOp] = []
    conditions: list[nodes.ValueOp] = []
    for dimension, (item, part) in enumerate(given):
        what = f"an index of `{array.name}`"
        extent, size, step = known_ones[dimension], sizes[dimension], (steps[dimension] if steps else 1)
        position = known_number(item)
        if position is not None and extent is not None and not 0 <= position <= extent - size:
            hint = f"indices are 0 to {extent - size}" if size <= extent else f"it has {extent} elements there; {size} are wanted"
            raise ctx.error(f"{row.name}(): index {position} is outside `{array.name}`", part, hint)
        value = index(ctx, item, part, what)
        if multiple_of(ctx, value) % step:
            raise ctx.error(
                f"{row.name}(): this index of `{array.name}` must be a multiple of {step}, which the compiler cannot see",
                part,
                f"write it as a product, such as {step} * i",
            )
        indices.append(value)
        if isinstance(base, ViewRef) and not ctx.checked and run_inside_view(ctx, base.view, value, size, dimension):
            continue
        low, high = bounds(ctx, value)
        if low < 0:
            conditions.append(ctx.compare("ge", value, ctx.constant(I64, 0)))
        if extent is None or high > extent - size:
            conditions.append(ctx.compare("le", value, ctx.binary("sub", extents[dimension], ctx.constant(I64, size))))
    indices += [ctx.constant(I64, 0)] * (len(extents) - len(given))
    if base.unchecked and not ctx.checked:
        conditions = []
    return Piece(nodes.Element(array, tuple(indices)), every(ctx, conditions))


def every(ctx: Context, conditions: Sequence[nodes.ValueOp | None]) -> nodes.ValueOp | None:
    """Whether all of them hold; None for what certainly does."""
    whole: nodes.ValueOp | None = None
    for condition in conditions:
        if condition is not None:
            whole = condition if whole is None else ctx.binary("and", whole, condition)
    return whole


@contextmanager
def guarded(ctx: Context, holds: nodes.ValueOp | None, message: str, instead: Callable[[], None] | None = None) -> Iterator[None]:
    """What is built inside is run only if the condition holds; if not, a failure is recorded, and what `instead` builds is run.
    A build without checks takes the condition to hold."""
    if holds is None or ctx.checks == "none":
        yield
        return
    location = ctx.location
    ctx.emit(nodes.Assertion(location=location, condition=holds, site=ctx.new_site("assert", message, None)))
    then, orelse = nodes.Block(), nodes.Block()
    with ctx.nested(then):
        yield
    if instead is not None:
        with ctx.nested(orelse):
            instead()
    ctx.emit(nodes.If(location=location, condition=holds, then=then, orelse=orelse))


def barrier(ctx: Context, row: Intrinsic, value: Value, subscript: Value, value_node: ast.AST, node: ast.AST) -> Piece:
    """One of some barriers in shared memory."""
    if not isinstance(value, BarrierRef):
        raise ctx.error(f"{row.name}() takes barriers, not {describe(value)}", value_node, "make them with shared_barriers(count)")
    if isinstance(subscript, Group):
        raise ctx.error("barriers have one index", node, f"such as {value.array.name}, 0")
    return piece(ctx, row, value, subscript, node, (1,))


def count(ctx: Context, row: Intrinsic, value: Value, node: ast.AST, what: str, low: int, high: int) -> nodes.ValueOp:
    """A number of things, as a u32 within limits; an integer of another type has a range that is within them."""
    known = known_number(value)
    if known is not None and (isinstance(known, bool | float) or not low <= known <= high):
        raise ctx.error(f"{what} of {row.name}() is {low} to {high}, not {known}", node, "give it such a number")
    if isinstance(value, nodes.ValueOp) and value.type.is_integer:
        least, most = bounds(ctx, value)
        if low <= least and most <= high:
            return ctx.cast(U32, value)
    return coerce(ctx, value, U32, node, f"{what} of {row.name}()")


def option(ctx: Context, row: Intrinsic, value: Value, node: ast.AST, what: str, allowed: Sequence[str]) -> str:
    """A string that chooses among some."""
    if isinstance(value, Text) and value.value in allowed:
        return value.value
    names = ", ".join(f'"{name}"' for name in allowed)
    raise ctx.error(f"{what} of {row.name}() is one of {names}; this is {describe(value)}", node, f'such as "{allowed[-1]}"')


def flag(ctx: Context, row: Intrinsic, value: Value, node: ast.AST, what: str) -> bool:
    """True or False, known to the compiler."""
    known = known_number(value)
    if not isinstance(known, bool):
        raise ctx.error(f"{what} of {row.name}() is True or False, known to the compiler; this is {describe(value)}", node, "write it out")
    return known


def number(ctx: Context, row: Intrinsic, value: Value, node: ast.AST, what: str, low: int, high: int) -> int:
    """A whole number that the compiler knows, within limits."""
    known = known_number(value)
    if not isinstance(known, int) or isinstance(known, bool) or not low <= known <= high:
        shown = describe(value) if known is None else str(known)
        raise ctx.error(
            f"{what} of {row.name}() is a number of {low} to {high} that the compiler knows; this is {shown}",
            node,
            "use a literal, a captured number or a Const parameter",
        )
    return known


def word(ctx: Context, row: Intrinsic, value: Value, node: ast.AST, what: str) -> nodes.ValueOp:
    """An integer of any type as a u32, of which only the low bits count."""
    found = scalar(ctx, value, node, f"{what} of {row.name}()")
    if type_of(found).is_float:
        raise ctx.error(f"{what} of {row.name}() is an integer, not {describe(value)}", node, f"write u32({ctx.text(node)})")
    known = known_number(found)
    return ctx.constant(U32, int(known) % (1 << 32)) if known is not None else ctx.cast(U32, coerce(ctx, found, type_of(found), node))
