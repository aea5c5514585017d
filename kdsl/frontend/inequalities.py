"""What is known of the sizes of a launch: their ranges, and which inequalities of the contract hold; and proofs that a polynomial in them is not negative.

Multiples of inequalities are taken away until no negative term is left that ranges of the sizes do not outweigh.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Final

from kdsl.frontend.context import Context
from kdsl.frontend.polynomials import Monomial, MonomialRanges, Polynomial, without
from kdsl.frontend.relations import expression, extent_name
from kdsl.ir import nodes, ranges
from kdsl.lang.geometry import Grid, Rows, Size, Tiles

_STEPS: Final = 5
"""Inequalities of the contract that one proof adds up."""
_TRIES: Final = 40
"""Polynomials that one proof looks at: the right one is nearly always among the first."""
_ROUNDS: Final = 16
"""Times that what is learned of one size is used to learn of another."""
_EXAMPLES: Final = 3
"""Choices of sizes with which wrong inequalities are found out before a proof is tried."""
ONE: Final = Polynomial.number(1)


class Inequalities:
    """Ranges of sizes, and polynomials in them that are not negative. They do not change."""

    def __init__(self, known: Mapping[str, ranges.Range], relations: tuple[Polynomial, ...]) -> None:
        self._ranges = known
        self._monomials = MonomialRanges(known)
        self.relations = relations
        """What is not negative."""
        self._proved: dict[Polynomial, bool] = {}

    @functools.cached_property
    def _examples(self) -> list[MonomialRanges]:
        """Sizes that are possible."""
        return [found for more in range(_EXAMPLES) if (found := self._example(more)) is not None]

    def _example(self, more: int) -> MonomialRanges | None:
        """Sizes for which all of it holds, arrays no longer than they need to be, if they are found."""
        sizes = {name: min(max(low, 0) + more * (1 + place % 3), high) for place, (name, (low, high)) in enumerate(self._ranges.items())}
        for _ in range(_ROUNDS):
            short = False
            for relation in self.relations:
                missing = -relation.least(_point(sizes))
                if missing > 0:
                    names = [name for monomial, _ in relation.terms for name in monomial]
                    alone = [m[0] for m, factor in relation.terms if len(m) == 1 and factor == 1 and names.count(m[0]) == 1]
                    if not alone:
                        return None
                    sizes[min(alone)] += missing
                    short = True
            if not short:
                return _point(sizes) if all(size <= self._ranges[name][1] for name, size in sizes.items()) else None
        return None

    def proves(self, difference: Polynomial) -> bool:
        """Whether it is certainly not negative."""
        found = self._proved.get(difference)
        if found is None:
            found = difference.least(self._monomials) >= 0
            if not found and all(difference.least(example) >= 0 for example in self._examples):  # else it is wrong
                found = self._follows(difference, _STEPS, [_TRIES], {})
            self._proved[difference] = found
        return found

    def _follows(self, difference: Polynomial, steps: int, tries: list[int], seen: dict[Polynomial, int]) -> bool:
        """Whether it is not negative because something is not that is left when multiples of relations are taken away; the shortest is tried first."""
        if tries[0] <= 0 or seen.get(difference, 0) >= steps:
            return False
        tries[0] -= 1
        seen[difference] = steps
        below = [term for term in difference.terms if term[1] < 0 and all(self._ranges[name][0] >= 0 for name in term[0])]
        left: set[Polynomial] = set()
        for term in sorted(below, key=lambda term: (-len(term[0]), term))[:2]:
            for relation in (*self.relations, *self._least_sizes(term[0], difference)):
                parts = (part for part in relation.terms if part[1] < 0)
                left.update(smaller for part in parts if (smaller := without(term, difference, relation, part)) is not None)
        if any(smaller.least(self._monomials) >= 0 for smaller in left):
            return True
        if steps == 1 or tries[0] <= 0:
            return False
        return any(
            self._follows(smaller, steps - 1, tries, seen) for smaller in sorted(left, key=lambda x: (len(x.terms), sorted(x.terms)))
        )

    def _least_sizes(self, monomial: Monomial, difference: Polynomial) -> list[Polynomial]:
        """That sizes are not below their least ones, of those with which the monomial stands in another term: a * b - a is not negative where b is not 0."""
        others = {name for other, factor in difference.terms if factor > 0 and len(other) == len(monomial) + 1 for name in other}
        return [Polynomial.name(name) - Polynomial.number(self._ranges[name][0]) for name in sorted(others) if self._ranges[name][0] >= 1]


def _point(sizes: Mapping[str, int]) -> MonomialRanges:
    """Ranges of one number each."""
    return MonomialRanges({name: (size, size) for name, size in sizes.items()})


class Contract:
    """What parameters, geometry and contract of a kernel say of its sizes."""

    def __init__(self, ctx: Context) -> None:
        self._ranges: dict[str, ranges.Range] = {}
        for parameter in ctx.parameters:
            if isinstance(parameter, nodes.ScalarParameter) and parameter.type.is_integer:
                self._ranges[parameter.name] = ranges.of_type(parameter.type)
            elif isinstance(parameter, nodes.View | nodes.TensorMap):
                for dimension in range(parameter.rank):
                    self._ranges[extent_name(parameter.name, dimension)] = ranges.LENGTH
        self._relations = [r for r in ctx.contract.relations if r.difference.names | r.given <= self._ranges.keys()]
        match ctx.declaration.geometry:  # this thread is in some block of the grid
            case Tiles() as tiles:
                sizes = [tiles.rows, tiles.columns, tiles.batch]
            case Rows() as rows:
                sizes = [rows.rows]
            case Grid() as grid:
                sizes = [grid.x, grid.y, grid.z]
            case _:
                sizes = []
        self._geometry = [found - ONE for size in sizes if (found := self.size(size)) is not None]
        self._where: dict[frozenset[Polynomial], Inequalities] = {}
        self._made: dict[tuple[object, ...], Inequalities] = {}

    def names(self, name: str) -> bool:
        """Whether it is the name of something whose range is known."""
        return name in self._ranges

    def size(self, size: Size) -> Polynomial | None:
        """A size of the geometry, if it is a polynomial in what is known."""
        found = expression(size) if isinstance(size, str) else None
        return found if found is not None and found.names <= self._ranges.keys() else None

    def where(self, above: frozenset[Polynomial]) -> Inequalities:
        """What is known where these are above 0. Some relations hold only where sizes are not 0, which guards and other relations say."""
        if above not in self._where:
            self._where[above] = self._learn([*self._geometry, *(found - ONE for found in above)])
        return self._where[above]

    def _learn(self, differences: Iterable[Polynomial]) -> Inequalities:
        known, relations, waiting = dict(self._ranges), list[Polynomial](), self._relations
        for _ in range(_ROUNDS):
            before = dict(known), len(relations)
            relations += [r.difference for r in waiting if all(known[name][0] >= 1 for name in r.given)]
            waiting = [r for r in waiting if r.difference not in relations]
            for difference in (*relations, *differences):
                _narrow(difference, known)
            if before == (known, len(relations)):
                break
        return self._made.setdefault((*known.items(), *relations), Inequalities(known, tuple(relations)))


def _narrow(difference: Polynomial, known: dict[str, ranges.Range]) -> None:
    """Learn from a polynomial that is not negative: its only term that can be above 0 outweighs the others."""
    above = [(monomial, factor) for monomial, factor in difference.terms if monomial and factor > 0]
    if len(above) != 1 or any(known[name][0] < 0 for name in above[0][0][1:]):
        return
    ((monomial, factor),) = above
    least = -(-(Polynomial.of({monomial: factor}) - difference).least(MonomialRanges(known)) // factor)
    for name in monomial:
        low, high = known[name]
        bound = least if len(monomial) == 1 else min(least, 1)  # a product that is not 0 has no factor that is
        if low < bound <= high and (low >= 0 or len(monomial) == 1):
            known[name] = (bound, high)
