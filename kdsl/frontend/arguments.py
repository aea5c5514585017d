"""Arguments of a call: their values, how many there are, and where they stand."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kdsl.frontend.context import Context
from kdsl.frontend.values import Value

Evaluated = tuple[Value, ...]
"""The values of arguments, in order."""


def expect_count(ctx: Context, name: str, arguments: Sequence[Value], count: int, node: ast.AST, signature: str) -> None:
    """An error unless there are so many arguments."""
    if len(arguments) != count:
        wanted = "no argument" if count == 0 else "1 argument" if count == 1 else f"{count} arguments"
        raise ctx.error(f"{name}() takes {wanted}, not {len(arguments)}", node, f"its form is {signature}")


def place_of(node: ast.Call, position: int, name: str = "") -> ast.AST:
    """Where an argument stands that is given by position or by name; the whole call if it is a default."""
    if position < len(node.args):
        return node.args[position]
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), node)
