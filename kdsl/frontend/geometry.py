"""Indices that follow from the geometry of a kernel: of the thread, the row, the block, the tile.

The hardware's grid is linear; `block_idx` and `grid_dim` are the kernel's view of it, which a backend unfolds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from kdsl.frontend.clusters import cluster_rank, cluster_size
from kdsl.frontend.context import Context, grid_rank
from kdsl.frontend.values import Record, Value
from kdsl.ir import nodes
from kdsl.lang.geometry import Tiles
from kdsl.lang.types import I64


def linear_block(ctx: Context) -> nodes.ValueOp:
    """The number of the block: x fastest. It fits the range of a block index, because the hardware's grid is linear."""
    rank = grid_rank(ctx.declaration.geometry)
    block = ctx.special("block_idx.x")
    if rank >= 2:
        row = ctx.special("block_idx.y")
        if rank == 3:
            row = ctx.binary("add", ctx.binary("mul", ctx.special("block_idx.z"), ctx.special("grid_dim.y")), row)
        block = ctx.binary("add", ctx.binary("mul", row, ctx.special("grid_dim.x")), block)
        block.range = block.range or ctx.special("block_idx.x").range
    return block


def note_witness(ctx: Context, value: nodes.ValueOp, kind: str) -> None:
    """Note that a value is a witness. In small blocks these numbers are the same, also as values, and one value always is a witness of one kind."""
    x, y, z = ctx.block_dim
    if x * y * z == 1:
        kind = "thread_index"
    elif x * y * z <= nodes.WARP_SIZE and kind == "row_index":
        kind = "block_index"
    ctx.witnesses[value] = kind


def _thread_index(ctx: Context, node: ast.AST) -> Value:
    x, y, z = ctx.block_dim
    first = ctx.binary("mul", linear_block(ctx), ctx.constant(I64, x * y * z))
    index = ctx.binary("add", first, ctx.special("thread_rank"))
    note_witness(ctx, index, "thread_index")
    return index


def _block_index(ctx: Context, node: ast.AST) -> Value:
    block = linear_block(ctx)
    note_witness(ctx, block, "block_index")
    return block


def _row_index(ctx: Context, node: ast.AST) -> Value:
    x, y, z = ctx.block_dim
    warps = -(-x * y * z // nodes.WARP_SIZE)
    row = ctx.binary("add", ctx.binary("mul", linear_block(ctx), ctx.constant(I64, warps)), ctx.special("warp_index"))
    note_witness(ctx, row, "row_index")
    return row


def _tile_index(ctx: Context, node: ast.AST) -> Value:
    geometry = ctx.declaration.geometry
    if not isinstance(geometry, Tiles):
        raise ctx.error(
            "tile_index() needs a grid of tiles", node, "declare the kernel with @kernel(grid=tiles(rows=…, columns=…, tile=(…, …)))"
        )
    rows, columns = geometry.tile
    fields: dict[str, Value] = {
        "row": ctx.binary("mul", ctx.special("block_idx.y"), ctx.constant(I64, rows)),
        "column": ctx.binary("mul", ctx.special("block_idx.x"), ctx.constant(I64, columns)),
        "batch": ctx.special("block_idx.z"),
    }
    return Record("tile", fields)


def _is_first_thread(ctx: Context, node: ast.AST) -> Value:
    return ctx.compare("eq", ctx.special("thread_rank"), ctx.constant(I64, 0))


def _is_first_lane(ctx: Context, node: ast.AST) -> Value:
    return ctx.compare("eq", ctx.special("lane_index"), ctx.constant(I64, 0))


INDICES: Final[dict[str, Callable[[Context, ast.AST], Value]]] = {
    "thread_index": _thread_index,
    "block_index": _block_index,
    "row_index": _row_index,
    "tile_index": _tile_index,
    "is_first_thread": _is_first_thread,
    "is_first_lane": _is_first_lane,
    "cluster_rank": cluster_rank,
    "cluster_size": cluster_size,
}
"""Handlers of the rows of the table of intrinsics that speak of the geometry."""
