"""Structs in kernels: the reads and writes of their parts, and struct values.

A struct value is a `Record` of numbers, records, and arrays that are only read; the IR knows numbers alone. A place such as `steps[i].rate` is loaded with
one check; a whole element is checked once, and its numbers are loaded behind the check. Those that nobody uses are removed later (`cleanup.py`).
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

from kdsl.frontend import arrays, memory
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce
from kdsl.frontend.parts import element, number_field, numbers, positions
from kdsl.frontend.proofs import inside_extent
from kdsl.frontend.values import ArrayRef, Group, Place, Record, Value, describe
from kdsl.ir import nodes
from kdsl.lang.struct_type import ArrayType, FieldType, StructType
from kdsl.lang.types import BOOL, I64, DType

Touch: TypeAlias = Callable[[Context, memory.Base, tuple[nodes.ValueOp, ...], ast.Subscript | None], bool]
"""Notes an access of an element, and says whether it must be checked."""

# -------------------------------------------------------------------------------------------------------------------- reads and writes


def must_check(ctx: Context, place: Place, touch: Touch) -> bool:
    """Note an access; whether its indices must be checked."""
    rank = len(place.indices) - len(place.shape)
    outer = touch(ctx, place.base, place.indices[:rank], place.node)
    if ctx.trusts(place.unchecked):
        return outer
    return outer or not all(inside_extent(ctx, index, extent) for index, extent in zip(place.indices[rank:], place.shape, strict=True))


def read(ctx: Context, place: Place) -> Value:
    """The value of a place: a number, or a copy of all numbers."""
    checked = must_check(ctx, place, memory.touch_read)
    if not isinstance(place.type, StructType | ArrayType):
        register = _register(ctx, place)
        return ctx.get(register) if register is not None else _load(ctx, place, checked=checked)
    held = list(numbers(ctx, place))
    if not checked or _in_registers(ctx, place):
        values = [_number(ctx, number) for number in held]
    else:
        variables = [ctx.new_variable(number.path, number.type) for number in held if isinstance(number.type, DType)]
        with _guarded(ctx, place, "load") as (inside, outside):
            with ctx.nested(inside):
                for variable, number in zip(variables, held, strict=True):
                    ctx.set(variable, _load(ctx, number, checked=False))
            with ctx.nested(outside):
                for variable in variables:
                    ctx.set(variable, ctx.constant(variable.type, 0))
        values = [ctx.get(variable) for variable in variables]
    return assembled(ctx, place.type, iter(values), place.label, ctx.location)


def write(ctx: Context, place: Place, value: Value, node: ast.AST, value_node: ast.AST) -> None:
    """`place = value`; `node` is the left side."""
    memory.refuse_writing(ctx, place.base, node)
    what = f"`{place.label}`" if place.path else f"an element of `{place.memory.name}`"
    values = list(flattened(ctx, place.type, converted(ctx, place.type, value, value_node, what)))
    checked = must_check(ctx, place, memory.touch_written)
    with ctx.at(node):
        if not isinstance(place.type, StructType | ArrayType):
            _store(ctx, place, values[0], checked=checked)
        elif not checked or _in_registers(ctx, place):
            _store_all(ctx, place, values)
        else:
            with _guarded(ctx, place, "store") as (inside, _), ctx.nested(inside):
                _store_all(ctx, place, values)


def load(ctx: Context, base: Value, subscript: Value, node: ast.Subscript) -> Value:
    """The value of `base[subscript]`, whatever its elements are."""
    place = element(ctx, base, subscript, node)
    return memory.load(ctx, base, subscript, node) if place is None else read(ctx, place)


def store(ctx: Context, base: Value, subscript: Value, value: Value, node: ast.Subscript, value_node: ast.AST) -> None:
    """`base[subscript] = value`, whatever its elements are."""
    place = element(ctx, base, subscript, node)
    if place is None:
        memory.store(ctx, base, subscript, value, node, value_node)
    else:
        write(ctx, place, value, node, value_node)


def _store_all(ctx: Context, place: Place, values: Sequence[nodes.ValueOp]) -> None:
    for number, value in zip(numbers(ctx, place), values, strict=True):
        _store(ctx, number, value, checked=False)


@contextmanager
def _guarded(ctx: Context, place: Place, kind: Literal["load", "store"]) -> Iterator[tuple[nodes.Block, nodes.Block]]:
    """One check for all numbers of a place: blocks for what happens if it holds, and if not."""
    site = ctx.new_site(kind, place.name, place.memory, place.shape)
    check = nodes.Check(
        location=ctx.location, type=BOOL, memory=place.memory, indices=place.indices, shape=place.shape, site=site, remote=place.remote
    )
    ctx.emit(check)
    then, orelse = nodes.Block(), nodes.Block()
    mark = len(ctx.set_log)
    yield then, orelse
    ctx.emit(nodes.If(location=ctx.location, condition=check, then=then, orelse=orelse))
    ctx.forget_since(mark)


def _in_registers(ctx: Context, place: Place) -> bool:
    """Whether the place lies in a local array whose elements are variables, and which they are is known."""
    base = place.base
    if not isinstance(base, ArrayRef) or base.registers is None:
        return False
    return memory.known_position(ctx, base, place.indices) is not None


def _register(ctx: Context, place: Place) -> nodes.Variable | None:
    base = place.base
    if not isinstance(base, ArrayRef) or base.registers is None:
        return None
    position = memory.known_position(ctx, base, place.indices)
    return None if position is None else base.registers[(*position, place.path)]


def _number(ctx: Context, place: Place) -> nodes.ValueOp:
    register = _register(ctx, place)
    return ctx.get(register) if register is not None else _load(ctx, place, checked=False)


def _load(ctx: Context, place: Place, *, checked: bool) -> nodes.ValueOp:
    assert isinstance(place.type, DType)
    site = ctx.new_site("load", place.name, place.memory, place.shape)
    value = nodes.Load(
        location=ctx.location,
        type=place.type,
        memory=place.memory,
        indices=place.indices,
        checked=checked,
        site=site,
        remote=place.remote,
        field=number_field(place),
    )
    ctx.emit(value)
    return value


def _store(ctx: Context, place: Place, value: nodes.ValueOp, *, checked: bool) -> None:
    register = _register(ctx, place)
    if register is not None:
        ctx.set(register, value)
        return
    site = ctx.new_site("store", place.name, place.memory, place.shape)
    ctx.emit(
        nodes.Store(
            location=ctx.location,
            memory=place.memory,
            indices=place.indices,
            value=value,
            checked=checked,
            site=site,
            remote=place.remote,
            field=number_field(place),
        )
    )


def fill_registers(ctx: Context, ref: ArrayRef) -> None:
    """Make the variables of a local array of structs in registers, which start as 0."""
    of, registers = ref.array.type, ref.registers
    if registers is None or not isinstance(of, StructType):
        return
    for position in positions(ref.array.shape):
        for number in of.numbers:
            for within in positions(number.shape):
                variable = _variable(ctx, ref, (*position, *within, number.path), number.type)
                ctx.registers.add(variable)
                ctx.set(variable, ctx.constant(number.type, 0))


def _variable(ctx: Context, ref: ArrayRef, key: tuple[object, ...], of: DType) -> nodes.Variable:
    assert ref.registers is not None
    variable = ctx.new_variable(f"{ref.array.name}[{', '.join(map(str, key))}]", of)
    ref.registers[key] = variable
    return variable


# ------------------------------------------------------------------------------------------------------------------------------ values


def construct(ctx: Context, of: StructType, given: Sequence[Value], named: Mapping[str, Value], node: ast.Call) -> Record:
    """`Step(rate, count=3)` in a kernel."""
    names = list(of.by_name)
    form = f"{of.name}({', '.join(names)})"
    if len(given) > len(names):
        raise ctx.error(f"{of.name}() takes {len(names)} values, not {len(given)}", node, f"its form is {form}")
    values = dict(zip(names, given, strict=False))
    places: dict[str, ast.AST] = dict(zip(names, node.args, strict=False))
    for keyword in node.keywords:
        name = keyword.arg or ""
        if name not in of.by_name:
            raise ctx.error(f"{of.name}() has no field `{name}`", keyword.value, f"its fields are {', '.join(names)}")
        if name in values:
            raise ctx.error(f"{of.name}() gets two values for `{name}`", keyword.value, f"its form is {form}")
        values[name], places[name] = named[name], keyword.value
    missing = [name for name in names if name not in values]
    if missing:
        raise ctx.error(f"{of.name}() lacks `{missing[0]}`", node, f"its form is {form}")
    return Record(
        of.name,
        {f.name: converted(ctx, f.type, values[f.name], places[f.name], f"`{of.name}.{f.name}`") for f in of.fields},
        of,
    )


def converted(ctx: Context, of: FieldType, value: Value, node: ast.AST, what: str) -> Value:
    """The value as a field of that type; `what` says in errors what wants it."""
    if isinstance(of, StructType):
        if isinstance(value, Record) and value.struct is of:
            return value
        hint = f"make one: {of.name}({', '.join(of.by_name)})"
        raise ctx.error(f"{what} is {of.with_article}, not {describe(value)}", node, hint)
    if isinstance(of, ArrayType):
        return _converted_array(ctx, of, value, node, what)
    return coerce(ctx, value, of, node, what)


def _converted_array(ctx: Context, of: ArrayType, value: Value, node: ast.AST, what: str) -> ArrayRef:
    if isinstance(value, ArrayRef):
        if value.array.shape != of.shape:
            raise ctx.error(f"{what} has the shape {of.shape}, not {value.array.shape}", node, f"it is {of}")
        if value.member and value.array.type is of.element:
            return value
        items = list(array_items(ctx, value))
    else:
        items = _tuple_items(ctx, of, of.shape, value, node, what)
    name = what.strip("`")
    return array_of(ctx, of, [converted(ctx, of.element, item, node, f"an element of {what}") for item in items], name, node)


def _tuple_items(ctx: Context, of: ArrayType, shape: tuple[int, ...], value: Value, node: ast.AST, what: str) -> list[Value]:
    """The items of a tuple (of tuples, for several dimensions) that has the shape of an array."""
    if not isinstance(value, Group):
        raise ctx.error(f"{what} is {of}, not {describe(value)}", node, "give it a tuple, or an array of fixed shape")
    if len(value.items) != shape[0]:
        raise ctx.error(f"{what} takes {shape[0]} values ({of}), not {len(value.items)}", node, "give it as many as it has elements")
    if len(shape) == 1:
        return list(value.items)
    return [item for part in value.items for item in _tuple_items(ctx, of, shape[1:], part, node, what)]


def assembled(ctx: Context, of: FieldType, values: Iterator[nodes.ValueOp], name: str, node: ast.AST | nodes.Location) -> Value:
    """A value of that type from its numbers in order."""
    if isinstance(of, StructType):
        return Record(of.name, {f.name: assembled(ctx, f.type, values, f"{name}.{f.name}", node) for f in of.fields}, of)
    if isinstance(of, ArrayType):
        return array_of(ctx, of, [assembled(ctx, of.element, values, name, node) for _ in range(of.size)], name, node)
    return next(values)


def flattened(ctx: Context, of: FieldType, value: Value) -> Iterator[nodes.ValueOp]:
    """The numbers of a value of that type, in order."""
    if isinstance(of, StructType):
        assert isinstance(value, Record)
        for part in of.fields:
            yield from flattened(ctx, part.type, value.fields[part.name])
    elif isinstance(of, ArrayType):
        assert isinstance(value, ArrayRef)
        for item in array_items(ctx, value):
            yield from flattened(ctx, of.element, item)
    else:
        assert isinstance(value, nodes.ValueOp)
        yield value


def split(ctx: Context, of: StructType | ArrayType, value: Value) -> list[tuple[str, FieldType, Value]]:
    """The fields of a struct, or the elements of an array in one: how each is called, its type, its value."""
    if isinstance(of, StructType):
        assert isinstance(value, Record)
        return [(f".{part.name}", part.type, value.fields[part.name]) for part in of.fields]
    assert isinstance(value, ArrayRef)
    return [(f"[{number}]", of.element, item) for number, item in enumerate(array_items(ctx, value))]


def whole(ctx: Context, of: StructType | ArrayType, items: Sequence[Value], name: str) -> Value:
    """What has these parts."""
    if isinstance(of, StructType):
        return Record(of.name, {part.name: item for part, item in zip(of.fields, items, strict=True)}, of)
    return array_of(ctx, of, items, name, ctx.location)


def array_of(ctx: Context, of: ArrayType, items: Iterable[Value], name: str, node: ast.AST | nodes.Location) -> ArrayRef:
    """An array in a struct value: a local array of its own, which is only read."""
    array = nodes.Array(name, of.element, of.shape, "local")
    ref = arrays.local_array(ctx, array, node)
    for position, item in zip(positions(of.shape), items, strict=True):
        for part, number in zip(numbers(ctx, _own(ctx, ref, position)), flattened(ctx, of.element, item), strict=True):
            assert isinstance(part.type, DType)
            if ref.registers is not None:
                key = tuple(int(index.value) for index in part.indices if isinstance(index, nodes.Constant))
                ctx.set(_variable(ctx, ref, (*key, part.path) if part.path else key, part.type), number)
            else:
                indices, site = part.indices, ctx.new_site("store", name, array, part.shape)
                within = number_field(part) if part.path else None
                ctx.emit(
                    nodes.Store(location=ctx.location, memory=array, indices=indices, value=number, checked=False, site=site, field=within)
                )
    return dataclasses.replace(ref, member=True)


def array_items(ctx: Context, ref: ArrayRef) -> Iterator[Value]:
    """The elements of an array of fixed shape, in order."""
    for position in positions(ref.array.shape):
        place = _own(ctx, ref, position)
        if isinstance(ref.array.type, StructType):
            yield read(ctx, place)
        elif ref.registers is not None:
            yield ctx.get(ref.registers[position])
        else:
            array, site = ref.array, ctx.new_site("load", ref.array.name, ref.array)
            value = nodes.Load(location=ctx.location, type=array.type, memory=array, indices=place.indices, checked=False, site=site)
            ctx.emit(value)
            yield value


def _own(ctx: Context, ref: ArrayRef, position: tuple[int, ...]) -> Place:
    return Place(ref, tuple(ctx.constant(I64, index) for index in position), None, ref.array.type)
