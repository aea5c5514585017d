"""What guards prove: facts from conditions, and with them, ranges and the contract, that an index is inside an array.

Facts speak of values, which do not change, so a fact holds until its block ends. Used only to leave out checks; a range that is stored in the IR
holds without any guard (`kdsl.ir.ranges`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Final

from kdsl.frontend.context import Context, Fact, Lengths
from kdsl.frontend.relations import extent_name as _extent
from kdsl.ir import nodes, ranges

_DEEPEST: Final = 4
"""Operations through which guards are followed to the values that they speak of."""
_NEGATED: Final[dict[str, nodes.CompareName]] = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def assume(ctx: Context, condition: nodes.ValueOp, holds: bool) -> None:
    """From here to the end of the block, `condition` is known to hold (or not to)."""
    ctx.facts.extend(_facts(ctx, condition, holds))


def _facts(ctx: Context, condition: nodes.ValueOp, holds: bool) -> Iterable[Fact]:
    connective = ctx.connectives.get(condition)
    if connective is not None:
        kind, left, right = connective
        if (kind == "and") == holds:
            yield from _facts(ctx, left, holds)
            yield from _facts(ctx, right, holds)
    elif isinstance(condition, nodes.Unary) and condition.op == "not":
        yield from _facts(ctx, condition.operand, not holds)
    elif isinstance(condition, nodes.Compare) and condition.left.type.is_integer:
        op = condition.op if holds else _NEGATED[condition.op]
        yield from _relation(op, condition.left, condition.right)


def _relation(op: nodes.CompareName, a: nodes.ValueOp, b: nodes.ValueOp) -> Iterable[Fact]:
    match op:
        case "lt":
            yield Fact("lt", a, b)
        case "gt":
            yield Fact("lt", b, a)
        case "le":
            yield Fact("le", a, b)
        case "ge":
            yield Fact("le", b, a)
        case "eq":
            yield Fact("le", a, b)
            yield Fact("le", b, a)
            zero = isinstance(b, nodes.Constant) and b.value == 0
            if zero and isinstance(a, nodes.Special) and a.name in ("thread_rank", "lane_index"):
                yield Fact("first_thread" if a.name == "thread_rank" else "first_lane")
        case "ne" if isinstance(b, nodes.Constant):  # says something where it takes the end off a range
            if b.value == ranges.of(a)[1]:
                yield Fact("lt", a, b)
            if b.value == ranges.of(a)[0]:
                yield Fact("lt", b, a)
        case _:
            return


def holds(ctx: Context, *kinds: str) -> bool:
    """Whether one of the facts about which thread this is holds here; trivially so where there is only one."""
    x, y, z = ctx.block_dim
    if x * y * z <= nodes.WARP_SIZE and "first_thread" in kinds:
        kinds = (*kinds, "first_lane")  # the first lane of the only warp
    return x * y * z == 1 or any(fact.kind in kinds for fact in ctx.facts)


def bounds(ctx: Context, value: nodes.ValueOp, depth: int = _DEEPEST) -> ranges.Range:
    """What is known of an integer here: its range, narrowed by the guards, also by those of what it is computed from, up to a depth."""
    rest = depth - isinstance(value, nodes.Binary)
    return narrowed(ctx.facts, value, ranges.of if rest < 0 or not ctx.facts else lambda operand: bounds(ctx, operand, rest))


def narrowed(facts: Iterable[Fact], value: nodes.ValueOp, of: Callable[[nodes.ValueOp], ranges.Range]) -> ranges.Range:
    """The range of an integer, narrowed by what these facts say of it and by the ranges of its operands."""
    low, high = ranges.of(value)
    if isinstance(value, nodes.Cast) and value.operand.type.is_integer:
        inner = of(value.operand)
        if value.type.minimum <= inner[0] and inner[1] <= value.type.maximum:  # the conversion changes nothing
            low, high = max(low, inner[0]), min(high, inner[1])
    elif isinstance(value, nodes.Binary):
        narrower = ranges.binary(value.op, value.type, of(value.left), of(value.right))
        if narrower is not None:
            low, high = max(low, narrower[0]), min(high, narrower[1])
    for fact in facts:
        if fact.left is value and fact.right is not None:
            high = min(high, ranges.of(fact.right)[1] - (fact.kind == "lt"))
        if fact.right is value and fact.left is not None:
            low = max(low, ranges.of(fact.left)[0] + (fact.kind == "lt"))
    return (low, high) if low <= high else ranges.of(value)  # guards that contradict each other: this never runs


def inside_view(ctx: Context, view: nodes.View, index: nodes.ValueOp, dimension: int = 0, lanes: int = 1) -> bool:
    """Whether the index, of vectors of `lanes` numbers, is certainly one of a dimension of the view."""
    extent, parts = _counted(view, dimension, lanes)
    low, high = bounds(ctx, index)
    if low < 0:
        return False
    if isinstance(view, nodes.SharedView):
        fixed, source = view.extents[dimension], ctx.exact_extents.get((view, dimension))
        if isinstance(fixed, int):
            return high < fixed // (lanes if dimension == view.rank - 1 else 1)
        if source is not None and parts == 1:
            if any(f.kind == "lt" and f.left is index and f.right is source for f in ctx.facts):
                return True
            rest = _plain(index)
            if isinstance(rest, nodes.Binary) and rest.op == "mod" and _plain(rest.right) is _plain(source) and bounds(ctx, source)[0] >= 1:
                return True
    if _is_rest(ctx, index, extent, parts):
        return True
    if high < ctx.contract.at_least.get(extent, 0) // parts:
        return True
    for fact in ctx.facts:
        if fact.kind == "lt" and fact.left is index and fact.right is not None:
            bound, divisor = _bound(fact.right)
            if divisor == parts and (bound == extent or bound in ctx.contract.at_least_view.get(extent, ())):
                return True
    return False


def _is_rest(ctx: Context, index: nodes.ValueOp, extent: str, parts: int) -> bool:
    """Whether the index is what is left of a division by an extent, or by a smaller one, that is at least 1."""
    rest = _plain(index)
    if not isinstance(rest, nodes.Binary) or rest.op != "mod":
        return False
    bound, divisor = _bound(_plain(rest.right))
    if divisor != parts or (bound != extent and bound not in ctx.contract.at_least_view.get(extent, ())):
        return False
    return ctx.contract.at_least.get(bound, 0) // divisor >= 1 or bounds(ctx, rest.right)[0] >= 1


def _plain(value: nodes.ValueOp) -> nodes.ValueOp:
    """The value without conversions that change nothing."""
    while isinstance(value, nodes.Cast) and value.type.is_integer and value.operand.type.is_integer:
        of, to = value.operand.type, value.type
        if not to.minimum <= of.minimum <= of.maximum <= to.maximum:
            break
        value = value.operand
    return value


def run_inside_view(ctx: Context, view: nodes.View, index: nodes.ValueOp, count: int, dimension: int = 0) -> bool:
    """Whether `count` indices from `index` on certainly are ones of a dimension of the view: a guard such as `i + 8 <= len(y)` says so for 8."""
    if count == 1:
        return inside_view(ctx, view, index, dimension)
    extent = _extent(view.name, dimension)
    low, high = bounds(ctx, index)
    if low < 0:
        return False
    fixed = view.extents[dimension] if isinstance(view, nodes.SharedView) else None
    if high + count <= (fixed if isinstance(fixed, int) else ctx.contract.at_least.get(extent, 0)):
        return True
    source = ctx.exact_extents.get((view, dimension)) if isinstance(view, nodes.SharedView) else None
    for fact in ctx.facts:
        if fact.right is None or not isinstance(fact.left, nodes.Binary) or fact.left.op != "add":
            continue
        bound = _extent(fact.right.view.name, fact.right.dimension) if isinstance(fact.right, nodes.Length) else ""
        if bound != extent and bound not in ctx.contract.at_least_view.get(extent, ()) and fact.right is not source:
            continue
        for start, ahead in ((fact.left.left, fact.left.right), (fact.left.right, fact.left.left)):
            if start is index and ranges.of(ahead)[0] + (fact.kind == "lt") >= count:
                return True
    return False


def _counted(view: nodes.View, dimension: int, lanes: int) -> tuple[str, int]:
    """An extent in vectors of so many numbers: an extent of the contract, which counts what the view is declared to hold, and by what it is divided."""
    own = view.vector.lanes if view.vector and dimension == view.rank - 1 else 1
    return _extent(view.name, dimension), lanes // own


def _bound(value: nodes.ValueOp) -> tuple[str, int]:
    """The same for a value; ("", 0) if it is no extent."""
    match value:
        case nodes.Length():
            return _counted(value.view, value.dimension, 1)
        case nodes.Binary(op="floordiv", left=nodes.Length() as length, right=nodes.Constant(value=int(lanes))) if lanes > 0:
            return _counted(length.view, length.dimension, lanes)
    return "", 0


def inside_extent(ctx: Context, index: nodes.ValueOp, extent: int) -> bool:
    """Whether the index is certainly one of a dimension of a shared or local array."""
    low, high = bounds(ctx, index)
    return low >= 0 and high < extent


def contract_lengths(requires: Iterable[str]) -> Lengths:
    """What relations of the forms `len(a) == len(b)`, `a.shape[1] == b.shape[0]`, `len(a) == 64` and `n >= 1` say, also with `>=`, `<=`, chained, or joined
    by `and`."""
    views: dict[str, set[str]] = {}
    limits: dict[str, tuple[int | None, int | None]] = {}
    numbers: dict[str, int] = {}
    for relation in requires:
        try:
            tree = ast.parse(relation.strip(), mode="eval").body
        except SyntaxError:
            continue  # the launcher's own parser refuses it, with an explanation
        for part in tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]:
            if isinstance(part, ast.Compare):
                sides = [part.left, *part.comparators]
                for left, op, right in zip(sides, part.ops, sides[1:], strict=False):
                    if isinstance(op, ast.GtE | ast.Gt | ast.Eq):
                        _note(views, numbers, left, right)
                        _limit(limits, left, right, isinstance(op, ast.Gt))
                    if isinstance(op, ast.LtE | ast.Lt | ast.Eq):
                        _note(views, numbers, right, left)
                        _limit(limits, right, left, isinstance(op, ast.Lt))
    changed = True
    while changed:
        changed = False
        for name, shorter in views.items():
            more = set().union(*(views.get(other, set()) for other in shorter)) - shorter
            least = max((numbers.get(other, 0) for other in shorter), default=0)
            shorter |= more
            changed |= bool(more) or least > numbers.get(name, 0)
            numbers[name] = max(least, numbers.get(name, 0))
    return Lengths(views, numbers, numbers=limits)


def _note(views: dict[str, set[str]], numbers: dict[str, int], longer: ast.expr, shorter: ast.expr) -> None:
    """Record `longer >= shorter`, if it speaks of a length."""
    name = _length_of(longer)
    if name is None:
        return
    if isinstance(shorter, ast.Constant) and type(shorter.value) is int:
        numbers[name] = max(numbers.get(name, 0), shorter.value)
    other = _length_of(shorter)
    if other is not None:
        views.setdefault(name, set()).add(other)


def _limit(limits: dict[str, tuple[int | None, int | None]], larger: ast.expr, smaller: ast.expr, strictly: bool) -> None:
    """Record `larger >= smaller`, or > if strictly, if one is a parameter or field and the other a number."""
    for side, other, sign in ((larger, smaller, 1), (smaller, larger, -1)):
        name, number = _number_named(side), _literal(other)
        if name is None or number is None:
            continue
        limit = number + sign * strictly
        low, high = limits.get(name, (None, None))
        if sign > 0:
            low = limit if low is None else max(low, limit)
        else:
            high = limit if high is None else min(high, limit)
        limits[name] = low, high


def _number_named(node: ast.expr) -> str | None:
    """The parameter or field that `n` or `p.sizes.rows` is."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=owner, attr=field) if (path := _number_named(owner)) is not None:
            return f"{path}.{field}"
    return None


def _literal(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=number) if type(number) is int:
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=number)) if type(number) is int:
            return -number
    return None


def _length_of(node: ast.expr) -> str | None:
    """The extent that `len(view)` or `view.shape[1]` is."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
        argument = node.args[0]
        return argument.id if isinstance(argument, ast.Name) else None
    match node:
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=name), attr="shape"), slice=ast.Constant(value=int(dimension))):
            return _extent(name, dimension)
    return None
