"""Of which power of two an integer is known to be a multiple, so that the alignment of an access is proved and not checked at run time.

Only powers of two, because those survive arithmetic that wraps. What is not here: ranges (`kdsl.ir.ranges`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

from kdsl.frontend.context import Context
from kdsl.ir import nodes

MOST: Final = 1 << 62
"""Zero is a multiple of everything; nothing asks for more."""


def multiple_of(ctx: Context, value: nodes.ValueOp) -> int:
    """The largest power of two (at most `MOST`) of which `value` is known to be a multiple."""
    match value:
        case nodes.Constant() if value.type.is_integer:
            return power_of_two_in(int(value.value))
        case nodes.Counter():
            return value.multiple
        case nodes.ParameterValue():
            return ctx.contract.multiples.get(value.parameter.name, 1)
        case nodes.Length(view=nodes.SharedView()):
            return min(ctx.extent_multiples.get((value.view, value.dimension), 1), MOST)
        case nodes.Length():
            name = value.view.name if value.dimension == 0 else f"{value.view.name}.shape[{value.dimension}]"
            return ctx.contract.multiples.get(name, 1)
        case nodes.Cast() if value.type.is_integer and value.operand.type.is_integer:
            return min(multiple_of(ctx, value.operand), 1 << (value.operand.type.bits - 1))
        case nodes.Unary(op="neg"):
            return multiple_of(ctx, value.operand)
        case nodes.Select():
            return min(multiple_of(ctx, value.then), multiple_of(ctx, value.orelse))
        case nodes.Binary() if value.type.is_integer:
            return _binary(ctx, value)
        case _:
            return 1


def _binary(ctx: Context, value: nodes.Binary) -> int:
    a, b = multiple_of(ctx, value.left), multiple_of(ctx, value.right)
    known = value.right.value if isinstance(value.right, nodes.Constant) else None
    match value.op:
        case "add" | "sub" | "or" | "xor" | "min" | "max" | "mod":  # division by zero gives 0
            return min(a, b)
        case "mul":
            return min(a * b, MOST)
        case "and":
            return max(a, b)
        case "shl" if isinstance(known, int) and 0 <= known < value.type.bits:
            return min(a << known, MOST)
        case "floordiv" if isinstance(known, int) and known > 0 and a % known == 0:
            return a // known
        case "shr" if isinstance(known, int) and 0 <= known < value.type.bits:
            return max(a >> known, 1)
        case _:
            return 1


def power_of_two_in(number: int) -> int:
    """The largest power of two that divides a number."""
    return min(number & -number, MOST) if number else MOST


def contract_multiples(requires: Iterable[str]) -> dict[str, int]:
    """What equations of the contract say: `p.k // 8 * 8 == p.k`, `p.k == 8 * p.chunks`, `a.shape[1] == 32 * p.tiles`."""
    known: dict[str, int] = {}
    equations: list[tuple[ast.expr, ast.expr]] = []
    for relation in requires:
        try:
            tree = ast.parse(relation.strip(), mode="eval").body
        except SyntaxError:
            continue  # the launcher's own parser refuses it, with an explanation
        for part in tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]:
            if isinstance(part, ast.Compare):
                sides = [part.left, *part.comparators]
                equations += [(a, b) for a, op, b in zip(sides, part.ops, sides[1:], strict=False) if isinstance(op, ast.Eq)]
    for _ in equations:  # one equation may need what another says
        for a, b in equations:
            for name, other in ((_name(a), b), (_name(b), a)):
                if name is not None:
                    known[name] = max(known.get(name, 1), _of_expression(other, known))
    return known


def _name(node: ast.expr) -> str | None:
    """The parameter, field or extent that an expression of the contract names, called as in `multiple_of`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=parameter), attr=field):
            return f"{parameter}.{field}"
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=view)]):
            return view
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=view), attr="shape"), slice=ast.Constant(value=int(dimension))):
            return view if dimension == 0 else f"{view}.shape[{dimension}]"
    return None


def _of_expression(node: ast.expr, known: dict[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return power_of_two_in(number)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return min(_of_expression(left, known) * _of_expression(right, known), MOST)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return min(_of_expression(left, known), _of_expression(right, known))
        case _:
            return known.get(_name(node) or "", 1)
