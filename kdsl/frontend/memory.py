"""Elements of arrays: reads, writes, and their checks. How arrays are made stands in `arrays.py`, what a `DisjointSlice` asks of an index in `witnesses.py`."""

from __future__ import annotations

import ast
from typing import TypeAlias

from kdsl.frontend import symbolic, tables, vectors
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, index
from kdsl.frontend.proofs import inside_extent, inside_view
from kdsl.frontend.row_checks import row_check
from kdsl.frontend.values import ArrayRef, Group, MapRef, RemoteRef, Value, Vector, ViewRef, describe, known_number
from kdsl.frontend.witnesses import mutable, note_access
from kdsl.ir import nodes
from kdsl.lang.caching import CacheHint
from kdsl.lang.vectors import VectorType
from kdsl.lang.views import view_text


def load(ctx: Context, base: Value, subscript: Value, node: ast.Subscript) -> Value:
    """`base[subscript]`."""
    if isinstance(base, Group):
        return base.items[_tuple_position(ctx, base, subscript, node)]
    if isinstance(base, Vector):
        return vectors.item(ctx, base, subscript, node)
    if isinstance(base, ViewRef):
        places = _view_indices(ctx, base.view, subscript, node)
        note_access(ctx, base, places, node, writes=False)
        base.view.read = True
        checked = _view_checked(ctx, base, places)
        return _loaded(ctx, base.view, base.vector, places, checked, cache=base.cache)
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
    hint = (
        "copy a box of it to a shared array with tma_load()" if isinstance(base, MapRef) else "only arrays, tuples and vectors are indexed"
    )
    raise ctx.error(f"{describe(base)} has no elements", node.value, hint)


def store(ctx: Context, base: Value, subscript: Value, value: Value, node: ast.Subscript, value_node: ast.AST) -> None:
    """`base[subscript] = value`."""
    if isinstance(base, ViewRef | ArrayRef | RemoteRef):
        refuse_writing(ctx, base, node)
    if isinstance(base, ViewRef):
        view = base.view
        places = _view_indices(ctx, view, subscript, node)
        note_access(ctx, base, places, node, writes=True)
        numbers = _numbers(ctx, base, value, value_node, view.name)
        view.written = True
        checked = _view_checked(ctx, base, places)
        with ctx.at(node):
            _stored(ctx, view, places, numbers, checked, cache=_hint_of_write(ctx, base, node))
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
        raise _read_only(ctx, view.name, mutable(view), node)
    if view.kind == "Slice":
        hint = f"declare it as {mutable(view)}"
        if view.rank == 1:
            hint += f", or as DisjointSlice[{view.element}] if each thread writes its own element"
        raise ctx.error(f"`{view.name}` is a Slice, which is only read", node, hint)


def _read_only(ctx: Context, name: str, wanted: str, node: ast.AST) -> Exception:
    return ctx.error(
        f"`{name}` came into {ctx.frame.source.name} as a Slice, which is only read", node, f"annotate the parameter as {wanted}"
    )


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
    cache: CacheHint | None = None,
) -> Value:
    if vector is not None:
        return vectors.loaded(ctx, memory, places, vector, checked=checked, remote=remote, cache=cache)
    site = ctx.new_site("load", memory.name, memory)
    rows = row_check(ctx, memory, places[0]) if checked and isinstance(memory, nodes.View) else None
    value = nodes.Load(
        location=ctx.location, type=memory.type, memory=memory, indices=places, checked=checked, site=site, remote=remote, row_check=rows,
        cache=cache,
    )  # fmt: skip
    ctx.emit(value)
    return value


def _stored(
    ctx: Context, memory: nodes.Memory, places: tuple[nodes.ValueOp, ...], numbers: tuple[nodes.ValueOp, ...], checked: bool,
    remote: nodes.ValueOp | None = None, cache: CacheHint | None = None,
) -> None:  # fmt: skip
    if len(numbers) > 1:
        vectors.stored(ctx, memory, places, numbers, checked=checked, remote=remote, cache=cache)
        return
    site = ctx.new_site("store", memory.name, memory)
    (value,) = numbers
    ctx.emit(
        nodes.Store(
            location=ctx.location, memory=memory, indices=places, value=value, checked=checked, site=site, remote=remote, cache=cache
        )
    )


def _hint_of_write(ctx: Context, base: ViewRef, node: ast.AST) -> CacheHint | None:
    """What a write tells the caches."""
    if base.cache is not None and base.cache.prefetch:
        name = base.view.name
        raise ctx.error(f"`{name}` is {base.cache}, and written here: `prefetch` is for reads", node, f"write cached({name}, …) without it")
    return base.cache


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
                if 2 <= len(items) <= 5 and view.kind != "DisjointSlice"
                else "compute the index, as in y[row * columns + column]",
            )
        names = ", ".join("ijklm"[: view.rank])
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
    if ctx.trusts(base.unchecked):
        return False
    lanes = [1] * (len(places) - 1) + [base.vector.lanes if base.vector else 1]
    if ctx.checked:
        return True
    return not all(
        inside_view(ctx, base.view, place, dimension, lanes[dimension])
        or symbolic.inside(ctx, base.view, place, dimension, lanes[dimension])
        for dimension, place in enumerate(places)
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
    if ctx.trusts(own.unchecked):
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
    note_access(ctx, base, places, node, writes=writes)
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
    if ctx.trusts(base.unchecked):
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
