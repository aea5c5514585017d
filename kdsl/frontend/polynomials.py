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

    def __add__(self, other: Polynomial) -> Polynomial:
        sums = dict(self.terms)
        for monomial, factor in other.terms:
            sums[monomial] = sums.get(monomial, 0) + factor
        return Polynomial.of(sums)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other.times(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        sums: dict[Monomial, int] = {}
        for one, a in self.terms:
            for two, b in other.terms:
                product = tuple(sorted((*one, *two)))
                sums[product] = sums.get(product, 0) + a * b
        return Polynomial.of(sums)

    def times(self, factor: int, monomial: Monomial = ()) -> Polynomial:
        """Its product with a single term."""
        return Polynomial.of({tuple(sorted((*own, *monomial))): factor * number for own, number in self.terms})

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

    def least(self, ranges: Mapping[str, tuple[int, int]]) -> int:
        """A number that it does not go below where every name is in its range."""
        return sum(min(factor * end for end in _range(monomial, ranges)) for monomial, factor in self.terms)


def quotient(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """What is left of a monomial, None if it is no multiple of the other."""
    rest = list(monomial)
    for name in divisor:
        if name not in rest:
            return None
        rest.remove(name)
    return tuple(rest)


def _range(monomial: Monomial, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    low, high = 1, 1
    for name in monomial:
        corners = [a * b for a in (low, high) for b in ranges[name]]
        low, high = min(corners), max(corners)
    return low, high


def without(term: tuple[Monomial, int], polynomial: Polynomial, relation: Polynomial, part: tuple[Monomial, int]) -> Polynomial | None:
    """A multiple of `polynomial`, by a number above 0, less one of `relation`, so that `term` is gone, which `part` of the relation is to cancel; both
    coefficients are negative."""
    rest = quotient(term[0], part[0])
    if rest is None:
        return None
    common = math.gcd(term[1], part[1])
    return polynomial.times(-part[1] // common) - relation.times(-term[1] // common, rest)
