"""Calls of asynchronous copies by the copy engine: boxes by tensor maps, and plain runs of bytes.

The box of a tensor map is what the kernel copies: the part of a shared array behind its leading indices. It is noted with the parameter, and a launch
compares it with the map that it is given.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, index
from kdsl.frontend.guards import begin_at, extents_of, memory_of, shared_memory, written_extents
from kdsl.frontend.instructions.emit import Handler, emit
from kdsl.frontend.instructions.places import (
    Piece,
    barrier,
    every,
    flag,
    guarded,
    items,
    number,
    option,
    piece,
    shared_array,
    view,
)
from kdsl.frontend.multiples import multiple_of
from kdsl.frontend.proofs import bounds, inside_view
from kdsl.frontend.values import ArrayRef, MapRef, Nothing, Value, ViewRef, describe, known_number
from kdsl.ir import nodes
from kdsl.lang import swizzle
from kdsl.lang.intrinsics import INTRINSICS, Intrinsic
from kdsl.lang.intrinsics.bulk import EVICT, REDUCTIONS
from kdsl.lang.types import I32, I64, U16, U32

MOST_ELEMENTS: Final = 256
"""Elements of a box along a dimension (CUDA Driver API, `cuTensorMapEncodeTiled`)."""
_LINE: Final = 128
"""Alignment of a box in shared memory."""
_MOST_GROUPS: Final = 1 << 20

Given = Mapping[str, Value]
Places = Mapping[str, ast.AST]


def _map(ctx: Context, row: Intrinsic, value: Value, node: ast.AST) -> nodes.TensorMap:
    if not isinstance(value, MapRef):
        raise ctx.error(f"{row.name}() takes a tensor map, not {describe(value)}", node, "declare the parameter as TensorMap[f32, D2], say")
    return value.map


def _box(ctx: Context, row: Intrinsic, array: nodes.Array | nodes.SharedView, leading: int, of: nodes.TensorMap, node: ast.AST) -> None:
    """Note what the kernel copies with a map: the part of the array behind `leading` indices, of extent 1 along further dimensions of the map. What is asked
    of extents that the launch decides the launch sees to (`kdsl.launch.shared`)."""
    extents = written_extents(array)
    shape = extents[leading:]
    if array.type is not of.type:
        raise ctx.error(f"{row.name}(): `{array.name}` holds {array.type}, `{of.name}` {of.type}", node, "give both one element type")
    if not 1 <= len(shape) <= of.rank:
        raise ctx.error(
            f"{row.name}(): the part of `{array.name}` has {len(shape)} dimensions, `{of.name}` has {of.rank}",
            node,
            "give as many leading indices as leave the box: one for the stage of a ring, say",
        )
    fixed = [extent for extent in shape if isinstance(extent, int)]
    if max(fixed, default=0) > MOST_ELEMENTS:
        raise ctx.error(
            f"{row.name}(): a box of {' x '.join(map(str, shape))} elements",
            node,
            f"a box has at most {MOST_ELEMENTS} along each dimension",
        )
    itemsize = array.type.itemsize
    last = shape[-1]
    if isinstance(last, int) and last * itemsize % swizzle.CHUNK:
        raise ctx.error(
            f"{row.name}(): rows of {last * itemsize} bytes", node, f"the last extent of a box is a multiple of {swizzle.CHUNK} bytes"
        )
    alignment = swizzle.pattern_bytes(array.swizzle) if array.swizzle else _LINE
    if any(extent != 1 for extent in extents[:leading]):
        if len(fixed) < len(shape):
            of.parts = max(of.parts, alignment)
        elif math.prod(fixed) * itemsize % alignment:
            raise ctx.error(
                f"{row.name}(): the parts of `{array.name}` take {math.prod(fixed) * itemsize} bytes", node,
                f"each has to begin at a multiple of {alignment} bytes: make it larger",
            )  # fmt: skip
    begin_at(array, alignment)
    box = (1,) * (of.rank - len(shape)) + shape
    if of.box is not None and (of.box, of.swizzle) != (box, array.swizzle):
        raise ctx.error(
            f"`{of.name}` copies boxes of {_shown(of.box, of.swizzle)} elsewhere, and of {_shown(box, array.swizzle)} here",
            node,
            "a tensor map has one box and one swizzle, written alike everywhere: use another parameter",
        )
    of.box, of.swizzle = box, array.swizzle


def _shown(box: tuple[int | str, ...], span: int) -> str:
    return f"{' x '.join(map(str, box))}{f' with swizzle {span}' if span else ''}"


def _part(
    ctx: Context, row: Intrinsic, given: Given, places: Places, of: nodes.TensorMap, *, writes: bool
) -> tuple[Piece, ArrayRef | ViewRef]:
    base = shared_array(ctx, row, given["array"], places["array"], writes=writes)
    array, leading = shared_memory(base), len(items(given["index"], places["index"]))
    dimensions = len(written_extents(array))
    if leading >= dimensions:
        raise ctx.error(
            f"{row.name}(): {leading} indices leave nothing of `{array.name}`, which has {dimensions} dimensions",
            places["index"],
            "name the leading indices only, () for the whole array; the box is what they leave",
        )
    _box(ctx, row, array, leading, of, places["array"])
    return piece(ctx, row, base, given["index"], places["index"], (1,) * leading), base


def _box_bytes(ctx: Context, base: ArrayRef | ViewRef, rank: int) -> nodes.ValueOp:
    """Bytes of the part of an array along its last `rank` dimensions, u32."""
    size: nodes.ValueOp = ctx.constant(I64, memory_of(base).type.itemsize)
    for extent in extents_of(ctx, base)[-rank:]:
        size = ctx.binary("mul", size, extent)
    return ctx.cast(U32, size)


def _coordinates(ctx: Context, row: Intrinsic, given: Given, places: Places, of: nodes.TensorMap) -> tuple[nodes.ValueOp, ...]:
    """Where a box begins, i32; far outside stays far outside."""
    found = items(given["coordinates"], places["coordinates"])
    if len(found) != of.rank:
        names = ", ".join("ijklm"[: of.rank])
        raise ctx.error(
            f"{row.name}(): `{of.name}` has {of.rank} dimensions, and {len(found)} coordinates are given", places["coordinates"],
            f"write ({names}{',' if of.rank == 1 else ''}), in the order of the array's dimensions",
        )  # fmt: skip
    narrow = []
    for item, place in found:
        value = index(ctx, item, place, f"a coordinate of {row.name}()")
        low, high = bounds(ctx, value)
        if high > I32.maximum:  # clamped to a multiple of all that rows begin at, so that what is proved of the coordinate stays proved
            value = ctx.binary("min", value, ctx.constant(I64, I32.maximum - _LINE + 1))
        if low < I32.minimum:
            value = ctx.binary("max", value, ctx.constant(I64, I32.minimum))
        narrow.append(ctx.cast(I32, value))
    return tuple(narrow)


def _on_grid(ctx: Context, of: nodes.TensorMap, coordinates: tuple[nodes.ValueOp, ...]) -> nodes.ValueOp | None:
    """Whether the rows of a box begin at a multiple of 16 bytes of those of the array, None if they certainly do. On the H200 the copy is an illegal
    instruction otherwise, which ends the program."""
    together = max(swizzle.CHUNK // of.type.itemsize, 1)
    innermost = coordinates[of.rank - 1]
    if multiple_of(ctx, innermost) % together == 0:
        return None
    rest = ctx.binary("and", innermost, ctx.constant(I32, together - 1))
    return ctx.compare("eq", rest, ctx.constant(I32, 0))


def _not_negative(ctx: Context, of: nodes.TensorMap, coordinates: tuple[nodes.ValueOp, ...]) -> nodes.ValueOp | None:
    """Whether a box that is written begins inside or above the array, None if it certainly does. Below, the H200 takes the instruction for an illegal one."""
    zero = ctx.constant(I32, 0)
    return every(ctx, [ctx.compare("ge", value, zero) for value in coordinates[: of.rank] if bounds(ctx, value)[0] < 0])


_GRID: Final = "the last coordinate is a multiple of 16 bytes"


def _evict(ctx: Context, row: Intrinsic, given: Given, places: Places) -> str:
    return option(ctx, row, given["evict"], places["evict"], "`evict`", tuple(EVICT))


def _of_map(of: nodes.TensorMap) -> nodes.Element:
    return nodes.Element(of, ())


def _complete(ctx: Context, bar: nodes.Element, size: Callable[[], nodes.ValueOp]) -> None:
    """Count the bytes of a copy that is left out as come, so that nobody waits for them."""
    emit(ctx, INTRINSICS["barrier_complete"], elements=(bar,), arguments=(size(),))


def _tma_load(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    of = _map(ctx, row, given["map"], places["map"])
    part, base = _part(ctx, row, given, places, of, writes=True)
    of.read = True
    arguments = _coordinates(ctx, row, given, places, of)
    bar = barrier(ctx, row, given["barriers"], given["i"], places["barriers"], places["i"])
    if "blocks" in given:
        arguments = (*arguments, coerce(ctx, given["blocks"], U16, places["blocks"], f"`blocks` of {row.name}()"))
    options: dict[str, nodes.Option] = {"rank": of.rank, "evict": _evict(ctx, row, given, places)}
    elements = (part.element, _of_map(of), bar.element)
    rank = len(part.element.indices) - len(items(given["index"], places["index"]))
    complete = functools.partial(_complete, ctx, bar.element, functools.partial(_box_bytes, ctx, base, rank))
    with (
        guarded(ctx, bar.holds, f"{row.name}(): the barrier exists"),
        guarded(ctx, part.holds, f"{row.name}(): the place exists", complete),
        guarded(ctx, _on_grid(ctx, of, arguments), f"{row.name}(): {_GRID}", complete),
    ):
        emit(ctx, row, elements=elements, arguments=arguments, options=options)
    return Nothing()


def _tma_store(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    of = _map(ctx, row, given["map"], places["map"])
    arguments = _coordinates(ctx, row, given, places, of)
    part, _ = _part(ctx, row, given, places, of, writes=False)
    of.written = True
    options: dict[str, nodes.Option] = {"rank": of.rank}
    if row.name == "tma_reduce":
        of.read = True
        options["op"] = operation = option(ctx, row, given["op"], places["op"], "`op`", tuple(REDUCTIONS))
        if of.type.name not in REDUCTIONS[operation]:
            raise ctx.error(f'tma_reduce() with op="{operation}" of {of.type}', node, f"it takes {', '.join(REDUCTIONS[operation])}")
    else:
        options["evict"] = _evict(ctx, row, given, places)
    with (
        guarded(ctx, part.holds, f"{row.name}(): the place exists"),
        guarded(ctx, _on_grid(ctx, of, arguments), f"{row.name}(): {_GRID}"),
        guarded(ctx, _not_negative(ctx, of, arguments), f"{row.name}(): no coordinate is negative"),
    ):
        emit(ctx, row, elements=(part.element, _of_map(of)), arguments=arguments, options=options)
    return Nothing()


def _tma_prefetch(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    of = _map(ctx, row, given["map"], places["map"])
    of.read = True
    arguments = _coordinates(ctx, row, given, places, of)
    with guarded(ctx, _on_grid(ctx, of, arguments), f"{row.name}(): {_GRID}"):
        emit(ctx, row, elements=(_of_map(of),), arguments=arguments)
    return Nothing()


def _prefetch_map(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    emit(ctx, row, elements=(_of_map(_map(ctx, row, given["map"], places["map"])),))
    return Nothing()


# --------------------------------------------------------------------------------------------------------------------- runs of bytes


def _run(ctx: Context, row: Intrinsic, given: Given, places: Places, *, to_shared: bool) -> tuple[Piece, nodes.Element, nodes.ValueOp]:
    """Both ends of a copy of `count` elements, what must hold for it, and its bytes."""
    base = shared_array(ctx, row, given["array"], places["array"], writes=to_shared)
    array, extents = shared_memory(base), extents_of(ctx, base)
    if array.swizzle:
        raise ctx.error(
            f"{row.name}(): the rows of `{array.name}` are swizzled", places["array"], "use a tensor map, or an array without swizzle"
        )
    ref = view(ctx, row, given["view"], places["view"], writes=not to_shared)
    if array.type is not ref.view.type:
        raise ctx.error(
            f"{row.name}(): `{array.name}` holds {array.type}, `{ref.view.name}` {ref.view.type}",
            places["array"],
            "give both one element type",
        )
    if len(items(given["index"], places["index"])) != len(extents):
        raise ctx.error(
            f"{row.name}() begins at an element of `{array.name}`, which has {len(extents)} dimensions", places["index"],
            "give one index per dimension",
        )  # fmt: skip
    where = piece(ctx, row, base, given["index"], places["index"], (1,) * len(extents))
    start = index(ctx, given["start"], places["start"], f"`start` of {row.name}()")
    count = index(ctx, given["count"], places["count"], f"`count` of {row.name}()")
    together = swizzle.CHUNK // array.type.itemsize
    conditions: list[nodes.ValueOp | None] = [where.holds]
    unchecked = base.unchecked and ref.unchecked and not ctx.checked
    if not unchecked:
        conditions += _fits(ctx, extents, where.element, count)
        conditions += _inside(ctx, ref.view, start, count)
        first = ctx.binary("mod", _linear(ctx, extents, where.element), ctx.constant(I64, together))
        for value in (first, start, count):
            if value is first or multiple_of(ctx, value) % together:
                rest = value if value is first else ctx.binary("mod", value, ctx.constant(I64, together))
                conditions.append(None if _is_zero(rest) else ctx.compare("eq", rest, ctx.constant(I64, 0)))
    ref.view.alignment = max(ref.view.alignment, swizzle.CHUNK)  # which the launch checks
    size = ctx.cast(U32, ctx.binary("mul", count, ctx.constant(I64, array.type.itemsize)))
    return Piece(where.element, every(ctx, [c for c in conditions if c is not None])), nodes.Element(ref.view, (start,)), size


def _is_zero(value: nodes.ValueOp) -> bool:
    return isinstance(value, nodes.Constant) and value.value == 0


def _linear(ctx: Context, extents: Sequence[nodes.ValueOp], element: nodes.Element) -> nodes.ValueOp:
    """The number of an element in its array."""
    whole = element.indices[0]
    for extent, value in zip(extents[1:], element.indices[1:], strict=True):
        whole = ctx.binary("add", ctx.binary("mul", whole, extent), value)
    return whole


def _fits(ctx: Context, extents: Sequence[nodes.ValueOp], element: nodes.Element, count: nodes.ValueOp) -> list[nodes.ValueOp]:
    """That the elements from one on are in the array."""
    low, high = bounds(ctx, count)
    first, size = _linear(ctx, extents, element), functools.reduce(lambda a, b: ctx.binary("mul", a, b), extents)
    found = [] if low >= 0 else [ctx.compare("ge", count, ctx.constant(I64, 0))]
    if bounds(ctx, first)[1] + high > bounds(ctx, size)[0]:
        found.append(ctx.compare("le", count, ctx.binary("sub", size, first)))
    return found


def _inside(ctx: Context, of: nodes.View, start: nodes.ValueOp, count: nodes.ValueOp) -> list[nodes.ValueOp]:
    """That elements `start` to `start + count` are in the view; `count` is known not to be negative."""
    found = [] if bounds(ctx, start)[0] >= 0 else [ctx.compare("ge", start, ctx.constant(I64, 0))]
    last = known_number(count)
    if last == 1 and inside_view(ctx, of, start):
        return found
    return [*found, ctx.compare("le", count, ctx.binary("sub", ctx.length(of), start))]


@contextmanager
def _if_any(ctx: Context, size: nodes.ValueOp) -> Iterator[None]:
    """A copy of no bytes is none: the instruction is not said to take them."""
    if isinstance(size, nodes.Constant) and size.value:
        yield
        return
    block = nodes.Block()
    condition = ctx.compare("ne", size, ctx.constant(U32, 0))
    with ctx.nested(block):
        yield
    ctx.emit(nodes.If(location=ctx.location, condition=condition, then=block, orelse=nodes.Block()))


def _bulk_load(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    where, source, size = _run(ctx, row, given, places, to_shared=True)
    bar = barrier(ctx, row, given["barriers"], given["i"], places["barriers"], places["i"])
    complete = functools.partial(_complete, ctx, bar.element, lambda: size)
    with guarded(ctx, bar.holds, f"{row.name}(): the barrier exists"), guarded(ctx, where.holds, _EXPECTED, complete), _if_any(ctx, size):
        emit(ctx, row, elements=(where.element, source, bar.element), arguments=(size,))
    return Nothing()


def _bulk_store(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    where, destination, size = _run(ctx, row, given, places, to_shared=False)
    with guarded(ctx, where.holds, _EXPECTED), _if_any(ctx, size):
        emit(ctx, row, elements=(destination, where.element), arguments=(size,))
    return Nothing()


_EXPECTED: Final = "the elements of the copy are inside, and begin and end at multiples of 16 bytes"


def _commit_stores(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    emit(ctx, row)
    return Nothing()


def _wait_stores(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    pending = number(ctx, row, given["pending"], places["pending"], "`pending`", 0, _MOST_GROUPS)
    read = flag(ctx, row, given["read"], places["read"], "`read`")
    emit(ctx, row, options={"pending": pending, "read": read})
    return Nothing()


HANDLERS: Final[dict[str, Handler]] = {
    "tma_load": _tma_load,
    "tma_store": _tma_store,
    "tma_reduce": _tma_store,
    "tma_prefetch": _tma_prefetch,
    "prefetch_map": _prefetch_map,
    "bulk_load": _bulk_load,
    "bulk_store": _bulk_store,
    "commit_stores": _commit_stores,
    "wait_stores": _wait_stores,
}
"""By the name in `ToInstruction`."""
