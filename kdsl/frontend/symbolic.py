"""Proofs that an index is inside an array whose length the contract gives in sizes of the launch: `row * p.columns + column` in one of
`p.rows * p.columns` elements, where guards and loops bound `row` and `column`.

Values get bounds that are polynomials in what a launch gives (`polynomials.py`), from the operations that compute them and from the facts that hold;
a bound holds only where nothing wraps, which is proved likewise. That such a polynomial is not negative follows from the contract (`inequalities.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdsl.frontend import proofs, remainders
from kdsl.frontend.context import Context, Fact
from kdsl.frontend.inequalities import ONE, Contract, Inequalities
from kdsl.frontend.polynomials import Polynomial
from kdsl.frontend.relations import extent_name
from kdsl.ir import nodes, ranges
from kdsl.lang.geometry import Grid, Tiles

_DEEPEST: Final = 12
"""Operations and facts through which a bound is followed."""
_TRIED: Final = 3
"""Bounds that are looked at to see that a value fits its type."""
_NUMBERS: Final = 4
"""Operations through which at least a range is followed, if it is kept."""
_WIDEST: Final = 64
"""Operations of a value whose bounds are shared by places of the program."""
_MOST: Final = (2, 8)
"""Bounds that are kept of a value: few prove nearly all that can be proved, and more are tried only where they do not."""


def inside(ctx: Context, view: nodes.View, index: nodes.ValueOp, dimension: int, lanes: int) -> bool:
    """Whether the index, of vectors of `lanes` numbers, is certainly one of a dimension of the view."""
    if (
        isinstance(view, nodes.SharedView)
        or not ctx.contract.relations
        or lanes != (view.vector.lanes if view.vector and dimension == view.rank - 1 else 1)
    ):
        return False
    room = Polynomial.name(extent_name(view.name, dimension)) - ONE
    return any(bounds.proves(room - found) for bounds in present(ctx) for found in bounds.of_exact(index))


def present(ctx: Context) -> Iterator[Bounds]:
    """Bounds of values at this place of the program: first with few bounds of each, then with more, if there are more."""
    if ctx.sizes is None:
        ctx.sizes = _Sizes(Contract(ctx))
    for most in _MOST:
        bounds: Bounds = ctx.sizes.at_present(ctx, most)
        yield bounds
        if not bounds.left_out:
            break


class _Sizes:
    """What was worked out of sizes so far."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._facts: list[Fact] = []
        self._bounds: dict[int, Bounds] = {}
        self._below: dict[nodes.ValueOp, frozenset[nodes.ValueOp] | None] = {}
        self._tables: dict[tuple[Inequalities, int], _Table] = {}

    def below(self, value: nodes.ValueOp) -> frozenset[nodes.ValueOp] | None:
        """The value, and what it is computed from as far as bounds are followed; None if that is much."""
        if value not in self._below:
            seen, waiting = {value}, [value]
            while waiting and len(seen) <= _WIDEST:
                match waiting.pop():
                    case nodes.Binary(left=a, right=b):
                        operands = [a, b]
                    case nodes.Cast(operand=a):
                        operands = [a]
                    case _:
                        operands = []
                waiting += [operand for operand in operands if operand not in seen]
                seen.update(operands)
            self._below[value] = None if waiting else frozenset(seen)
        return self._below[value]

    def table(self, known: Inequalities, most: int) -> _Table:
        """Bounds of values of which no fact speaks, where this is known of sizes."""
        return self._tables.setdefault((known, most), _Table())

    def at_present(self, ctx: Context, most: int) -> Bounds:
        """Bounds at this place of the program, made once for the accesses that stand together."""
        if self._facts != ctx.facts:
            self._facts = [*ctx.facts]
            self._bounds.clear()
        if most not in self._bounds:
            self._bounds[most] = Bounds(ctx, self, self._contract, most)
        return self._bounds[most]


class _Table:
    """Bounds that were found."""

    def __init__(self) -> None:
        self.numbers: dict[nodes.ValueOp, ranges.Range] = {}
        """Ranges of values."""
        self.found: dict[tuple[nodes.ValueOp, bool, int], list[Polynomial]] = {}
        """Upper or lower bounds of values, followed through so many operations; 0 where the first answer is to be taken."""
        self.sums: dict[tuple[nodes.ValueOp, int], list[Polynomial] | None] = {}
        """What sums do not exceed in exact integers."""
        self.left_out = False
        """Whether a value has more bounds than are kept."""


class Bounds:
    """Bounds of values at one place of the program."""

    def __init__(self, ctx: Context, sizes: _Sizes, contract: Contract, most: int) -> None:
        self._ctx = ctx
        self._contract = contract
        self._most = most
        self._sizes = sizes
        self._own = _Table()
        self._about: dict[nodes.ValueOp, list[Fact]] = {}
        self._facts: dict[tuple[nodes.ValueOp, bool], list[tuple[nodes.ValueOp, int]]] = {}
        for fact in ctx.facts:
            if fact.left is not None and fact.right is not None:
                step = int(fact.kind == "lt")
                self._about.setdefault(fact.left, []).append(fact)
                self._about.setdefault(fact.right, []).append(fact)
                self._facts.setdefault((fact.left, True), []).append((fact.right, -step))
                self._facts.setdefault((fact.right, False), []).append((fact.left, step))
        self._known = self._learn()

    def _learn(self) -> Inequalities:
        """What is known of sizes here: those that are more than a number that is not negative are above 0."""
        facts = [fact for fact in self._ctx.facts if fact.kind == "lt" and fact.left is not None and ranges.of(fact.left)[0] >= 0]
        values = dict.fromkeys(fact.right for fact in facts if fact.right is not None)
        named = {value: self._named(value) for value in values}
        above = frozenset(found for found in named.values() if found is not None)
        others = [value for value in values if named[value] is None]
        self._known = self._contract.where(above)
        self._shared = self._sizes.table(self._known, self._most)
        for _ in others:
            more = above.union(found for value in others if (found := self.exact(value)) is not None)
            known = self._contract.where(more)
            if known is self._known:
                break
            self._known, above = known, more
            self._own, self._shared = _Table(), self._sizes.table(known, self._most)
        return self._known

    @property
    def relations(self) -> tuple[Polynomial, ...]:
        """What the contract says is not negative."""
        return self._known.relations

    def proves(self, difference: Polynomial) -> bool:
        """Whether it is certainly not negative."""
        return self._known.proves(difference)

    def _number(self, value: nodes.ValueOp, depth: int = _DEEPEST) -> ranges.Range:
        """The range of a value here."""
        numbers = self._table(value).numbers
        found = numbers.get(value)
        if found is None:
            found = proofs.narrowed(self._about.get(value, ()), value, ranges.of if not depth else lambda x: self._number(x, depth - 1))
            if depth >= _NUMBERS:
                numbers[value] = found
        return found

    def _table(self, value: nodes.ValueOp) -> _Table:
        """Where bounds of a value are kept."""
        below = self._sizes.below(value)
        return self._shared if below is not None and self._about.keys().isdisjoint(below) else self._own

    @property
    def left_out(self) -> bool:
        """Whether a value has more bounds than are kept."""
        return self._own.left_out or self._shared.left_out

    def _named(self, value: nodes.ValueOp) -> Polynomial | None:
        """What a launch gives, or a number, as a polynomial."""
        match value:
            case nodes.Constant() if value.type.is_integer:
                return Polynomial.number(int(value.value))
            case nodes.ParameterValue() if self._contract.names(value.parameter.name):
                return Polynomial.name(value.parameter.name)
            case nodes.Length() if self._contract.names(name := extent_name(value.view.name, value.dimension)):
                return None if isinstance(value.view, nodes.SharedView) else Polynomial.name(name)
            case nodes.Cast() if value.operand.type.is_integer:
                low, high = ranges.of(value.operand)
                return self._named(value.operand) if value.type.minimum <= low and high <= value.type.maximum else None
            case _:
                return None

    def _first(self, table: _Table, found: list[Polynomial], count: int) -> list[Polynomial]:
        """The simplest of them."""
        if len(found) > 1:
            found = sorted(dict.fromkeys(found), key=_complexity)
        table.left_out |= len(found) > count
        return found[:count]

    # ------------------------------------------------------------------------------------------------------------------- values

    def is_natural(self, value: nodes.ValueOp, depth: int) -> bool:
        """Whether a value is certainly not negative."""
        return self._number(value)[0] >= 0 or any(self.proves(least) for least in self.of(value, depth, upper=False))

    def exact(self, value: nodes.ValueOp) -> Polynomial | None:
        """The polynomial that a value is, if it is one."""
        if (named := self._named(value)) is not None:
            return named
        least = set(self.of(value, _DEEPEST, upper=False))
        return next((most for most in self.of(value, _DEEPEST, upper=True) if most in least), None)

    def of(self, value: nodes.ValueOp, depth: int, *, upper: bool) -> list[Polynomial]:
        """Polynomials that a value does not exceed, or that it does not go below."""
        number = Polynomial.number(self._number(value)[upper])
        if not depth:
            return [number]
        table = self._table(value)
        key = value, upper, 0 if table is self._own else depth
        if key not in table.found:
            table.found[key] = [number]  # facts may lead back to it
            found = [*self._by_operation(value, depth - 1, upper), *self._by_facts(value, depth - 1, upper)]
            table.found[key] = [*self._first(table, found, self._most - 1), number]
        return table.found[key]

    def _by_facts(self, value: nodes.ValueOp, depth: int, upper: bool) -> list[Polynomial]:
        others = self._facts.get((value, upper), ())
        return [bound + Polynomial.number(step) for other, step in others for bound in self.of(other, depth, upper=upper)]

    def _by_operation(self, value: nodes.ValueOp, depth: int, upper: bool) -> list[Polynomial]:
        match value:
            case nodes.Special() if upper and (blocks := self._blocks(value.name)) is not None:
                return [blocks - ONE]
            case nodes.ParameterValue() | nodes.Length():
                return [] if (named := self._named(value)) is None else [named]
            case nodes.Cast() if value.operand.type.is_integer:
                low, high = ranges.of(value.operand)
                whole = value.type.minimum <= low and high <= value.type.maximum
                return self.of(value.operand, depth, upper=upper) if whole else []
            case nodes.Binary(op="add" | "mul") if (sums := self._sums(value, depth)) is not None:
                whole = self._numeric(value)[1] <= value.type.maximum or any(
                    self.proves(Polynomial.number(value.type.maximum) - most) for most in sums[:_TRIED]
                )
                return [] if not whole else sums if upper else self._least_sums(value, depth)
            case nodes.Binary(op="add" | "sub", left=a, right=b):
                return [*self._remainders(value, depth, upper), *self._differences(value, a, b, depth, upper)]
            case nodes.Binary(op="floordiv", left=a, right=b) if self.is_natural(a, depth) and self.is_natural(b, depth):
                return [Polynomial.number(0)] if not upper else [*self._quotients(a, b, depth), *self.of(a, depth, upper=True)]
            case nodes.Binary(op="mod", left=a, right=b) if upper and self.is_natural(b, depth):
                below = [most - ONE if self.proves(most - ONE) else most for most in self.of(b, depth, upper=True)]  # n % 0 is 0
                return below + (self.of(a, depth, upper=True) if self.is_natural(a, depth) else [])
            case nodes.Binary(op="min" | "max", left=a, right=b) if upper == (value.op == "min"):
                return self.of(a, depth, upper=upper) + self.of(b, depth, upper=upper)
            case _:
                return []

    def _blocks(self, name: nodes.SpecialName) -> Polynomial | None:
        """The extent of the grid of which a block index is one, as far as the geometry names it in sizes."""
        match self._ctx.declaration.geometry, name:
            case (
                (Tiles(batch=size), "block_idx.z")
                | (Grid(x=size), "block_idx.x")
                | (Grid(y=size), "block_idx.y")
                | (Grid(z=size), "block_idx.z")
            ):
                return self._contract.size(size)
        return None

    def of_exact(self, index: nodes.ValueOp) -> list[Polynomial]:
        """Polynomials that an index that is not negative does not exceed, provided that one of them fits its type.

        Then its terms do, too, and nothing wraps.
        """
        sums = self._sums(index, _DEEPEST) if isinstance(index, nodes.Binary) and index.op in ("add", "mul") else None
        if sums is not None:
            return sums
        return self.of(index, _DEEPEST, upper=True) if self.is_natural(index, _DEEPEST) else []

    def _sums(self, value: nodes.ValueOp, depth: int) -> list[Polynomial] | None:
        """What sums and products of numbers that are not negative do not exceed in exact integers, the simplest first; None for others."""
        key, table = (value, depth), self._table(value)
        if key not in table.sums:
            table.sums[key] = self._sum(value, depth)
        return table.sums[key]

    def _sum(self, value: nodes.ValueOp, depth: int) -> list[Polynomial] | None:
        match value:
            case nodes.Binary(op="add", left=a, right=b) if depth:
                one, other = self._sums(a, depth - 1), self._sums(b, depth - 1)
                found = None if one is None or other is None else [x + y for x in one for y in other]
            case nodes.Binary(op="mul", left=a, right=b) if depth and self.is_natural(a, depth - 1) and self.is_natural(b, depth - 1):
                found = [x * y for x in self.of(a, depth - 1, upper=True) for y in self.of(b, depth - 1, upper=True)]
            case _:
                found = self.of(value, depth, upper=True) if self.is_natural(value, depth) else None
        if found is not None and self._number(value)[0] >= 0:
            found = found + self._by_facts(value, depth, True)
        return None if found is None else self._first(self._table(value), found, self._most)

    def _least_sums(self, value: nodes.Binary, depth: int) -> list[Polynomial]:
        """What a sum or product of numbers that are not negative, which does not wrap, does not go below."""
        a, b = self.of(value.left, depth, upper=False), self.of(value.right, depth, upper=False)
        if value.op == "add":
            return [x + y for x in a for y in b]
        return [x * y for x in a for y in b if self.proves(x) and self.proves(y)]

    def _remainders(self, value: nodes.Binary, depth: int, upper: bool) -> list[Polynomial]:
        """Bounds of `a - n * h` with n between quotients by h. As 0 <= n * h <= a, neither the product nor the difference wraps."""
        for a, n, h in remainders.factors(value):
            positive = self._number(h)[0] >= 1 or any(self.proves(least - ONE) for least in self.of(h, depth, upper=False))
            if positive and self._number(n)[0] >= 0 and remainders.not_below(a, n, h, self._facts):
                if not upper:
                    return [Polynomial.number(0)]
                return [most - ONE for s in remainders.sizes(a, n, h, self._facts, self._number) for most in self.of(s, depth, upper=True)]
        return []

    def _differences(self, value: nodes.Binary, a: nodes.ValueOp, b: nodes.ValueOp, depth: int, upper: bool) -> list[Polynomial]:
        """Bounds of a sum or difference that may be negative, if it does not wrap."""
        low, high = self._numeric(value)
        of, sign = value.type, 1 if value.op == "add" else -1
        lowest = [x + y.times(sign) for x in self.of(a, depth, upper=False) for y in self.of(b, depth, upper=sign < 0)]
        if high > of.maximum or (low < of.minimum and not any(self.proves(x - Polynomial.number(of.minimum)) for x in lowest)):
            return []
        return (
            lowest if not upper else [x + y.times(sign) for x in self.of(a, depth, upper=True) for y in self.of(b, depth, upper=sign > 0)]
        )

    def _numeric(self, value: nodes.Binary) -> ranges.Range:
        """The range of an exact sum, difference or product by those of its operands."""
        a, b = self._number(value.left), self._number(value.right)
        match value.op:
            case "add":
                return a[0] + b[0], a[1] + b[1]
            case "sub":
                return a[0] - b[1], a[1] - b[0]
            case _:
                corners = [x * y for x in a for y in b]
                return min(corners), max(corners)

    def _quotients(self, a: nodes.ValueOp, b: nodes.ValueOp, depth: int) -> list[Polynomial]:
        """Bounds of a // b: where a is below n * b, it is below n."""
        divisor = self.exact(b)
        if divisor is None:
            return []
        limits = [most + ONE for most in self.of(a, depth, upper=True)]
        for _ in range(2):  # what they do not exceed, by the contract
            limits += [
                limit + relation
                for limit in limits
                for relation in self._known.relations
                if any(f < 0 and (m, -f) in limit.terms for m, f in relation.terms)
            ]
        quotients = (limit.over(divisor) for limit in dict.fromkeys(limits))
        return [quotient - ONE for quotient in quotients if quotient is not None]


def _complexity(found: Polynomial) -> tuple[int, int]:
    """Bounds with large numbers come from types, and seldom help."""
    largest = 0
    for _, factor in found.terms:
        largest = max(largest, factor.bit_length())
    return largest, len(found.terms)
