"""The range of an operation holds for all operands within their ranges: tried exhaustively on small intervals around the edges of 8-bit types."""

from __future__ import annotations

import itertools

import pytest

from kdsl.frontend import folding
from kdsl.ir import ranges
from kdsl.lang.types import I8, I64, U8, DType

POINTS = {I8: (-128, -127, -3, -1, 0, 1, 2, 5, 126, 127), U8: (0, 1, 2, 3, 7, 8, 200, 254, 255)}
BINARY = ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "shl", "shr", "min", "max")


def intervals(of: DType) -> list[ranges.Range]:
    return [(low, high) for low, high in itertools.combinations_with_replacement(POINTS[of], 2) if high - low < 130]


def samples(interval: ranges.Range) -> list[int]:
    low, high = interval
    return sorted({low, low + 1, (low + high) // 2, high - 1, high, 0, 1, -1} & set(range(low, high + 1)))


@pytest.mark.parametrize("of", [I8, U8], ids=str)
@pytest.mark.parametrize("op", BINARY)
def test_binary(op: str, of: DType) -> None:
    for a, b in itertools.product(intervals(of), repeat=2):
        known = ranges.binary(op, of, a, b)
        if known is not None:
            assert of.minimum <= known[0] <= known[1] <= of.maximum
            for x, y in itertools.product(samples(a), samples(b)):
                value = folding.binary(op, of, x, y)
                assert value is not None
                assert known[0] <= value <= known[1], (op, a, b, x, y, value)


@pytest.mark.parametrize("of", [I8, U8], ids=str)
@pytest.mark.parametrize("op", ["neg", "invert", "abs"])
def test_unary(op: str, of: DType) -> None:
    for a in intervals(of):
        known = ranges.unary(op, of, a)
        if known is not None:
            for x in range(a[0], a[1] + 1):
                value = folding.unary(op, of, x)
                assert value is not None
                assert known[0] <= value <= known[1]


def test_counter() -> None:
    small = [(0, 0), (0, 3), (-2, 1), (5, 5), (-3, -1)]
    for start, stop, step in itertools.product(small, small, [(1, 1), (2, 3), (-1, -1), (-2, 2)]):
        known = ranges.counter(I64, start, stop, step)
        inside = [
            i
            for first in range(start[0], start[1] + 1)
            for end in range(stop[0], stop[1] + 1)
            for by in range(step[0], step[1] + 1)
            if by
            for i in range(first, end, by)
        ]
        if inside:
            assert known is not None
            assert known[0] <= min(inside)
            assert max(inside) <= known[1]
