"""Calls of matrix products of a warpgroup: what lies where, and that it is what the hardware reads.

A tile of an operand is 64 (of A) or N (of B) rows along the outer dimension of the product, and 32 bytes along k. In shared memory it lies in one of two ways:
- k along the rows: the last dimension of the array is k, as long as the span of its swizzle, the one before it counts rows;
- transposed, with k across: the last dimension is rows of the product, the one before it k, the one before that counts such pieces.
Without swizzle a row has 16 bytes, so that k (or rows of the product) goes on in the dimension before.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from kdsl.frontend import operators
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, materialise
from kdsl.frontend.guards import begin_at, extents_of, known_extents, memory_of, shared_memory, written_extents
from kdsl.frontend.instructions.emit import Handler, emit
from kdsl.frontend.instructions.matrix import operand_types
from kdsl.frontend.instructions.places import flag, items, number, piece, shared_array
from kdsl.frontend.multiples import multiple_of
from kdsl.frontend.values import ArrayRef, Group, Nothing, Text, Value, ViewRef, describe
from kdsl.ir import nodes
from kdsl.lang import swizzle
from kdsl.lang.intrinsics import INTRINSICS, Intrinsic
from kdsl.lang.intrinsics.warpgroups import FRAGMENT, IN_ARGUMENTS, MOST_COLUMNS, OF_ELEMENTS, PRODUCTS, ROWS, Product
from kdsl.lang.types import DTYPES, F32, I64, U32

_DEPTH: Final = 32
"""Bytes of a product along k."""
_MOST_PENDING: Final = 7
_MOST_OFFSET: Final = 0x3FFFF
"""What the offsets of a descriptor hold."""

_Memory: TypeAlias = nodes.Array | nodes.SharedView

Given = Mapping[str, Value]
Places = Mapping[str, ast.AST]


@dataclass(frozen=True)
class _Tile:
    """A tile in shared memory."""

    element: nodes.Element
    """Where it begins, at the start of a row."""
    offset: nodes.ValueOp
    """Bytes from there, u32."""
    leading: int | nodes.ValueOp
    """Leading offset of its descriptor in bytes, u32 if the launch decides it."""
    stride: int | nodes.ValueOp
    """Stride of its descriptor in bytes, likewise."""
    span: int
    """Its swizzle."""

    @property
    def arguments(self) -> tuple[nodes.ValueOp, ...]:
        """What only the kernel knows of it."""
        return (self.offset, *(value for value in (self.leading, self.stride) if isinstance(value, nodes.ValueOp)))


def _whole_groups(ctx: Context, row: Intrinsic, node: ast.AST) -> None:
    x, y, z = ctx.block_dim
    if x * y * z % nodes.WARP_GROUP_SIZE:
        raise ctx.error(
            f"{row.name}() is for warpgroups of {nodes.WARP_GROUP_SIZE} threads, and the block has {x * y * z}",
            node,
            f"make the block a multiple of {nodes.WARP_GROUP_SIZE}",
        )


def _plain(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    _whole_groups(ctx, row, node)
    emit(ctx, row)
    return Nothing()


def _wait(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    _whole_groups(ctx, row, node)
    emit(ctx, row, options={"pending": number(ctx, row, given["pending"], places["pending"], "`pending`", 0, _MOST_PENDING)})
    return Nothing()


def _wgmma(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    _whole_groups(ctx, row, node)
    right = shared_array(ctx, row, given["b"], places["b"], writes=False)
    fragment = given["a"]
    base = None if isinstance(fragment, Group) else shared_array(ctx, row, fragment, places["a"], writes=False)
    types = _types(ctx, row, None if base is None else shared_memory(base), shared_memory(right), given["type"], places)
    product = PRODUCTS[types[1]]
    registers, columns = _accumulators(ctx, row, given["accumulator"], product, places["accumulator"])
    across = [flag(ctx, row, given[name], places[name], f"`{name}`") for name in ("transpose_a", "transpose_b")]
    for side, name in zip(across, ("transpose_a", "transpose_b"), strict=True):
        if side and not product.transposes:
            raise ctx.error(f"`{name}` of {_shown(types[1])}", places[name], "only operands of 16 bits can lie with k across the rows")
    accumulate = materialise(ctx, operators.truth(ctx, given["accumulate"], places["accumulate"]), places["accumulate"])
    options: dict[str, nodes.Option] = {"n": columns, "a": types[0], "b": types[1]}
    elements: tuple[nodes.Element, ...] = ()
    if isinstance(fragment, Group):
        if across[0]:
            raise ctx.error(
                "a fragment in registers cannot be transposed", places["transpose_a"], "load it with ldmatrix(…, transpose=True)"
            )
        left = _fragment(ctx, row, fragment, types[0], given["a_index"], places["a"], places["a_index"])
    else:
        assert base is not None
        tile = _tile(ctx, row, base, given["a_index"], places["a"], places["a_index"], ROWS, across=across[0])
        elements, left = (tile.element,), tile.arguments
        options |= _layout("a", tile)
    tile = _tile(ctx, row, right, given["b_index"], places["b"], places["b_index"], columns, across=across[1])
    options |= _layout("b", tile) | {"a_registers": isinstance(fragment, Group), "transpose_a": across[0], "transpose_b": across[1]}
    before = tuple(ctx.get(register) for register in registers)
    results = emit(
        ctx,
        row,
        arguments=(accumulate, *left, *tile.arguments, *before),
        elements=(*elements, tile.element),
        options=options,
        results=tuple(register.type for register in registers),
        variant=".".join(types) if ".".join(types) in row.variants else "",
    )
    for register, result in zip(registers, results, strict=True):
        ctx.set(register, result)
    return Nothing()


def _shown(of: str) -> str:
    """A type of operands as the language names it."""
    return of if of in ("e4m3", "e5m2") else PRODUCTS[of].element


def _layout(side: str, tile: _Tile) -> dict[str, nodes.Option]:
    """What the compiler knows of a descriptor; an offset that it does not is `IN_ARGUMENTS`."""
    found: dict[str, nodes.Option] = {f"{side}_swizzle": tile.span}
    for what, value in (("leading", tile.leading), ("stride", tile.stride)):
        found[f"{side}_{what}"] = IN_ARGUMENTS if isinstance(value, nodes.ValueOp) else value
    return found


def _types(ctx: Context, row: Intrinsic, a: _Memory | None, b: _Memory, given: Value, places: Places) -> tuple[str, str]:
    """The PTX types of A (None: in registers) and B: those of the argument `type`, else those that the element types mean."""
    arrays = (("a", a), ("b", b))
    for name, base in arrays:
        if base is not None and base.type.name not in OF_ELEMENTS:
            known = ", ".join(OF_ELEMENTS)
            raise ctx.error(f"{row.name}() of {base.type}", places[name], f"there are products of {known} (f32 counts as tf32)")
    if isinstance(given, Text) and not given.value:
        right = OF_ELEMENTS[b.type.name]
        left = right if a is None else OF_ELEMENTS[a.type.name]
        if left not in PRODUCTS[right].partners:
            raise ctx.error(f"{row.name}() of {a and a.type} and {b.type}", places["a"], "give both operands one element type")
        return left, right
    left, right = operand_types(ctx, row, given, places["type"])
    if right not in PRODUCTS or left not in PRODUCTS[right].partners:
        hint = "both are of one type, or integers of 8 bits, or floats of 8"
        raise ctx.error(f"{row.name}() does not multiply {left} by {right}", places["type"], hint)
    for (name, base), of in zip(arrays, (left, right), strict=True):
        if base is not None and base.type.name != PRODUCTS[of].element:
            wanted = PRODUCTS[of].element
            raise ctx.error(
                f"{row.name}(): `{base.name}` is multiplied as {of}, and its elements are {base.type}",
                places[name],
                f"make it an array of {wanted}" + (": a float of 8 bits is a byte" if of in ("e4m3", "e5m2") else ""),
            )
    return left, right


def _accumulators(ctx: Context, row: Intrinsic, value: Value, product: Product, node: ast.AST) -> tuple[list[nodes.Variable], int]:
    """The variables of the accumulators in order, and the columns that they are. Those that are u32 are pairs of f16."""
    wanted = DTYPES[product.accumulator]
    types = (wanted, U32) if product.packs else (wanted,)
    if not isinstance(value, ArrayRef) or value.array.space != "local" or len(value.array.shape) != 1 or value.array.type not in types:
        raise ctx.error(
            f"the accumulators of {row.name}() are a local array of {wanted} of one dimension, not {describe(value)}",
            node,
            f"make them with local_array(N // 2, {wanted})" + (", or local_array(N // 4, u32) for sums in f16" if product.packs else ""),
        )
    array = value.array
    each = 4 if array.type is U32 else 2
    columns = each * array.size
    step = 16 if wanted.is_integer and columns > 32 else 8
    if columns % step or not 8 <= columns <= MOST_COLUMNS:
        raise ctx.error(
            f"{array.size} accumulators per thread are a product of {columns} columns",
            node,
            f"N is a multiple of {step} of at most {MOST_COLUMNS}; there are N // {each} accumulators",
        )
    if value.registers is None:
        raise ctx.error(
            f"`{array.name}` does not lie in registers, where accumulators have to",
            node,
            "index it with numbers that the compiler knows only: loop with unroll()",
        )
    return [value.registers[(position,)] for position in range(array.size)], columns


def _fragment(
    ctx: Context, row: Intrinsic, value: Group, of: str, subscript: Value, node: ast.AST, index_node: ast.AST
) -> tuple[nodes.ValueOp, ...]:
    """The registers of a fragment of A: four u32, as `ldmatrix` yields them; of tf32 also four f32."""
    if len(value.items) != FRAGMENT:
        raise ctx.error(f"a fragment of A has {FRAGMENT} registers, not {len(value.items)}", node, "as those of ldmatrix(…)")
    if not (isinstance(subscript, Group) and not subscript.items):
        raise ctx.error("a fragment in registers has no index", index_node, "write ()")
    registers = []
    for item, place in items(value, node):
        if of == "tf32" and isinstance(item, nodes.ValueOp) and item.type is F32:
            registers.append(ctx.bitcast(U32, item))
        else:
            registers.append(coerce(ctx, item, U32, place, "a register of a fragment"))
    return tuple(registers)


def _tile(
    ctx: Context, row: Intrinsic, base: ArrayRef | ViewRef, subscript: Value, node: ast.AST, index_node: ast.AST, rows: int, *, across: bool
) -> _Tile:
    """The tile of `rows` rows that begins at an element."""
    array = shared_memory(base)
    extents = known_extents(array)
    span = array.swizzle or swizzle.CHUNK
    itemsize = array.type.itemsize
    rank, wide = len(extents), span // itemsize
    depth = _DEPTH // itemsize
    if extents[-1] != wide or rank < 2:
        raise ctx.error(
            f"{row.name}(): the last extent of `{array.name}` is {written_extents(array)[-1]} of {rank}", node,
            f"of an operand it is as long as the swizzle: {wide} elements of {array.type}, or 64 with swizzle=128 of bf16, and there is another before it",
        )  # fmt: skip
    if len(items(subscript, index_node)) != rank:
        raise ctx.error(f"`{array.name}` has {rank} dimensions", index_node, "name the element where the tile begins")
    begin_at(array, swizzle.pattern_bytes(span))
    _whole_patterns(ctx, row, base, node)
    sizes, steps = [1] * rank, [1] * rank
    group = swizzle.ROWS * span
    apart = _apart(ctx, base, span)
    leading: int | nodes.ValueOp
    stride: int | nodes.ValueOp
    if across:
        pieces = -(-rows // wide)
        sizes[-2], steps[-2] = depth, swizzle.ROWS
        sizes[-1], steps[-1] = min(rows, wide), wide
        if pieces > 1:
            _dimension(
                ctx, row, array, rank >= 3, f"{pieces} pieces of {wide} rows of the product, the dimension before k counts them", node
            )
            sizes[-3] = pieces
        # Which of the two offsets is that along k differs without swizzle (PTX ISA, "Strides")
        leading, stride = (group, apart) if not array.swizzle else (apart, group)
    else:
        sizes[-2], steps[-2] = rows, swizzle.ROWS
        sizes[-1], steps[-1] = min(depth, wide), min(depth, wide)
        leading, stride = 16, group
        if depth > wide:
            _dimension(ctx, row, array, rank >= 3, f"{depth // wide} pieces of k, the dimension before the rows counts them", node)
            sizes[-3] = depth // wide
            leading = apart
        elif (before := extents[-2]) is not None and rows > before and rank >= 3 and rows % before == 0:
            sizes[-2], sizes[-3] = before, rows // before  # rows that go on in the dimension before
    # What the launch decides is within the shared memory of a block, which is less
    most = max(offset for offset in (leading, stride) if isinstance(offset, int))
    if most > _MOST_OFFSET:
        raise ctx.error(f"{row.name}(): the pieces of `{array.name}` are {most} bytes apart", node, "use smaller tiles")
    found = piece(ctx, row, base, subscript, index_node, sizes, steps)
    indices = found.element.indices
    if found.holds is not None:
        proved_otherwise = ctx.checked and isinstance(base, ViewRef)  # a checked build asks all the same
        if not base.unchecked and not proved_otherwise:
            raise ctx.error(
                f"{row.name}(): the compiler cannot see that this tile is inside `{array.name}`", index_node,
                f"bound the indices, as in stage % {written_extents(array)[0]}, or write {array.name}.unchecked, which checked builds still check",
            )  # fmt: skip
        # in a checked build a product cannot be left out: it is reported, and made with a tile that is inside
        site = ctx.new_site("assert", f"{row.name}(): the tile is inside {array.name}", None)
        ctx.emit(nodes.Assertion(location=ctx.location, condition=found.holds, site=site))
        emit(ctx, INTRINSICS["wgmma_fence"])  # the way that reports it is code of another kind
        indices = tuple(
            _clamped(ctx, value, extent, size) for value, extent, size in zip(indices, extents_of(ctx, base), sizes, strict=True)
        )
    first = indices[-1]
    offset = ctx.cast(U32, ctx.binary("mul", first, ctx.constant(first.type, itemsize)))
    element = nodes.Element(array, (*indices[:-1], ctx.constant(first.type, 0)))
    return _Tile(element, offset, leading, stride, array.swizzle)


def _dimension(ctx: Context, row: Intrinsic, array: _Memory, present: bool, why: str, node: ast.AST) -> None:
    if not present:
        dimensions = len(written_extents(array))
        raise ctx.error(f"{row.name}(): `{array.name}` has {dimensions} dimensions; there are {why}", node, "add a dimension")


def _apart(ctx: Context, base: ArrayRef | ViewRef, span: int) -> int | nodes.ValueOp:
    """Bytes from one index of the dimension before the last two to the next."""
    rows = known_extents(memory_of(base))[-2]
    if rows is not None:
        return rows * span
    return ctx.cast(U32, ctx.binary("mul", extents_of(ctx, base)[-2], ctx.constant(I64, span)))


def _whole_patterns(ctx: Context, row: Intrinsic, base: ArrayRef | ViewRef, node: ast.AST) -> None:
    """The pattern of a swizzle, of 8 rows, begins anew with each index of the dimensions before the last two."""
    array = shared_memory(base)
    *outer, rows, _ = written_extents(array)
    if not array.swizzle or all(extent == 1 for extent in outer) or multiple_of(ctx, extents_of(ctx, base)[-2]) % swizzle.ROWS == 0:
        return
    raise ctx.error(
        f"{row.name}(): the rows of `{array.name}` come in pieces of {rows}, and the pattern of swizzle={array.swizzle} is {swizzle.ROWS} rows long",
        node,
        f"make the last extent but one a multiple of {swizzle.ROWS}"
        + (f", such as {swizzle.ROWS} * n" if isinstance(rows, str) else f", such as {-(-rows // swizzle.ROWS) * swizzle.ROWS}"),
    )


def _clamped(ctx: Context, value: nodes.ValueOp, extent: nodes.ValueOp, size: int) -> nodes.ValueOp:
    low = ctx.binary("max", value, ctx.constant(value.type, 0))
    return ctx.binary("min", low, ctx.binary("sub", extent, ctx.constant(value.type, size)))


HANDLERS: Final[dict[str, Handler]] = {
    "wgmma_fence": _plain,
    "wgmma": _wgmma,
    "wgmma_commit": _plain,
    "wgmma_wait": _wait,
}
"""By the name in `ToInstruction`."""
