"""Votes of a block: barriers that say for how many of the threads that wait something holds."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Final

from kdsl.frontend import block_votes, operators
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import materialise
from kdsl.frontend.either import either
from kdsl.frontend.instructions.emit import Handler, emit
from kdsl.frontend.values import Value
from kdsl.ir import nodes
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.types import BOOL, U32


def _vote(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    """One instruction on a GPU; on the CPU, whose barriers end loops over the threads, a function written in the language."""
    place = places["predicate"]
    predicate = materialise(ctx, operators.truth(ctx, given["predicate"], place), node)
    of = U32 if row.name == "sync_threads_count" else BOOL

    def instruction() -> Sequence[nodes.ValueOp]:
        return emit(ctx, row, arguments=(predicate,), options={}, results=(of,))

    return either(ctx, instruction, getattr(block_votes, row.name), (predicate,), (of,), place, node)[0]


HANDLERS: Final[dict[str, Handler]] = {"vote_of_block": _vote}
"""By the name in `ToInstruction`."""
