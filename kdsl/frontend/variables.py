"""Names: reading them, assigning to them, the one type that each has, and whether they are certainly assigned where they are read."""

from __future__ import annotations

import ast
from typing import TypeAlias, TypeVar

import numpy as np

from kdsl.frontend import structs, tables
from kdsl.frontend.captures import MISSING
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, is_loose, type_of, with_article
from kdsl.frontend.decisions import Key, NameType
from kdsl.frontend.frames import AnySlot, FixedSlot, GroupSlot, Slot
from kdsl.frontend.values import Foreign, Group, Literal, LiteralChoice, Record, Value, Vector, describe, from_python
from kdsl.frontend.vectors import coerce_vector
from kdsl.ir import nodes
from kdsl.lang.struct_type import ArrayType, FieldType, StructType
from kdsl.lang.types import BOOL, DTYPES, F32, DType, promote
from kdsl.lang.vectors import VectorType

Declared: TypeAlias = "DType | VectorType | tuple[Declared, ...]"
"""What a local name can be declared to be: a number, a vector, a struct, or a tuple."""


def read(ctx: Context, node: ast.Name) -> Value:
    """The value of a name."""
    frame, name = ctx.frame, node.id
    if name not in frame.source.names.local:
        return captured(ctx, name, node)
    if frame.assigned is not None and name not in frame.assigned:
        raise _unassigned(ctx, node)
    if name in frame.numbers:
        return frame.numbers[name]
    if name in frame.slots:
        return read_slot(ctx, frame.slots[name])
    return frame.env[name]


def _unassigned(ctx: Context, node: ast.Name) -> Exception:
    source, name = ctx.frame.source, node.id
    # of several assignments the last one before this place says most
    before = [place for place in source.names.places[name] if place.lineno <= node.lineno]  # type: ignore[attr-defined]
    shown = before[-1] if before else source.names.places[name][0]
    message = f"`{name}` may have no value here" if before and shown.lineno < node.lineno else f"`{name}` has no value here"  # type: ignore[attr-defined]
    text = (
        "it is assigned here, but not on every way to the use"
        if "may" in message
        else "the assignment here makes it a name of this function"
    )
    hint = f"assign `{name}` on every way, or once before the branch or loop"
    if "may" not in message:
        hint = f"assign `{name}` before it is read; a global of that name is hidden by the assignment"
    return ctx.error(message, node, hint, [(text, ctx.locate(shown))])


def captured(ctx: Context, name: str, node: ast.expr) -> Value:
    """The frozen value of a (dotted) name from outside."""
    values = ctx.frame.source.captures.values
    value = values.get(name, MISSING)
    if value is MISSING:
        raise ctx.error(f"`{name}` is not defined", node, f"check the spelling, or define `{name}` before the kernel is first compiled")
    if isinstance(value, TypeVar) and value in ctx.frame.types:
        return ctx.frame.types[value]
    meaning = from_python(name, value)
    if isinstance(meaning, Foreign):
        raise foreign(ctx, meaning, node)
    return tables.resolve(ctx, name, meaning, node)


def foreign(ctx: Context, value: Foreign, node: ast.expr) -> Exception:
    """The error for a Python object that means nothing in a kernel."""
    what, name = value.value, value.name
    kind = type(what).__name__
    short = name.rsplit(".", 1)[-1]
    if callable(what) and not isinstance(what, type):
        import kdsl.mathematics as mathematics  # it is written in the language, so it needs the frontend
        from kdsl.lang.intrinsics import INTRINSICS

        if short in INTRINSICS or hasattr(mathematics, short):
            return ctx.error(f"`{name}` is a function of Python's", node, f"use kdsl.{short}")
        if kind == "function":
            return ctx.error(f"`{name}` is a plain Python function", node, f"mark `{short}` with @function, so that kernels can call it")
        return ctx.error(f"`{name}` ({kind}) is not part of the language", node, "a kernel calls @functions and what kdsl provides")
    if isinstance(what, type):
        hint = "mark it with @struct; make its values in the kernel, or pass them as arguments"
        if issubclass(what, np.generic):
            element = next((of.name for of in DTYPES.values() if of.numpy.type is what), None)
            hint = f"write kdsl.{element}" if element else "the element types are those of kdsl, such as kdsl.f32"
        return ctx.error(f"the class `{name}` has no meaning in a kernel", node, hint)
    if isinstance(what, TypeVar):
        return ctx.error(
            f"`{name}` is a type variable that no parameter here has", node, f"annotate one with it, such as `x: Slice[{short}]`"
        )
    return ctx.error(
        f"`{name}` is a captured {kind}; a kernel captures numbers, tuples of numbers, types and functions",
        node,
        f"pass `{name}` as an argument",
    )


def read_slot(ctx: Context, slot: AnySlot) -> Value:
    """The present value of a name that is a variable."""
    if isinstance(slot, FixedSlot):
        return slot.value
    if isinstance(slot, GroupSlot):
        if slot.vector is not None:
            return Vector(slot.vector, tuple(ctx.get(variable) for variable in variables_of(slot)))
        items = tuple(read_slot(ctx, item) for item in slot.items)
        return Group(items) if slot.of is None else structs.whole(ctx, slot.of, items, slot.name)
    value = ctx.get(slot.variable)
    if slot.weak:
        ctx.weak.add(value)
    return ctx.cast(slot.type, value)


def variables_of(slot: AnySlot | None) -> list[nodes.Variable]:
    """All variables behind a name."""
    if isinstance(slot, Slot):
        return [slot.variable]
    if isinstance(slot, GroupSlot):
        return [variable for item in slot.items for variable in variables_of(item)]
    return []


def assign(ctx: Context, name: str, value: Value, node: ast.AST, value_node: ast.AST) -> None:
    """`name = value`; `node` is the name where it is assigned."""
    frame = ctx.frame
    if name in frame.source.names.direct:
        if isinstance(value, nodes.ValueOp) and not value.hint:
            value.hint = name
        frame.env[name] = value
    else:
        slot = frame.slots.get(name)
        if slot is None:
            frame.slots[name] = new_slot(ctx, name, value, (*frame.key, name), node, value_node)
        else:
            assign_slot(ctx, name, slot, value, node, value_node)
    if frame.assigned is not None:
        frame.assigned.add(name)


def declare(ctx: Context, name: str, of: Declared, node: ast.AST) -> None:
    """`name: of`: the name has this type, whatever is assigned to it."""
    frame = ctx.frame
    slot = frame.slots.get(name)
    if slot is None:
        frame.slots[name] = _declared_slot(ctx, name, of, (*frame.key, name), ctx.locate(node))
    elif not _has_type(slot, of):
        raise ctx.error(f"`{name}` is declared twice, with two types", node, "give it one type", [("the other is here", slot.location)])


def _declared_slot(ctx: Context, name: str, of: Declared | ArrayType, key: Key, location: nodes.Location) -> AnySlot:
    if isinstance(of, tuple):
        items = [_declared_slot(ctx, f"{name}.{i}", item, (*key, i), location) for i, item in enumerate(of)]
        return GroupSlot(items, location)
    if isinstance(of, VectorType):
        return vector_slot(ctx, name, of, key, location, declared=True)
    if isinstance(of, StructType):
        items = [_declared_slot(ctx, f"{name}.{f.name}", f.type, (*key, f".{f.name}"), location) for f in of.fields]
        return GroupSlot(items, location, of, name)
    if isinstance(of, ArrayType):
        items = [_declared_slot(ctx, f"{name}[{i}]", of.element, (*key, f"[{i}]"), location) for i in range(of.size)]
        return GroupSlot(items, location, of, name)
    return Slot(ctx.new_variable(name, of), key, False, False, location, declared=True)


def _has_type(slot: AnySlot, of: Declared) -> bool:
    if isinstance(slot, GroupSlot):
        if isinstance(of, tuple):
            return slot.of is None and slot.vector is None and len(of) == len(slot.items) and all(map(_has_type, slot.items, of))
        return of in (slot.of, slot.vector)
    return isinstance(slot, Slot) and slot.variable.type is of


def vector_slot(ctx: Context, name: str, of: VectorType, key: Key, place: nodes.Location, *, declared: bool = False) -> GroupSlot:
    """The slot for a name of vectors: a variable per number."""
    items: list[AnySlot] = [
        Slot(ctx.new_variable(f"{name}[{lane}]", of.element), (*key, lane), False, False, place, declared=True) for lane in range(of.lanes)
    ]
    return GroupSlot(items, place, vector=of, declared=declared)


def new_slot(ctx: Context, name: str, value: Value, key: Key, node: ast.AST, value_node: ast.AST) -> AnySlot:
    """The slot for a name at its first assignment, which it makes."""
    place = ctx.locate(node)
    if isinstance(value, Vector):
        whole = vector_slot(ctx, name, value.type, key, place)
        assign_slot(ctx, name, whole, value, node, value_node)
        return whole
    if isinstance(value, Group):
        items = [new_slot(ctx, f"{name}.{i}", item, (*key, i), node, value_node) for i, item in enumerate(value.items)]
        return GroupSlot(items, place)
    if isinstance(value, Record) and value.struct is not None:
        return _struct_slot(ctx, name, value.struct, value, key, node, value_node)
    if not isinstance(value, Literal | LiteralChoice | nodes.ValueOp):
        return FixedSlot(value, place)
    loose = is_loose(ctx, value)
    # what an earlier pass decided counts for what starts as a literal only: the value may have been weak then, and have its own type by now
    decided = (ctx.decisions.types.get(key) if loose else None) or NameType(type_of(value), loose, place)
    slot = Slot(ctx.new_variable(name, decided.type), key, decided.weak, loose, decided.location)
    if slot.weak:
        ctx.weak_names[key] = decided
    assign_slot(ctx, name, slot, value, node, value_node)
    return slot


def _struct_slot(ctx: Context, name: str, of: FieldType, value: Value, key: Key, node: ast.AST, value_node: ast.AST) -> AnySlot:
    """The slot for a struct, or for a part of one: a variable per number."""
    if not isinstance(of, StructType | ArrayType):
        return new_slot(ctx, name, value, key, node, value_node)
    items = [
        _struct_slot(ctx, name + suffix, part_type, part, (*key, suffix), node, value_node)
        for suffix, part_type, part in structs.split(ctx, of, value)
    ]
    return GroupSlot(items, ctx.locate(node), of, name)


def are_alike(a: Value, b: Value) -> bool:
    """Whether both are tuples of as many items, or the same struct: what one name can stand for, one after the other."""
    if isinstance(a, Group):
        return isinstance(b, Group) and len(a.items) == len(b.items)
    return isinstance(a, Record) and isinstance(b, Record) and a.struct is not None and a.struct is b.struct


def assign_slot(ctx: Context, name: str, slot: AnySlot, value: Value, node: ast.AST, value_node: ast.AST) -> None:
    """Assign to a name that has a slot."""
    if isinstance(slot, GroupSlot) and slot.of is not None:
        if isinstance(slot.of, StructType) and not (isinstance(value, Record) and value.struct is slot.of):
            raise _two_kinds(ctx, name, slot.location, slot.of.with_article, describe(value), node)
        for item, (suffix, _, part) in zip(slot.items, structs.split(ctx, slot.of, value), strict=True):
            assign_slot(ctx, name + suffix, item, part, node, value_node)
    elif isinstance(slot, GroupSlot) and slot.vector is not None:
        if slot.declared:
            value = coerce_vector(ctx, value, slot.vector, value_node, f"`{name}`")
        if not isinstance(value, Vector) or value.type is not slot.vector:
            raise _two_kinds(
                ctx, name, slot.location, str(slot.vector), describe(value), node, f"write {slot.vector}(…), or use another name"
            )
        for variable, number in zip(variables_of(slot), value.items, strict=True):
            ctx.set(variable, number)
    elif isinstance(slot, GroupSlot):
        if not isinstance(value, Group) or len(value.items) != len(slot.items):
            raise _two_kinds(ctx, name, slot.location, f"a tuple of {len(slot.items)}", describe(value), node)
        for position, (item, part) in enumerate(zip(slot.items, value.items, strict=True)):
            assign_slot(ctx, f"{name}[{position}]", item, part, node, value_node)
    elif isinstance(slot, FixedSlot):
        if value != slot.value:
            raise ctx.error(
                f"`{name}` stands for {describe(slot.value)} and cannot be assigned again",
                node,
                "only names of numbers can change; use another name",
                [("it was assigned here", slot.location)],
            )
    elif not isinstance(value, Literal | LiteralChoice | nodes.ValueOp):
        hint = f"let it begin as {value.type}(…), or use another name" if isinstance(value, Vector) else "use another name"
        raise _two_kinds(ctx, name, slot.location, f"a number ({slot.variable.type})", describe(value), node, hint)
    else:
        _assign_number(ctx, name, slot, value, node, value_node)


def _assign_number(
    ctx: Context, name: str, slot: Slot, value: Literal | LiteralChoice | nodes.ValueOp, node: ast.AST, value_node: ast.AST
) -> None:
    has, gets = slot.type, type_of(value)
    place = ctx.locate(node)
    if slot.declared:
        pass  # whatever converts unasked
    elif is_loose(ctx, value):
        if slot.weak and gets.is_float and not has.is_float:
            _grow(ctx, slot, NameType(F32, True, place))
        elif (gets.is_float and has.is_integer) or has.is_bool:
            raise _two_types(ctx, name, slot, gets, node)
    else:
        joined = _joined(slot, has, gets)
        if joined is None:
            raise _two_types(ctx, name, slot, gets, node)
        if slot.weak or joined is not has:
            _grow(ctx, slot, NameType(joined, False, place))
    # where the type has grown, the variable still has the old one: this pass will be repeated, and only its types count
    ctx.set(slot.variable, ctx.cast(slot.variable.type, coerce(ctx, value, slot.type, value_node, f"`{name}`")))


def _joined(slot: Slot, has: DType, gets: DType) -> DType | None:
    """The type of a name after another value was assigned to it, None if they do not agree."""
    if slot.weak:
        if gets is BOOL or (has.is_float and gets.is_integer):
            return None
        return gets
    if has is gets:
        return has
    return promote(has, gets) if slot.from_literal and has.is_float == gets.is_float else None


def _grow(ctx: Context, slot: Slot, decision: NameType) -> None:
    """Record a better type for a name."""
    ctx.decisions.decide(slot.key, decision)
    slot.grown = decision.type
    slot.weak = decision.weak
    if decision.weak:
        ctx.weak_names[slot.key] = decision
    else:
        ctx.weak_names.pop(slot.key, None)


def _two_types(ctx: Context, name: str, slot: Slot, gets: DType, node: ast.AST) -> Exception:
    has = slot.type
    return ctx.error(
        f"`{name}` would have two types, {has} and {gets}",
        node,
        f"a name has one type: convert to {has} here, or use another name",
        [(f"it is {with_article(has)} since here", slot.location)],
    )


def _two_kinds(
    ctx: Context, name: str, first: nodes.Location, was: str, becomes: str, node: ast.AST, hint: str = "use another name"
) -> Exception:
    return ctx.error(f"`{name}` was {was} and would become {becomes}", node, hint, [("it was assigned here", first)])
