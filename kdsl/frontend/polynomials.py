"""Polynomials with whole coefficients in named integers: the sizes, strides and lengths that a launch gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Monomial: TypeAlias = tuple[str, ...]
"""A product of names, in order; the empty one is 1."""


@dataclass(frozen=True)
class Polynomial:
    """A sum of monomials with coefficients. It is computed with in exact integers, whatever the types of the program."""

    terms: frozenset[tuple[Monomial, int]]
    """Monomials with their coefficients, none of which is 0."""

    @staticmethod
    def of(terms: Mapping[Monomial, int]) -> Polynomial:
        """The sum of these."""
        return Polynomial(frozenset((monomial, factor) for monomial, factor in terms.items() if factor))

    @staticmethod
    def number(value: int) -> Polynomial:
        """A constant."""
        return Polynomial.of({(): value})

    @staticmethod
    def name(name: str) -> Polynomial:
        """A name."""
        return Polynomial.of({(name,): 1})

    def __hash__(self) -> int:
        return hash(self.terms)

    def __add__(self, other: Polynomial) -> Polynomial:
        return self.plus(other, 1)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self.plus(other, -1)

    def plus(self, other: Polynomial, times: int, monomial: Monomial = ()) -> Polynomial:
        """Its sum with the product of another one with a single term, whose factor is not 0."""
        sums = dict(self.terms)
        for own, factor in other.terms:
            place = tuple(sorted((*own, *monomial))) if monomial else own
            total = sums.get(place, 0) + times * factor
            if total:
                sums[place] = total
            else:
                del sums[place]
        return Polynomial(frozenset(sums.items()))

    def __mul__(self, other: Polynomial) -> Polynomial:
        sums: dict[Monomial, int] = {}
        for one, a in self.terms:
            for two, b in other.terms:
                product = tuple(sorted((*one, *two)))
                sums[product] = sums.get(product, 0) + a * b
        return Polynomial.of(sums)

    def times(self, factor: int) -> Polynomial:
        """Its product with a number that is not 0."""
        return self if factor == 1 else Polynomial(frozenset((monomial, factor * number) for monomial, number in self.terms))

    def over(self, divisor: Polynomial) -> Polynomial | None:
        """Its quotient by a single term, if that is a polynomial, too."""
        if len(divisor.terms) != 1:
            return None
        ((monomial, factor),) = divisor.terms
        found: dict[Monomial, int] = {}
        for own, number in self.terms:
            rest = quotient(own, monomial)
            if rest is None or number % factor:
                return None
            found[rest] = number // factor
        return Polynomial.of(found)

    @property
    def names(self) -> frozenset[str]:
        """All names in it."""
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    def least(self, ranges: Mapping[Monomial, tuple[int, int]]) -> int:
        """A number that it does not go below where every monomial is in its range."""
        total = 0
        for monomial, factor in self.terms:
            total += factor * ranges[monomial][factor < 0]
        return total


class MonomialRanges(dict[Monomial, tuple[int, int]]):
    """The ranges of products of names that are in these ranges, worked out when they are asked for."""

    def __init__(self, names: Mapping[str, tuple[int, int]]) -> None:
        super().__init__()
        self._names = names

    def __missing__(self, monomial: Monomial) -> tuple[int, int]:
        low, high = 1, 1
        for name in monomial:
            least, most = self._names[name]
            corners = low * least, low * most, high * least, high * most
            low, high = min(corners), max(corners)
        self[monomial] = low, high
        return low, high


def quotient(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """What is left of a monomial, None if it is no multiple of the other."""
    rest = list(monomial)
    for name in divisor:
        if name not in rest:
            return None
        rest.remove(name)
    return tuple(rest)


def without(term: tuple[Monomial, int], polynomial: Polynomial, relation: Polynomial, part: tuple[Monomial, int]) -> Polynomial | None:
    """A multiple of `polynomial`, by a number above 0, less one of `relation`, so that `term` is gone, which `part` of the relation is to cancel; both
    coefficients are negative."""
    rest = quotient(term[0], part[0])
    if rest is None:
        return None
    common = math.gcd(term[1], part[1])
    return polynomial.times(-part[1] // common).plus(relation, term[1] // common, rest)
