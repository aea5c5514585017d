"""Shared and local arrays and barriers: how a kernel makes them, and where they lie."""

from __future__ import annotations

import ast
from typing import Final

from kdsl.frontend import shared
from kdsl.frontend.context import Context
from kdsl.frontend.guards import begin_at, known_extents
from kdsl.frontend.values import ArrayRef, BarrierRef, Group, Value, ViewRef, as_type, describe, known_number
from kdsl.ir import nodes
from kdsl.ir.shared import shared_layout
from kdsl.lang import swizzle
from kdsl.lang.limits import ALIGNMENT, LARGEST_ALIGNMENT, LOCAL_BYTES, SHARED_BYTES, footprint
from kdsl.lang.struct_type import StructType
from kdsl.lang.types import U64, DType
from kdsl.lang.vectors import VectorType

_ALIGNMENTS: Final = tuple(1 << power for power in range(ALIGNMENT.bit_length() - 1, LARGEST_ALIGNMENT.bit_length()))
"""Bytes at a multiple of which a shared array can begin."""
_LARGEST_IN_REGISTERS: Final = 256
"""Numbers of a local array that is kept in registers: no GPU has more per thread."""


def new_array(ctx: Context, space: str, arguments: tuple[Value, ...], node: ast.Call) -> ArrayRef | ViewRef:
    """`shared_array(shape, dtype, align)` or `local_array(shape, dtype)`."""
    name = f"{space}_array"
    if len(arguments) != (4 if space == "shared" else 2):
        raise ctx.error(f"{name}() takes a shape and an element type", node, f"such as {name}((16, 16), f32)")
    shape, of = arguments[:2]
    items = shape.items if isinstance(shape, Group) else (shape,)
    of = as_type(of)
    if not isinstance(of, DType | VectorType):
        raise ctx.error(f"the element type of {name}() is {describe(of)}", node, f"such as {name}((16, 16), f32)")
    if space == "shared" and any(known_number(item) is None for item in items):
        partly = [item if known_number(item) is None else _extent(ctx, item, name, node) for item in items]
        made, view = shared.new_view(ctx, of, partly, _alignment(ctx, arguments[2], node), _array_name(ctx, node) or name, node)
        _swizzle(ctx, view, arguments[3], node)
        return made
    extents = tuple(_extent(ctx, item, name, node) for item in items)
    if not extents:
        raise ctx.error(f"{name}() of no dimensions", node, "a single number is a variable")
    vector = of if isinstance(of, VectorType) else None
    if vector is not None:
        extents = (*extents[:-1], extents[-1] * vector.lanes)
    number = of.element if isinstance(of, VectorType) else of
    array = nodes.Array(_array_name(ctx, node) or name, number, extents, "shared" if space == "shared" else "local")
    if space == "shared":
        array.alignment = _alignment(ctx, arguments[2], node)
        _swizzle(ctx, array, arguments[3], node)
        _place(ctx, array, node)
        return ArrayRef(array, vector=vector)
    ref = local_array(ctx, array, node, vector)
    if ref.registers is None:
        ctx.emit(nodes.Clear(location=ctx.location, array=array))
    return ref


def local_array(ctx: Context, array: nodes.Array, node: ast.AST | nodes.Location, vector: VectorType | None = None) -> ArrayRef:
    """A local array, in registers if it can be."""
    key = ctx.frame.fresh_key("array")
    numbers = array.size * (array.type.count if isinstance(array.type, StructType) else 1)
    if numbers > _LARGEST_IN_REGISTERS or key in ctx.decisions.in_memory:
        _place(ctx, array, node)
        return ArrayRef(array, key=key, vector=vector)
    return ArrayRef(array, registers={}, key=key, vector=vector)


def new_barriers(ctx: Context, arguments: tuple[Value, ...], node: ast.Call) -> BarrierRef:
    """`shared_barriers(count)`."""
    if len(arguments) != 1:
        raise ctx.error("shared_barriers() takes the number of barriers", node, "such as shared_barriers(4)")
    array = nodes.Array(_array_name(ctx, node) or "barriers", U64, (_extent(ctx, arguments[0], "shared_barriers", node),), "shared")
    _place(ctx, array, node)
    return BarrierRef(array)


def _place(ctx: Context, array: nodes.Array, node: ast.AST | nodes.Location) -> None:
    """Give an array memory, if there is so much."""
    ctx.arrays.append(array)
    if array.space == "shared":
        most, whose, used = SHARED_BYTES, "a block of the largest GPU has", shared_layout(ctx.arrays).size
    else:
        most, whose = LOCAL_BYTES, "a thread has"
        used = sum(footprint(a.size, a.type.itemsize) for a in ctx.arrays if a.space == array.space)
    if used > most:
        raise ctx.error(
            f"the {array.space} arrays of the kernel take {used} bytes up to this one",
            node,
            f"use smaller arrays or narrower elements: {whose} {most} bytes",
        )


def _extent(ctx: Context, value: Value, name: str, node: ast.Call) -> int:
    extent = known_number(value)
    if not isinstance(extent, int) or isinstance(extent, bool):
        hint = "use literals, captured numbers or Const parameters"
        raise ctx.error(f"the shape of {name}() must be known to the compiler, and is {describe(value)}", node, hint)
    if extent < 1:
        raise ctx.error(f"{name}() with an extent of {extent}", node, "each extent is at least 1")
    return extent


def _alignment(ctx: Context, value: Value, node: ast.Call) -> int:
    alignment = known_number(value)
    if isinstance(alignment, int) and alignment in _ALIGNMENTS:
        return alignment
    place = next((keyword.value for keyword in node.keywords if keyword.arg == "align"), node.args[-1])
    what = describe(value) if alignment is None else str(alignment)
    choices = ", ".join(map(str, _ALIGNMENTS))
    raise ctx.error(f"the alignment of a shared array is one of {choices}, and this is {what}", place, "such as align=128")


def _swizzle(ctx: Context, array: nodes.Array | nodes.SharedView, value: Value, node: ast.Call) -> None:
    """Lay the rows of an array out in a swizzled way; how long they are is part of it."""
    span = known_number(value)
    if span == 0:
        return
    place = next((keyword.value for keyword in node.keywords if keyword.arg == "swizzle"), node.args[-1])
    if not isinstance(span, int) or span not in swizzle.SPANS:
        what = describe(value) if span is None else str(span)
        raise ctx.error(
            f"the swizzle of a shared array is 0, {', '.join(map(str, swizzle.SPANS))}, and this is {what}", place, "such as swizzle=128"
        )
    last = known_extents(array)[-1]
    if last is None or last * array.type.itemsize != span:
        long = "as long as the launch decides" if last is None else f"{last * array.type.itemsize} bytes long"
        raise ctx.error(
            f"the rows of `{array.name}` are {long}",
            place,
            f"with swizzle={span} they have {span // array.type.itemsize} elements of {array.type}; other extents may be known to the launch only",
        )
    array.swizzle = span
    begin_at(array, swizzle.pattern_bytes(span))


def _array_name(ctx: Context, node: ast.Call) -> str | None:
    """The name that the array is assigned to, for people."""
    for name, value_node in ctx.frame.source.names.arrays:
        if value_node is node:
            return name
    return None


def fill_registers(ctx: Context, ref: ArrayRef | ViewRef) -> None:
    """Make the variables of a local array in registers, which start as 0."""
    if isinstance(ref, ViewRef) or ref.registers is None:
        return
    positions: list[tuple[int, ...]] = [()]
    for extent in ref.array.shape:
        positions = [(*position, i) for position in positions for i in range(extent)]
    zero = ctx.constant(ref.array.type, 0)
    for position in positions:
        variable = ctx.new_variable(f"{ref.array.name}[{', '.join(map(str, position))}]", ref.array.type)
        ctx.registers.add(variable)
        ref.registers[position] = variable
        ctx.set(variable, zero)
