"""Calls about a launch as a whole."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from kdsl.frontend import geometry
from kdsl.frontend.context import Context
from kdsl.frontend.instructions.emit import Handler, emit
from kdsl.frontend.values import Nothing, Value
from kdsl.lang.intrinsics import Intrinsic


def _sync_grid(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    """`sync_grid()`: the number of the thread in its block, that of the block, how many blocks there are."""
    if not ctx.declaration.attributes.cooperative:
        raise ctx.error(
            f"{row.name}() needs a kernel whose blocks all run at the same time", node, "declare it with @kernel(…, cooperative=True)"
        )
    x, y, z = (ctx.special(f"grid_dim.{axis}") for axis in ("x", "y", "z"))  # type: ignore[arg-type]  # they are names of specials
    blocks = ctx.binary("mul", ctx.binary("mul", x, y), z)
    emit(ctx, row, arguments=(ctx.special("thread_rank"), geometry.linear_block(ctx), blocks))
    return Nothing()


def _dependent(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    """`wait_for_dependencies()`, `launch_dependents()`."""
    emit(ctx, row)
    return Nothing()


HANDLERS: Final[dict[str, Handler]] = {"sync_grid": _sync_grid, "dependent": _dependent}
