"""Calls that change how many registers the threads of a warpgroup have."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from kdsl.frontend.context import Context
from kdsl.frontend.instructions.emit import Handler, emit
from kdsl.frontend.values import Nothing, Value, describe, known_number
from kdsl.ir import nodes
from kdsl.lang.intrinsics import Intrinsic

_LEAST: Final = 24
_MOST: Final = 256
_STEP: Final = 8
"""What a count can be (PTX ISA, "setmaxnreg")."""


def _set_registers(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    x, y, z = ctx.block_dim
    if x * y * z % nodes.WARP_GROUP_SIZE:
        raise ctx.error(
            f"{row.name}() is for warpgroups of {nodes.WARP_GROUP_SIZE} threads, and the block has {x * y * z}",
            node,
            f"make the block a multiple of {nodes.WARP_GROUP_SIZE}",
        )
    count = known_number(given["count"])
    if not isinstance(count, int) or isinstance(count, bool) or count not in range(_LEAST, _MOST + 1, _STEP):
        shown = describe(given["count"]) if count is None else str(count)
        raise ctx.error(
            f"the count of {row.name}() is a multiple of {_STEP} from {_LEAST} to {_MOST} that the compiler knows; this is {shown}",
            places["count"],
            "use a literal, a captured number or a Const parameter",
        )
    emit(ctx, row, options={"count": count})
    return Nothing()


HANDLERS: Final[dict[str, Handler]] = {"set_registers": _set_registers}
"""By the name in `ToInstruction`."""
