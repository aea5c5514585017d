"""Elements of arrays: reads, writes, their checks, and the witnesses of `DisjointSlice`."""

from __future__ import annotations

import ast
import dataclasses
from typing import Final, TypeAlias

from kdsl.frontend import shared, tables, vectors
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, index
from kdsl.frontend.proofs import holds, inside_extent, inside_view
from kdsl.frontend.values import (
    ArrayRef,
    BarrierRef,
    Group,
    Literal,
    MapRef,
    RemoteRef,
    Value,
    Vector,
    ViewRef,
    as_type,
    describe,
    known_number,
)  # fmt: skip
from kdsl.ir import nodes
from kdsl.ir.shared import shared_layout
from kdsl.lang import swizzle
from kdsl.lang.limits import ALIGNMENT, LARGEST_ALIGNMENT, LOCAL_BYTES, SHARED_BYTES, footprint
from kdsl.lang.struct_type import StructType
from kdsl.lang.types import I64, U64, DType
from kdsl.lang.vectors import VectorType
from kdsl.lang.views import view_text

WITNESSES: Final = {"thread_index": (), "block_index": ("first_thread",), "row_index": ("first_thread", "first_lane")}
"""For each witness, what must be known of the thread for it to be unique (one of them)."""
_GUARDS: Final = {"block_index": "if is_first_thread():", "row_index": "if is_first_lane():"}
_ALIGNMENTS: Final = tuple(1 << power for power in range(ALIGNMENT.bit_length() - 1, LARGEST_ALIGNMENT.bit_length()))
"""Bytes at a multiple of which a shared array can begin."""
_LARGEST_IN_REGISTERS: Final = 256
"""Numbers of a local array that is kept in registers: no GPU has more per thread."""


def load(ctx: Context, base: Value, subscript: Value, node: ast.Subscript) -> Value:
    """`base[subscript]`."""
    if isinstance(base, Group):
        return base.items[_tuple_position(ctx, base, subscript, node)]
    if isinstance(base, Vector):
        return vectors.item(ctx, base, subscript, node)
    if isinstance(base, ViewRef):
        places = _view_indices(ctx, base.view, subscript, node)
        _access(ctx, base, places, node, writes=False)
        base.view.read = True
        checked = _view_checked(ctx, base, places)
        return _loaded(ctx, base.view, base.vector, places, checked)
    if isinstance(base, ArrayRef):
        places = _array_indices(ctx, base, subscript, node)
        registers = _registers(ctx, base, places)
        if registers is not None:
            values = tuple(ctx.get(register) for register in registers)
            return values[0] if base.vector is None else Vector(base.vector, values)
        known = tables.known_element(ctx, base.array, places) if base.vector is None else None
        if known is not None:
            return known
        checked = _array_checked(ctx, base, places)
        return _loaded(ctx, base.array, base.vector, places, checked)
    if isinstance(base, RemoteRef):
        places, checked = remote_place(ctx, base, subscript, node)
        return _loaded(ctx, base.memory, base.own.vector, places, checked, base.rank)
    raise ctx.error(f"{describe(base)} has no elements", node.value, "only arrays, tuples and vectors are indexed")


def store(ctx: Context, base: Value, subscript: Value, value: Value, node: ast.Subscript, value_node: ast.AST) -> None:
    """`base[subscript] = value`."""
    if isinstance(base, ViewRef | ArrayRef | RemoteRef):
        refuse_writing(ctx, base, node)
    if isinstance(base, ViewRef):
        view = base.view
        places = _view_indices(ctx, view, subscript, node)
        _access(ctx, base, places, node, writes=True)
        numbers = _numbers(ctx, base, value, value_node, view.name)
        view.written = True
        checked = _view_checked(ctx, base, places)
        with ctx.at(node):
            _stored(ctx, view, places, numbers, checked)
    elif isinstance(base, ArrayRef):
        places = _array_indices(ctx, base, subscript, node)
        numbers = _numbers(ctx, base, value, value_node, base.array.name)
        registers = _registers(ctx, base, places)
        if registers is not None:
            for register, number in zip(registers, numbers, strict=True):
                ctx.set(register, number)
            return
        checked = _array_checked(ctx, base, places)
        with ctx.at(node):
            _stored(ctx, base.array, places, numbers, checked)
    elif isinstance(base, RemoteRef):
        array = base.memory
        if base.own.read_only:
            raise _read_only(ctx, array.name, f"SliceMut[{vectors.element_type(base.own)}]", node)
        places, checked = remote_place(ctx, base, subscript, node)
        numbers = _numbers(ctx, base.own, value, value_node, array.name)
        with ctx.at(node):
            _stored(ctx, array, places, numbers, checked, base.rank)
    elif isinstance(base, Vector):
        raise ctx.error("a vector cannot be changed", node, f"make a new one: {base.type}(…)")
    else:
        what = "a tuple cannot be changed" if isinstance(base, Group) else f"{describe(base)} has no elements"
        raise ctx.error(what, node, "assign to elements of arrays only")


def refuse_writing(ctx: Context, base: ViewRef | ArrayRef | RemoteRef, node: ast.AST) -> None:
    """An error at `node` if elements of the array are only read here."""
    base = base.own if isinstance(base, RemoteRef) else base
    if isinstance(base, ArrayRef):
        if base.member or base.array.space == "constant":
            what = "an array in a struct" if base.member else "a constant array"
            raise ctx.error(f"`{base.array.name}` is {what}, which is only read", node, "copy it to a shared or local array to change it")
        if base.read_only:
            raise _read_only(ctx, base.array.name, f"SliceMut[{vectors.element_type(base)}]", node)
        return
    view = base.view
    if base.read_only and view.kind != "Slice":
        raise _read_only(ctx, view.name, _mutable(view), node)
    if view.kind == "Slice":
        hint = f"declare it as {_mutable(view)}"
        if view.rank == 1:
            hint += f", or as DisjointSlice[{view.element}] if each thread writes its own element"
        raise ctx.error(f"`{view.name}` is a Slice, which is only read", node, hint)


def _read_only(ctx: Context, name: str, wanted: str, node: ast.AST) -> Exception:
    return ctx.error(
        f"`{name}` came into {ctx.frame.source.name} as a Slice, which is only read", node, f"annotate the parameter as {wanted}"
    )


def _mutable(view: nodes.View) -> str:
    """The annotation with which a view of the same rank may be written anywhere."""
    return view_text("SliceMut", view.element.name, view.rank, view.strided)


def _numbers(ctx: Context, base: ViewRef | ArrayRef, value: Value, node: ast.AST, name: str) -> tuple[nodes.ValueOp, ...]:
    """What is stored in an element: a number, or the numbers of a vector."""
    purpose = f"an element of `{name}`"
    if base.vector is not None:
        return vectors.coerce_vector(ctx, value, base.vector, node, purpose).items
    return (coerce(ctx, value, base.view.type if isinstance(base, ViewRef) else base.array.type, node, purpose),)


def _loaded(
    ctx: Context,
    memory: nodes.Memory,
    vector: VectorType | None,
    places: tuple[nodes.ValueOp, ...],
    checked: bool,
    remote: nodes.ValueOp | None = None,
) -> Value:
    if vector is not None:
        return vectors.loaded(ctx, memory, places, vector, checked=checked, remote=remote)
    site = ctx.new_site("load", memory.name, memory)
    value = nodes.Load(
        location=ctx.location, type=memory.type, memory=memory, indices=places, checked=checked, site=site, remote=remote
    )  # fmt: skip
    ctx.emit(value)
    return value


def _stored(
    ctx: Context, memory: nodes.Memory, places: tuple[nodes.ValueOp, ...], numbers: tuple[nodes.ValueOp, ...], checked: bool,
    remote: nodes.ValueOp | None = None,
) -> None:  # fmt: skip
    if len(numbers) > 1:
        vectors.stored(ctx, memory, places, numbers, checked=checked, remote=remote)
        return
    site = ctx.new_site("store", memory.name, memory)
    (value,) = numbers
    ctx.emit(nodes.Store(location=ctx.location, memory=memory, indices=places, value=value, checked=checked, site=site, remote=remote))


def _tuple_position(ctx: Context, base: Group, subscript: Value, node: ast.Subscript) -> int:
    position = known_number(subscript)
    if not isinstance(position, int) or isinstance(position, bool):
        raise ctx.error(
            "a tuple is indexed by a number that the compiler knows", node.slice, "use a local_array for indices known at run time"
        )
    if not -len(base.items) <= position < len(base.items):
        raise ctx.error(f"index {position} of a tuple of {len(base.items)}", node.slice, f"indices are 0 to {len(base.items) - 1}")
    return position


# ------------------------------------------------------------------------------------------------------------------------------- views


def _view_indices(ctx: Context, view: nodes.View, subscript: Value, node: ast.Subscript) -> tuple[nodes.ValueOp, ...]:
    items = subscript.items if isinstance(subscript, Group) else (subscript,)
    if len(items) != view.rank:
        if view.rank == 1:
            raise ctx.error(
                f"`{view.name}` has one dimension, not {len(items)}",
                node.slice,
                f"compute the index, as in y[row * columns + column], or declare it as {view_text(view.kind, view.element.name, len(items))}"
                if 2 <= len(items) <= 4 and view.kind != "DisjointSlice"
                else "compute the index, as in y[row * columns + column]",
            )
        names = ", ".join("ijkl"[: view.rank])
        raise ctx.error(
            f"`{view.name}` has {view.rank} dimensions, and is indexed with {len(items)}", node.slice, f"write {view.name}[{names}]"
        )
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == len(items) else [node.slice] * len(items)
    places = []
    for dimension, (item, part) in enumerate(zip(items, parts, strict=True)):
        _refuse_negative(ctx, item, view, dimension, part)
        places.append(index(ctx, item, part, f"an index of `{view.name}`"))
    return tuple(places)


def _refuse_negative(ctx: Context, subscript: Value, view: nodes.View, dimension: int, node: ast.AST) -> None:
    position = known_number(subscript)
    if position is not None and position < 0:
        name = view.name
        last = f"element is {name}[len({name}) - 1]" if view.rank == 1 else f"one here is {name}.shape[{dimension}] - 1"
        raise ctx.error(f"index {position} of `{name}` is negative", node, f"indices start at 0; the last {last}")


def _view_checked(ctx: Context, base: ViewRef, places: tuple[nodes.ValueOp, ...]) -> bool:
    if base.unchecked:
        return ctx.checked
    lanes = [1] * (len(places) - 1) + [base.vector.lanes if base.vector else 1]
    return ctx.checked or not all(inside_view(ctx, base.view, place, dimension, lanes[dimension]) for dimension, place in enumerate(places))


def unique_witness(ctx: Context, place: nodes.ValueOp) -> str | None:
    """The witness that an index is, if it is unique to the thread here."""
    kind = ctx.witnesses.get(place)
    if kind is None:
        return None
    needs = WITNESSES[kind]
    return kind if not needs or holds(ctx, *needs) else None


def _access(ctx: Context, base: ViewRef, places: tuple[nodes.ValueOp, ...], node: ast.Subscript, *, writes: bool) -> None:
    """Note through which witness a view is accessed; a DisjointSlice demands one, and always the same."""
    view = base.view
    place = places[0]
    witness = unique_witness(ctx, place) if view.rank == 1 else None  # a witness is unique along one dimension only
    if witness is not None and base.vector is not None:
        witness += f" as {base.vector}"  # the same index names other memory than without
    seen = ctx.accesses.setdefault(view, [])
    if view.kind == "DisjointSlice":
        if witness is None:
            raise _no_witness(ctx, view, place, node, writes=writes)
        for other, where in seen:
            if other != witness:
                raise ctx.error(
                    f"`{view.name}` is accessed through {_written(witness)} here and through {_written(other)} elsewhere: two threads could meet",
                    node, f"use one kind of witness for it, or declare it as {_mutable(view)}", [(f"through {_written(other)} here", where)],
                )  # fmt: skip
    seen.append((witness, ctx.locate(node)))


def _written(witness: str | None) -> str:
    """A witness as a call, such as `thread_index() as f32x4`."""
    kind, _, rest = str(witness).partition(" ")
    return f"{kind}() {rest}".strip()


def _no_witness(ctx: Context, view: nodes.View, place: nodes.ValueOp, node: ast.Subscript, *, writes: bool) -> Exception:
    kind = ctx.witnesses.get(place)
    verb = "written" if writes else "read"
    if kind is not None:
        return ctx.error(
            f"{kind}() alone is not unique to the thread: every thread of the {'block' if kind == 'block_index' else 'warp'} has the same",
            node, f"access `{view.name}` under `{_GUARDS[kind]}`, or declare it as {_mutable(view)}",
        )  # fmt: skip
    return ctx.error(
        f"`{view.name}` is a DisjointSlice: it is {verb} only at the thread's own element, and `{ctx.text(node.slice)}` is not a witness of that",
        node,
        f"index it with the value of thread_index() itself, not changed or assigned again, or declare it as {_mutable(view)} to access any element",
    )


def shared_view_place(ctx: Context, base: ViewRef, subscript: Value, node: ast.Subscript) -> tuple[tuple[nodes.ValueOp, ...], bool]:
    """The place of an element that threads change together, and whether it must be checked. Such an access goes through no witness."""
    refuse_vectors(ctx, base, node.value)
    places = _view_indices(ctx, base.view, subscript, node)
    return places, touch_shared(ctx, base, places, node)


def read_view_place(ctx: Context, base: ViewRef, subscript: Value, node: ast.Subscript) -> tuple[nodes.ValueOp, ...]:
    """The place from which several elements of a view are read at once, through no witness; whoever asks sees to the checks."""
    refuse_vectors(ctx, base, node.value)
    places = _view_indices(ctx, base.view, subscript, node)
    ctx.accesses.setdefault(base.view, []).append((None, ctx.locate(node)))
    base.view.read = True
    return places


def shared_array_place(
    ctx: Context, base: ArrayRef | ViewRef, subscript: Value, node: ast.Subscript
) -> tuple[tuple[nodes.ValueOp, ...], bool]:
    """The same for an element of a shared array, also of one whose extents the launch decides."""
    if isinstance(base, ViewRef):
        return shared_view_place(ctx, base, subscript, node)
    refuse_vectors(ctx, base, node.value)
    places = _array_indices(ctx, base, subscript, node)
    return places, _array_checked(ctx, base, places)


def remote_place(ctx: Context, base: RemoteRef, subscript: Value, node: ast.Subscript) -> tuple[tuple[nodes.ValueOp, ...], bool]:
    """The same for an element of another block's shared array; the rank of the block is checked with the indices."""
    places = element_indices(ctx, base, subscript, node)
    return places, remote_checked(ctx, base, places)


def remote_checked(ctx: Context, base: RemoteRef, places: tuple[nodes.ValueOp, ...]) -> bool:
    """Whether the indices, or the rank of the block, have to be checked."""
    own = base.own
    if own.unchecked and not ctx.checked:
        return False
    checked = _view_checked(ctx, own, places) if isinstance(own, ViewRef) else _array_checked(ctx, own, places)
    return checked or not inside_extent(ctx, base.rank, ctx.declaration.attributes.cluster_size)


def refuse_vectors(ctx: Context, base: ViewRef | ArrayRef, node: ast.AST) -> None:
    """An error if the elements of an array are vectors here, for what takes numbers."""
    if base.vector is not None:
        name = base.view.name if isinstance(base, ViewRef) else base.array.name
        raise ctx.error(
            f"`{name}` is {describe(base)} here, and this is for numbers",
            node,
            f"use an array of {base.vector.element}; as_vectors(…) gives its vectors where they are wanted",
        )


def settle_witnesses(ctx: Context) -> None:
    """After the whole kernel: the witness of each view through which every access goes."""
    for view, seen in ctx.accesses.items():
        kinds = {witness for witness, _ in seen}
        view.witness = kinds.pop() if len(kinds) == 1 else None


# ------------------------------------------------------------------------------------------------------------------ elements with parts


Base: TypeAlias = ViewRef | ArrayRef | RemoteRef
"""What has elements that are structs."""


def element_indices(ctx: Context, base: Base, subscript: Value, node: ast.Subscript) -> tuple[nodes.ValueOp, ...]:
    """The indices of `base[subscript]`, whose parts are read or written later."""
    own = base.own if isinstance(base, RemoteRef) else base
    return _view_indices(ctx, own.view, subscript, node) if isinstance(own, ViewRef) else _array_indices(ctx, own, subscript, node)


def touch_read(ctx: Context, base: Base, places: tuple[nodes.ValueOp, ...], node: ast.Subscript | None) -> bool:
    """Note that an element, which `node` names, is read; whether its indices must be checked."""
    return _touch(ctx, base, places, node, writes=False)


def touch_written(ctx: Context, base: Base, places: tuple[nodes.ValueOp, ...], node: ast.Subscript | None) -> bool:
    """The same for one that is written."""
    return _touch(ctx, base, places, node, writes=True)


def _touch(ctx: Context, base: Base, places: tuple[nodes.ValueOp, ...], node: ast.Subscript | None, *, writes: bool) -> bool:
    if not isinstance(base, ViewRef):
        return remote_checked(ctx, base, places) if isinstance(base, RemoteRef) else _array_checked(ctx, base, places)
    assert node is not None
    _access(ctx, base, places, node, writes=writes)
    base.view.read |= not writes
    base.view.written |= writes
    return _view_checked(ctx, base, places)


def touch_shared(ctx: Context, base: Base, places: tuple[nodes.ValueOp, ...], node: ast.Subscript | None) -> bool:
    """The same for an element that threads change together, through no witness."""
    if not isinstance(base, ViewRef):
        return _touch(ctx, base, places, node, writes=True)
    assert node is not None
    ctx.accesses.setdefault(base.view, []).append((None, ctx.locate(node)))
    base.view.read = base.view.written = True
    return _view_checked(ctx, base, places)


# ------------------------------------------------------------------------------------------------------------ shared and local arrays


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
        if known_number(arguments[3]) != 0:
            raise ctx.error(
                "a swizzled array has a shape that the compiler knows", node, "use literals, captured numbers or Const parameters"
            )
        partly = [item if known_number(item) is None else _extent(ctx, item, name, node) for item in items]
        return shared.new_view(ctx, of, partly, _alignment(ctx, arguments[2], node), _array_name(ctx, node) or name, node)
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
    return local_array(ctx, array, node, vector)


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


def _swizzle(ctx: Context, array: nodes.Array, value: Value, node: ast.Call) -> None:
    """Lay the rows of an array out in a swizzled way."""
    span = known_number(value)
    if span == 0:
        return
    place = next((keyword.value for keyword in node.keywords if keyword.arg == "swizzle"), node.args[-1])
    if not isinstance(span, int) or span not in swizzle.SPANS:
        what = describe(value) if span is None else str(span)
        raise ctx.error(
            f"the swizzle of a shared array is 0, {', '.join(map(str, swizzle.SPANS))}, and this is {what}", place, "such as swizzle=128"
        )
    row = array.shape[-1] * array.type.itemsize
    if row != span:
        raise ctx.error(
            f"the rows of `{array.name}` are {row} bytes long",
            place,
            f"with swizzle={span} they have {span // array.type.itemsize} elements of {array.type}",
        )
    array.swizzle = span
    array.alignment = max(array.alignment, swizzle.pattern_bytes(span))


def _array_name(ctx: Context, node: ast.Call) -> str | None:
    """The name that the array is assigned to, for people."""
    for name, value_node in ctx.frame.source.names.arrays:
        if value_node is node:
            return name
    return None


def _array_indices(ctx: Context, base: ArrayRef, subscript: Value, node: ast.Subscript) -> tuple[nodes.ValueOp, ...]:
    return fixed_indices(ctx, base.array.name, base.shape, subscript, node)


def fixed_indices(ctx: Context, name: str, shape: tuple[int, ...], subscript: Value, node: ast.Subscript) -> tuple[nodes.ValueOp, ...]:
    """The indices of an element of an array of fixed shape."""
    items = subscript.items if isinstance(subscript, Group) else (subscript,)
    if len(items) != len(shape):
        raise ctx.error(f"`{name}` has {len(shape)} dimensions, not {len(items)}", node.slice, f"its shape is {shape}")
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == len(items) else [node.slice] * len(items)
    places = []
    for item, part, extent in zip(items, parts, shape, strict=True):
        position = known_number(item)
        if position is not None and not 0 <= position < extent:
            raise ctx.error(f"index {position} is outside `{name}`, whose extent there is {extent}", part, f"indices are 0 to {extent - 1}")
        places.append(index(ctx, item, part, f"an index of `{name}`"))
    return tuple(places)


def _array_checked(ctx: Context, base: ArrayRef, places: tuple[nodes.ValueOp, ...]) -> bool:
    if base.unchecked and not ctx.checked:
        return False
    return not all(inside_extent(ctx, place, extent) for place, extent in zip(places, base.shape, strict=True))


def _registers(ctx: Context, base: ArrayRef, places: tuple[nodes.ValueOp, ...]) -> list[nodes.Variable] | None:
    """The variables that hold the numbers of an element, if the array lives in registers and the place is known."""
    if base.registers is None:
        return None
    position = known_position(ctx, base, places)
    if position is None:
        return None
    *outer, last = position
    lanes = base.vector.lanes if base.vector else 1
    return [base.registers[*outer, last * lanes + lane] for lane in range(lanes)]


def known_position(ctx: Context, base: ArrayRef, places: tuple[nodes.ValueOp, ...]) -> tuple[int, ...] | None:
    """The indices of a local array in registers as numbers, None if one is known only at run time: then the next pass puts the array in memory."""
    if not all(isinstance(place, nodes.Constant) for place in places):
        ctx.decisions.needs_memory(base.key)
        if base.array not in ctx.arrays:
            ctx.arrays.append(base.array)
        return None
    return tuple(int(place.value) for place in places if isinstance(place, nodes.Constant))


def fill_registers(ctx: Context, ref: ArrayRef | ViewRef) -> None:
    """Make the variables of a local array in registers. Its elements start undefined; a variable needs a value, so they start as 0."""
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


def length(ctx: Context, value: Value, node: ast.AST) -> Value:
    """`len(value)`."""
    if isinstance(value, RemoteRef):
        value = value.own
    if isinstance(value, ViewRef):
        return vectors.extent(ctx, value, 0)
    if isinstance(value, MapRef):
        return ctx.length(value.map)
    if isinstance(value, BarrierRef):
        return Literal(value.array.shape[0])
    if isinstance(value, ArrayRef):
        return Literal(value.shape[0])
    if isinstance(value, Group | Vector):
        return Literal(len(value.items))
    raise ctx.error(f"{describe(value)} has no length", node, "len() is for arrays, tuples and vectors")


def attribute(ctx: Context, value: ViewRef | ArrayRef | RemoteRef | MapRef, name: str, node: ast.Attribute) -> Value:
    """`.dtype`, `.unchecked`, `.shape` and `.nbytes` of arrays, `.dtype` and `.shape` of tensor maps."""
    if isinstance(value, RemoteRef):
        own = attribute(ctx, value.own, name, node)
        return dataclasses.replace(value, own=own) if isinstance(own, ArrayRef | ViewRef) else own
    if isinstance(value, MapRef):
        if name == "shape":
            return Group(tuple(ctx.length(value.map, dimension) for dimension in range(value.map.rank)))
        if name == "dtype":
            return value.map.type
        raise ctx.error(f"a tensor map has no `{name}`", node, "it has .dtype and .shape")
    if name == "nbytes" and isinstance(value, ArrayRef):
        return Literal(value.array.size * value.array.type.itemsize)
    if name == "dtype":
        return value.vector or (value.view.type if isinstance(value, ViewRef) else value.array.type)
    if name == "unchecked":
        return dataclasses.replace(value, unchecked=True)
    if name == "shape":
        return (
            Group(tuple(vectors.extent(ctx, value, dimension) for dimension in range(value.view.rank)))
            if isinstance(value, ViewRef)
            else Group(tuple(Literal(extent) for extent in value.shape))
        )
    of = value.view.type if isinstance(value, ViewRef) else value.array.type
    more = ", .nbytes" if isinstance(value, ArrayRef) else ""
    hint = f"it has .dtype, .shape{more} and .unchecked"
    if isinstance(of, StructType) and name in of.by_name:
        hint = f"its elements have: write {ctx.text(node.value)}[i].{name}"
    raise ctx.error(f"an array has no `{name}`", node, hint)


def contains(ctx: Context, item: Value, value: Value, item_node: ast.AST, node: ast.AST) -> nodes.ValueOp:
    """`item in value`: whether it is an index of it."""
    if isinstance(value, RemoteRef):
        value = value.own
    if isinstance(value, ViewRef) and value.view.rank == 1:
        extent = vectors.extent(ctx, value, 0)
    elif isinstance(value, ArrayRef) and len(value.shape) == 1:
        extent = ctx.constant(I64, value.shape[0])
    else:
        hint = "such as `if i in y:`"
        if isinstance(value, ViewRef):
            hint = f"compare each index with its extent, as in i < {value.view.name}.shape[0]"
        raise ctx.error(f"`in` asks whether an index lies in an array of one dimension, not in {describe(value)}", node, hint)
    place = index(ctx, item, item_node, "the left side of `in`")
    below = ctx.compare("lt", place, extent)
    if (place.range or (-1, 0))[0] >= 0:
        return below
    above = ctx.compare("ge", place, ctx.constant(I64, 0))
    both = ctx.binary("and", above, below)
    if not isinstance(both, nodes.Constant):  # a constant is shared: it may be one of its own parts
        ctx.connectives[both] = ("and", above, below)
    return both
