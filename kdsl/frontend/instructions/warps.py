"""Calls about a warp as a whole."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from kdsl.frontend.context import Context
from kdsl.frontend.instructions.emit import Handler, emit
from kdsl.frontend.values import Nothing, Value
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.types import U32


def _sync_warp(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    emit(ctx, row)
    return Nothing()


def _active_mask(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    return emit(ctx, row, results=(U32,))[0]


HANDLERS: Final[dict[str, Handler]] = {"sync_warp": _sync_warp, "active_mask": _active_mask}
"""By the name in `ToInstruction`."""
