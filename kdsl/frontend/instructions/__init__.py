"""Calls of rows that become a `nodes.Instruction`: each checks its arguments and builds it, in the file of its topic."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from kdsl.frontend.context import Context
from kdsl.frontend.instructions import (
    barriers,
    bulk,
    clusters,
    copies,
    grid,
    inline,
    matrix,
    registers,
    remote_stores,
    votes,
    warpgroups,
    warps,
)
from kdsl.frontend.instructions.emit import Handler
from kdsl.frontend.memory import refuse_vectors
from kdsl.frontend.values import ArrayRef, Value, ViewRef, describe
from kdsl.lang.intrinsics import Intrinsic, ToInstruction
from kdsl.lang.struct_type import StructType

HANDLERS: Final[dict[str, Handler]] = {
    **barriers.HANDLERS,
    **bulk.HANDLERS,
    **clusters.HANDLERS,
    **copies.HANDLERS,
    **grid.HANDLERS,
    **inline.HANDLERS,
    **matrix.HANDLERS,
    **registers.HANDLERS,
    **remote_stores.HANDLERS,
    **votes.HANDLERS,
    **warpgroups.HANDLERS,
    **warps.HANDLERS,
}
"""By the handler's name in `ToInstruction`. The tables of the topics, joined."""


def build(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    """The value of a call of the row."""
    assert isinstance(row.lowering, ToInstruction)
    for name, value in given.items() if row.name != "remote" else ():
        if isinstance(value, ViewRef | ArrayRef):
            refuse_vectors(ctx, value, places[name])
        of = value.view.type if isinstance(value, ViewRef) else value.array.type if isinstance(value, ArrayRef) else None
        if isinstance(of, StructType):
            raise ctx.error(
                f"{row.name}() works on arrays of numbers, and the elements of {describe(value)} are structs",
                places[name],
                "read and write the elements, or keep their numbers in an array of their own",
            )
    return HANDLERS[row.lowering.handler](ctx, row, given, places, node)
