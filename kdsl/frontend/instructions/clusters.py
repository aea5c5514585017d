"""Calls about clusters."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from kdsl.frontend.clusters import require
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import index
from kdsl.frontend.instructions.emit import emit
from kdsl.frontend.values import ArrayRef, Nothing, RemoteRef, Value, ViewRef, describe, known_number
from kdsl.ir import nodes
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.types import DType


def sync_cluster(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    """`sync_cluster()`."""
    require(ctx, row.name, node)
    emit(ctx, row)
    return Nothing()


def remote(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    """`remote(array, rank)`."""
    require(ctx, row.name, node)
    array = given["array"]
    held = array.view if isinstance(array, ViewRef) else array.array if isinstance(array, ArrayRef) else None
    is_shared = isinstance(held, nodes.SharedView) or (isinstance(held, nodes.Array) and held.space == "shared")
    if not isinstance(array, ArrayRef | ViewRef) or held is None or not is_shared or not isinstance(held.type, DType):
        raise ctx.error(
            f"{row.name}() takes a shared array of numbers, not {describe(array)}", places["array"], "make it with shared_array()"
        )
    rank, size = given["rank"], ctx.declaration.attributes.cluster_size
    known = known_number(rank)
    if known is not None and not 0 <= known < size:
        raise ctx.error(f"block {known} is outside of the cluster", places["rank"], f"ranks are 0 to {size - 1}")
    return RemoteRef(array, index(ctx, rank, places["rank"], f"the rank of {row.name}()"))


HANDLERS = {"sync_cluster": sync_cluster, "remote": remote}
