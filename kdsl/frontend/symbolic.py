"""Proofs that an index is inside an array whose length the contract gives in sizes of the launch: `row * p.columns + column` in one of
`p.rows * p.columns` elements, where guards and loops bound `row` and `column`.

Values get bounds that are polynomials in what a launch gives (`polynomials.py`), from the operations that compute them and from the facts that hold;
a bound holds only where nothing wraps, which is proved likewise. That such a polynomial is not negative follows from the contract (`relations.py`):
multiples of its inequalities are taken away until no negative term is left that ranges of the sizes do not outweigh.
"""

from __future__ import annotations

from typing import Final

from kdsl.frontend import proofs
from kdsl.frontend.context import Context
from kdsl.frontend.polynomials import Monomial, Polynomial, without
from kdsl.frontend.relations import expression, extent_name
from kdsl.ir import nodes, ranges
from kdsl.lang.geometry import Grid, Rows, Size, Tiles

_DEEPEST: Final = 12
"""Operations and facts through which a bound is followed."""
_STEPS: Final = 5
"""Inequalities of the contract that one proof adds up."""
_TRIES: Final = 40
"""Polynomials that one proof looks at: the right one is nearly always among the first."""
_TRIED: Final = 3
"""Bounds that are looked at to see that a value fits its type."""
_MOST: Final = 8
"""Bounds that are kept of a value."""
_ROUNDS: Final = 16
"""Times that what is learned of one size is used to learn of another."""
_ONE: Final = Polynomial.number(1)


def inside(ctx: Context, view: nodes.View, index: nodes.ValueOp, dimension: int, lanes: int) -> bool:
    """Whether the index, of vectors of `lanes` numbers, is certainly one of a dimension of the view."""
    if (
        isinstance(view, nodes.SharedView)
        or not ctx.contract.relations
        or lanes != (view.vector.lanes if view.vector and dimension == view.rank - 1 else 1)
    ):
        return False
    bounds = _Bounds.at_present(ctx)
    room = Polynomial.name(extent_name(view.name, dimension)) - _ONE
    return any(bounds.proves(room - most) for most in bounds.of_exact(index))


class _Bounds:
    """Bounds of values at one place of the program."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._ranges: dict[str, ranges.Range] = {}
        self._relations: list[Polynomial] = []
        self._found: dict[tuple[nodes.ValueOp, bool], list[Polynomial]] = {}
        self._proved: dict[Polynomial, bool] = {}
        self._learn()

    @staticmethod
    def at_present(ctx: Context) -> _Bounds:
        """Those of this place of the program, made once for the accesses that stand together."""
        if ctx.bounds is None or ctx.bounds[0] != ctx.facts:
            ctx.bounds = ([*ctx.facts], _Bounds(ctx))
        found: _Bounds = ctx.bounds[1]
        return found

    # -------------------------------------------------------------------------------------------------------------------- sizes

    def named(self, name: str, known: ranges.Range) -> Polynomial:
        """A size of the launch in this range."""
        self._ranges.setdefault(name, known)
        return Polynomial.name(name)

    def _learn(self) -> None:
        """Find the ranges of sizes, and which relations hold here: some do only where sizes are not 0, which guards and other relations say."""
        for parameter in self._ctx.parameters:
            if isinstance(parameter, nodes.ScalarParameter) and parameter.type.is_integer:
                self.named(parameter.name, ranges.of_type(parameter.type))
            elif isinstance(parameter, nodes.View | nodes.TensorMap):
                for dimension in range(parameter.rank):
                    self.named(extent_name(parameter.name, dimension), ranges.LENGTH)
        waiting = [
            relation for relation in self._ctx.contract.relations if relation.difference.names | relation.given <= self._ranges.keys()
        ]
        facts = [fact for fact in self._ctx.facts if fact.kind == "lt" and fact.left is not None and ranges.of(fact.left)[0] >= 0]
        for _ in range(_ROUNDS):
            before = dict(self._ranges), len(self._relations)
            self._relations += [r.difference for r in waiting if all(self._ranges[name][0] >= 1 for name in r.given)]
            waiting = [r for r in waiting if r.difference not in self._relations]
            self._found.clear()
            self._proved.clear()
            exact = [self._exact(fact.right) for fact in facts if fact.right is not None]  # more than a number that is not negative
            for difference in (*self._relations, *self._geometry(), *(found - _ONE for found in exact if found is not None)):
                self._narrow(difference)
            if before == (self._ranges, len(self._relations)):
                break

    def _geometry(self) -> list[Polynomial]:
        """What is not negative because this thread is in some block of the grid."""
        match self._ctx.declaration.geometry:
            case Tiles() as tiles:
                sizes = [tiles.rows, tiles.columns, tiles.batch]
            case Rows() as rows:
                sizes = [rows.rows]
            case Grid() as grid:
                sizes = [grid.x, grid.y, grid.z]
            case _:
                sizes = []
        return [found - _ONE for size in sizes if (found := self._size(size)) is not None]

    def _size(self, size: Size) -> Polynomial | None:
        """A size of the geometry, if it is a polynomial in what is known."""
        found = expression(size) if isinstance(size, str) else None
        return found if found is not None and found.names <= self._ranges.keys() else None

    def _narrow(self, difference: Polynomial) -> None:
        """Learn from a polynomial that is not negative: its only term that can be above 0 outweighs the others."""
        above = [(monomial, factor) for monomial, factor in difference.terms if monomial and factor > 0]
        if len(above) != 1 or any(self._ranges[name][0] < 0 for name in above[0][0][1:]):
            return
        ((monomial, factor),) = above
        least = -(-(Polynomial.of({monomial: factor}) - difference).least(self._ranges) // factor)
        for name in monomial:
            low, high = self._ranges[name]
            known = least if len(monomial) == 1 else min(least, 1)  # a product that is not 0 has no factor that is
            if low < known <= high and (low >= 0 or len(monomial) == 1):
                self._ranges[name] = (known, high)

    def proves(self, difference: Polynomial) -> bool:
        """Whether it is certainly not negative."""
        if difference.least(self._ranges) >= 0:
            return True
        found = self._proved.get(difference)
        if found is None:
            found = self._proved[difference] = self._follows(difference, _STEPS, [_TRIES])
        return found

    def _follows(self, difference: Polynomial, steps: int, tries: list[int]) -> bool:
        """Whether it is not negative because something is not that is left when multiples of relations are taken away; the shortest is tried first."""
        if difference.least(self._ranges) >= 0:
            return True
        if not steps or tries[0] <= 0:
            return False
        tries[0] -= 1
        below = [term for term in difference.terms if term[1] < 0 and all(self._ranges[name][0] >= 0 for name in term[0])]
        left: set[Polynomial] = set()
        for term in sorted(below, key=lambda term: (-len(term[0]), term))[:2]:
            for relation in (*self._relations, *self._least_sizes(term[0], difference)):
                parts = (part for part in relation.terms if part[1] < 0)
                left.update(smaller for part in parts if (smaller := without(term, difference, relation, part)) is not None)
        return any(self._follows(smaller, steps - 1, tries) for smaller in sorted(left, key=lambda x: (len(x.terms), sorted(x.terms))))

    def _least_sizes(self, monomial: Monomial, difference: Polynomial) -> list[Polynomial]:
        """That sizes are not below their least ones, of those with which the monomial stands in another term: a * b - a is not negative where b is not 0."""
        others = {name for other, factor in difference.terms if factor > 0 and len(other) == len(monomial) + 1 for name in other}
        return [Polynomial.name(name) - Polynomial.number(self._ranges[name][0]) for name in sorted(others) if self._ranges[name][0] >= 1]

    # ------------------------------------------------------------------------------------------------------------------- values

    def is_natural(self, value: nodes.ValueOp, depth: int) -> bool:
        """Whether a value is certainly not negative."""
        return proofs.bounds(self._ctx, value)[0] >= 0 or any(self.proves(least) for least in self.of(value, depth, upper=False))

    def _exact(self, value: nodes.ValueOp) -> Polynomial | None:
        """The polynomial that a value is, if it is one."""
        least = set(self.of(value, _DEEPEST, upper=False))
        return next((most for most in self.of(value, _DEEPEST, upper=True) if most in least), None)

    def of(self, value: nodes.ValueOp, depth: int, *, upper: bool) -> list[Polynomial]:
        """Polynomials that a value does not exceed, or that it does not go below."""
        number = Polynomial.number(proofs.bounds(self._ctx, value)[upper])
        if not depth:
            return [number]
        key = value, upper
        if key not in self._found:
            self._found[key] = [number]  # facts may lead back to it
            found = [*self._by_operation(value, depth - 1, upper), *self._by_facts(value, depth - 1, upper)]
            self._found[key] = [*sorted(dict.fromkeys(found), key=_complexity)[: _MOST - 1], number]
        return self._found[key]

    def _by_facts(self, value: nodes.ValueOp, depth: int, upper: bool) -> list[Polynomial]:
        found: list[Polynomial] = []
        for fact in self._ctx.facts:
            mine, other = (fact.left, fact.right) if upper else (fact.right, fact.left)
            if mine is value and other is not None:
                step = Polynomial.number(int(fact.kind == "lt") * (-1 if upper else 1))
                found += [bound + step for bound in self.of(other, depth, upper=upper)]
        return found

    def _by_operation(self, value: nodes.ValueOp, depth: int, upper: bool) -> list[Polynomial]:
        match value:
            case nodes.Special() if upper and (blocks := self._blocks(value.name)) is not None:
                return [blocks - _ONE]
            case nodes.ParameterValue() if value.parameter.name in self._ranges:
                return [Polynomial.name(value.parameter.name)]
            case nodes.Length() if not isinstance(value.view, nodes.SharedView):
                return [self.named(extent_name(value.view.name, value.dimension), ranges.LENGTH)]
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
                return self._differences(value, a, b, depth, upper)
            case nodes.Binary(op="floordiv", left=a, right=b) if self.is_natural(a, depth) and self.is_natural(b, depth):
                return [Polynomial.number(0)] if not upper else [*self._quotients(a, b, depth), *self.of(a, depth, upper=True)]
            case nodes.Binary(op="mod", left=a, right=b) if upper and self.is_natural(b, depth):
                below = [most - _ONE if self.proves(most - _ONE) else most for most in self.of(b, depth, upper=True)]  # n % 0 is 0
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
                return self._size(size)
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
        match value:
            case nodes.Binary(op="add", left=a, right=b) if depth:
                one, other = self._sums(a, depth - 1), self._sums(b, depth - 1)
                found = None if one is None or other is None else [x + y for x in one for y in other]
            case nodes.Binary(op="mul", left=a, right=b) if depth and self.is_natural(a, depth - 1) and self.is_natural(b, depth - 1):
                found = [x * y for x in self.of(a, depth - 1, upper=True) for y in self.of(b, depth - 1, upper=True)]
            case _:
                found = self.of(value, depth, upper=True) if self.is_natural(value, depth) else None
        if found is not None and proofs.bounds(self._ctx, value)[0] >= 0:
            found += self._by_facts(value, depth, True)
        return None if found is None else sorted(dict.fromkeys(found), key=_complexity)[:_MOST]

    def _least_sums(self, value: nodes.Binary, depth: int) -> list[Polynomial]:
        """What a sum or product of numbers that are not negative, which does not wrap, does not go below."""
        a, b = self.of(value.left, depth, upper=False), self.of(value.right, depth, upper=False)
        if value.op == "add":
            return [x + y for x in a for y in b]
        return [x * y for x in a for y in b if self.proves(x) and self.proves(y)]

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
        a, b = proofs.bounds(self._ctx, value.left), proofs.bounds(self._ctx, value.right)
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
        divisor = self._exact(b)
        if divisor is None:
            return []
        limits = [most + _ONE for most in self.of(a, depth, upper=True)]
        for _ in range(2):  # what they do not exceed, by the contract
            limits += [
                limit + relation
                for limit in limits
                for relation in self._relations
                if any(f < 0 and (m, -f) in limit.terms for m, f in relation.terms)
            ]
        quotients = (limit.over(divisor) for limit in dict.fromkeys(limits))
        return [quotient - _ONE for quotient in quotients if quotient is not None]


def _complexity(found: Polynomial) -> tuple[int, int]:
    """Bounds with large numbers come from types, and seldom help."""
    return max((abs(factor) for _, factor in found.terms), default=0).bit_length(), len(found.terms)
