"""Differences such as `i - n * hop`, where `n` lies between two quotients by `hop`: what is left of `i` is then one of a few numbers.

All of it is in exact integers: floor division by a number above 0 gives the `n` with n * hop <= i < (n + 1) * hop, whatever the sign of `i`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from kdsl.ir import nodes, ranges

Facts: TypeAlias = Mapping[tuple[nodes.ValueOp, bool], Sequence[tuple[nodes.ValueOp, int]]]
"""For a value, others which it does not exceed (True) or go below (False), once this number is added to them."""
_DEEPEST: Final = 6
"""Operations and facts from `n` to a quotient."""
_MOST: Final = 64
"""Values that are looked at on the way."""


def factors(value: nodes.ValueOp) -> Iterator[tuple[nodes.ValueOp, nodes.ValueOp, nodes.ValueOp]]:
    """Of `a - n * h`, a, n and h, either way round."""
    match value:
        case nodes.Binary(op="sub", left=a, right=nodes.Binary(op="mul", left=n, right=h)):
            yield a, n, h
            yield a, h, n


def not_below(a: nodes.ValueOp, n: nodes.ValueOp, h: nodes.ValueOp, facts: Facts) -> bool:
    """Whether n <= a // h is known, so that n * h <= a, where h is above 0."""
    return any(
        isinstance(x, nodes.Binary) and x.op == "floordiv" and x.left is a and x.right is h and more <= 0
        for x, more in itertools.islice(_limits(n, 0, True, facts, _DEEPEST), _MOST)
    )


def sizes(
    a: nodes.ValueOp, n: nodes.ValueOp, h: nodes.ValueOp, facts: Facts, range_of: Callable[[nodes.ValueOp], ranges.Range]
) -> Iterator[nodes.ValueOp]:
    """Each `s` for which n > (a - s) // h is known, so that n * h > a - s, where h is above 0 and a - s does not wrap."""
    for x, more in itertools.islice(_limits(n, 0, False, facts, _DEEPEST), _MOST):
        match x:
            case nodes.Binary(op="floordiv", left=nodes.Binary(op="sub", left=minuend, right=s) as before, right=divisor):
                low, high = range_of(a)[0] - range_of(s)[1], range_of(a)[1] - range_of(s)[0]
                if minuend is a and divisor is h and more >= 1 and before.type.minimum <= low and high <= before.type.maximum:
                    yield s


def _limits(value: nodes.ValueOp, more: int, upper: bool, facts: Facts, depth: int) -> Iterator[tuple[nodes.ValueOp, int]]:
    """Values, and numbers to add to them, which this value and a number do not exceed or go below."""
    yield value, more
    if not depth:
        return
    for other, step in facts.get((value, upper), ()):
        yield from _limits(other, more + step, upper, facts, depth - 1)
    match value:
        case nodes.Binary(op="min" | "max", left=x, right=y) if upper == (value.op == "min"):
            yield from _limits(x, more, upper, facts, depth - 1)
            yield from _limits(y, more, upper, facts, depth - 1)
        case nodes.Binary(op="add", left=x, right=nodes.Constant(value=number)) if value.type.is_integer:
            low, high = ranges.of(x)
            if value.type.minimum <= low + int(number) and high + int(number) <= value.type.maximum:  # it does not wrap
                yield from _limits(x, more + int(number), upper, facts, depth - 1)
