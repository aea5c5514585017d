"""What the reference interpreter knows of a program before it runs: conditions made of literals, and the types that type variables stand for."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from tests.fuzz.arithmetic import FLOATS
from tests.fuzz.values import IllTyped, Literal, Memory, Value, alone, is_loose, number


def known(node: ast.expr, value: Callable[[ast.expr], Value]) -> bool | None:
    """Whether a condition holds, if that is known from what stands before anything unknown; the rest has then no meaning of its own."""
    if isinstance(node, ast.BoolOp):
        decides = isinstance(node.op, ast.Or)
        for item in node.values:
            found = known(item, value)
            if found is None or found == decides:
                return found
        return not decides
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        found = known(node.operand, value)
        return None if found is None else not found
    if not isinstance(node, ast.Compare | ast.Name | ast.Constant):
        return None
    given = value(node)
    return bool(given.value) if isinstance(given, Literal) else None


def stands_for(variable: str, allowed: Sequence[str], given: Sequence[Value]) -> str:
    """The type of a type variable whose parameters are given these values: that of all that have one, to which literals adapt. Literals alone make it an f32
    if one of them is a float or if it may be floats only. Raises IllTyped if there is no such type, or it is none of those allowed."""
    types = {value.type if isinstance(value, Memory) else alone(number(value)) for value in given if not _loose(value)}
    if len(types) > 1:
        raise IllTyped(f"{variable} would be {' and '.join(sorted(types))}")
    if types:
        found = types.pop()
    else:
        floats = all(of in FLOATS for of in allowed) or any(alone(number(value)) in FLOATS for value in given)
        found = "f32" if floats else "i64"
    if found not in allowed:
        raise IllTyped(f"{variable} is no {found}")
    return found


def _loose(value: Value) -> bool:
    return not isinstance(value, Memory) and is_loose(number(value))
