"""What the contract of a kernel says of sizes, as inequalities between polynomials, for proofs that an index is inside.

A relation that this does not understand proves nothing; mistakes in it are found by the launcher's own reader (`kdsl.launch.contract`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kdsl.frontend.polynomials import MonomialRanges, Polynomial


@dataclass(frozen=True)
class Relation:
    """Something that is not negative in every launch."""

    difference: Polynomial
    """What is not negative."""
    given: frozenset[str] = frozenset()
    """It is so where all of these names are at least 1."""


@dataclass(frozen=True)
class _Bounded:
    """A side of a comparison."""

    least: Polynomial | None
    """What it is at least; None if nothing is known."""
    most: Polynomial | None
    """What it is at most."""
    given: frozenset[str] = frozenset()
    """Both hold where all of these names are at least 1."""


def contract_relations(requires: Iterable[str]) -> tuple[Relation, ...]:
    """The inequalities that relations of a contract say."""
    found: list[Relation] = []
    for relation in requires:
        try:
            tree = ast.parse(relation.strip(), mode="eval").body
        except SyntaxError:
            continue
        for part in tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]:
            found += _alternatives(part)
    return tuple(dict.fromkeys(found))


def _alternatives(node: ast.expr) -> Iterator[Relation]:
    """Of `a >= 1 or b == 0`, `a >= 1` where b is at least 1. Sizes are not negative."""
    if isinstance(node, ast.Compare):
        yield from _comparison(node, frozenset())
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and len(node.values) == 2:
        for one, other in (node.values, node.values[::-1]):
            match other:
                case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]) if isinstance(one, ast.Compare):
                    name = named(left)
                    if name is not None:
                        yield from _comparison(one, frozenset((name,)))


def _comparison(node: ast.Compare, given: frozenset[str]) -> Iterator[Relation]:
    sides = [_bounded(side) for side in (node.left, *node.comparators)]
    for low, op, high in zip(sides, node.ops, sides[1:], strict=False):
        if isinstance(op, ast.LtE | ast.Lt | ast.Eq):
            yield from _below(low, high, isinstance(op, ast.Lt), given)
        if isinstance(op, ast.GtE | ast.Gt | ast.Eq):
            yield from _below(high, low, isinstance(op, ast.Gt), given)


def _below(low: _Bounded, high: _Bounded, strictly: bool, given: frozenset[str]) -> Iterator[Relation]:
    if low.least is not None and high.most is not None:
        yield Relation(high.most - low.least - Polynomial.number(int(strictly)), given | low.given | high.given)


def _bounded(node: ast.expr) -> _Bounded:
    match node:
        case ast.Call(func=ast.Name(id="extent"), args=axes):
            # at least the offset of the last element, and one more, whatever the signs of the strides, if there is one
            last, counts = Polynomial.number(1), set[str]()
            for axis in axes:
                if not isinstance(axis, ast.Tuple) or len(axis.elts) != 2:
                    return _Bounded(None, None)
                count, stride = (polynomial(part) for part in axis.elts)
                if count is None or stride is None:
                    return _Bounded(None, None)
                if (name := named(axis.elts[0])) is not None:
                    counts.add(name)
                elif count.names or count.least(MonomialRanges({})) < 1:
                    return _Bounded(None, None)
                last += (count - Polynomial.number(1)) * stride
            return _Bounded(last, None, frozenset(counts))
        case _:
            exact = polynomial(node)
            return _Bounded(exact, exact)


def expression(text: str) -> Polynomial | None:
    """A size in the language of contracts, None if it is no polynomial."""
    try:
        return polynomial(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        return None


def polynomial(node: ast.expr) -> Polynomial | None:
    """An expression of a contract, None if it is no polynomial."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return Polynomial.number(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = polynomial(operand)
            return None if inner is None else inner.times(-1)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            a, b = polynomial(left), polynomial(right)
            if a is None or b is None:
                return None
            return a + b if isinstance(op, ast.Add) else a - b if isinstance(op, ast.Sub) else a * b
    name = named(node)
    return None if name is None else Polynomial.name(name)


def named(node: ast.expr) -> str | None:
    """The parameter, field or extent that an expression names: `n`, `p.rows`, `len(x)` as `x`, `x.shape[1]`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=field) if (path := named(owner)) is not None:
            return f"{path}.{field}"
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=view)], keywords=[]):
            return view
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=view), attr="shape"), slice=ast.Constant(value=int(dimension))):
            return extent_name(view, dimension)
    return None


def extent_name(view: str, dimension: int) -> str:
    """How an extent of a view is called."""
    return view if dimension == 0 else f"{view}.shape[{dimension}]"
