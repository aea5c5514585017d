"""Constant arrays in a kernel: captured tables become arrays of the kernel, and elements at known places become constants."""

from __future__ import annotations

import ast

from kdsl.frontend.context import Context
from kdsl.frontend.values import ArrayRef, Group, Value
from kdsl.ir import nodes
from kdsl.lang.constants import ConstantArray, number_at
from kdsl.lang.limits import CONSTANT_BYTES, footprint


def resolve(ctx: Context, name: str, value: Value, node: ast.AST) -> Value:
    """The value, with constant arrays as arrays of the kernel, each once."""
    if isinstance(value, Group):
        return Group(tuple(resolve(ctx, f"{name}[{position}]", item, node) for position, item in enumerate(value.items)))
    if not isinstance(value, ConstantArray):
        return value
    known = ctx.tables.get(value)
    if known is None:
        array = nodes.Array(name.rsplit(".", 1)[-1], value.dtype, value.shape, "constant", content=value.content)
        ctx.tables[value] = known = ArrayRef(array, read_only=True)
        ctx.arrays.append(array)
        taken = sum(footprint(a.size, a.type.itemsize) for a in ctx.arrays if a.space == "constant")
        if taken > CONSTANT_BYTES:
            raise ctx.error(
                f"the constant arrays of the kernel take {taken} bytes up to `{name}`",
                node,
                f"a kernel has {CONSTANT_BYTES} bytes of constant memory: pass large tables as a Slice",
            )
    return known


def known_element(ctx: Context, array: nodes.Array, places: tuple[nodes.ValueOp, ...]) -> nodes.ValueOp | None:
    """The element of a constant array as a constant, if the place is known to be inside."""
    position = tuple(int(place.value) for place in places if isinstance(place, nodes.Constant))
    if array.space != "constant" or len(position) < len(places):
        return None
    if not all(0 <= index < extent for index, extent in zip(position, array.shape, strict=True)):
        return None
    number = number_at(array.type, array.shape, array.content, position)
    return None if number is None else ctx.constant(array.type, number)


def used(arrays: list[nodes.Array], body: nodes.Block) -> list[nodes.Array]:
    """The arrays without constant ones of which nothing is read at run time."""
    touched: set[nodes.Memory] = set()
    for op in nodes.walk(body):
        if isinstance(op, nodes.Instruction):
            touched.update(element.memory for element in op.elements)
        elif isinstance(op, nodes.Access):
            touched.add(op.memory)
    return [array for array in arrays if array.space != "constant" or array in touched]
