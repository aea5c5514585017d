"""Calls of asynchronous stores to a shared array of another block, whose bytes a barrier of that block counts."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from typing import Final

from kdsl.frontend import memory, vectors
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce
from kdsl.frontend.instructions.copies import subscript
from kdsl.frontend.instructions.emit import Handler, emit
from kdsl.frontend.instructions.places import barrier, every, guarded, option
from kdsl.frontend.proofs import bounds
from kdsl.frontend.values import ArrayRef, Nothing, RemoteRef, Value, ViewRef, describe
from kdsl.ir import nodes
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.intrinsics.clusters import ASYNC_REDUCTIONS, STORED_BYTES
from kdsl.lang.types import I64, U32

Given = Mapping[str, Value]
Places = Mapping[str, ast.AST]


def _store(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    own, rank = _target(ctx, row, given["array"], places["array"])
    held, of = own.view if isinstance(own, ViewRef) else own.array, vectors.element_type(own)
    assert of is not None
    options: dict[str, nodes.Option] = {}
    if row.name == "reduce_async":
        options["op"] = operation = option(ctx, row, given["op"], places["op"], "`op`", tuple(ASYNC_REDUCTIONS))
        if of.name not in ASYNC_REDUCTIONS[operation]:
            takes = ", ".join(ASYNC_REDUCTIONS[operation])
            raise ctx.error(f'{row.name}() with op="{operation}" of {of}', places["array"], f"it takes {takes}")
    elif of.itemsize not in STORED_BYTES:
        raise ctx.error(
            f"{row.name}() stores 4, 8 or 16 bytes, and an element of `{held.name}` has {of.itemsize}", places["array"],
            "store several at once: as_vectors(…) takes an array as one of vectors",
        )  # fmt: skip
    place = subscript(places["array"], places["index"], node)
    indices = memory.element_indices(ctx, own, given["index"], place)
    purpose = f"`value` of {row.name}() on `{held.name}`"
    if own.vector is not None:
        values = vectors.coerce_vector(ctx, given["value"], own.vector, places["value"], purpose).items
    else:
        values = (coerce(ctx, given["value"], held.type, places["value"], purpose),)
    bar = barrier(ctx, row, given["barriers"], given["i"], places["barriers"], places["i"])
    block = ctx.cast(U32, rank)
    extents: Sequence[nodes.ValueOp]
    if isinstance(own, ViewRef):
        extents = [vectors.extent(ctx, own, dimension) for dimension in range(own.view.rank)]
    else:
        extents = [ctx.constant(I64, extent) for extent in own.shape]
    in_cluster = inside = None
    if not ctx.trusts(own.unchecked):
        in_cluster = _inside(ctx, rank, ctx.constant(I64, ctx.declaration.attributes.cluster_size))
        inside = every(ctx, [_inside(ctx, index, extent) for index, extent in zip(indices, extents, strict=True)])
    # Bytes of a store that is left out are counted as come, so that nobody waits for them
    count = functools.partial(_count, ctx, row, bar.element, block, of.itemsize)
    with (
        guarded(ctx, in_cluster, f"{row.name}(): the block is one of the cluster"),
        guarded(ctx, bar.holds, f"{row.name}(): the barrier exists"),
        guarded(ctx, inside, f"{row.name}(): the place exists", count),
    ):
        first = indices if own.vector is None else (*indices[:-1], ctx.binary("mul", indices[-1], ctx.constant(I64, own.vector.lanes)))
        emit(ctx, row, elements=(bar.element, nodes.Element(held, first)), arguments=(block, *values), options=options)
    return Nothing()


def _target(ctx: Context, row: Intrinsic, value: Value, node: ast.AST) -> tuple[ArrayRef | ViewRef, nodes.ValueOp]:
    """The array as this block has it, and which block's it is."""
    if not isinstance(value, RemoteRef):
        raise ctx.error(
            f"{row.name}() writes to a shared array of another block, not to {describe(value)}", node, "such as remote(tile, 1)"
        )
    memory.refuse_writing(ctx, value, node)
    return value.own, value.rank


def _inside(ctx: Context, index: nodes.ValueOp, extent: nodes.ValueOp) -> nodes.ValueOp | None:
    """0 <= index < extent, None if that is certain."""
    (low, high), least = bounds(ctx, index), bounds(ctx, extent)[0]
    above = None if low >= 0 else ctx.compare("ge", index, ctx.constant(I64, 0))
    below = None if high < least else ctx.compare("lt", index, extent)
    return every(ctx, [above, below])


def _count(ctx: Context, row: Intrinsic, bar: nodes.Element, block: nodes.ValueOp, size: int) -> None:
    emit(ctx, row, elements=(bar,), arguments=(block, ctx.constant(U32, size)))


HANDLERS: Final[dict[str, Handler]] = {"store_async": _store}
"""By the name in `ToInstruction`."""
