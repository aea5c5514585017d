"""Ranges of integer values: what an operation can yield, given what its operands can.

`None` says that nothing more is known than the type, also where an exact result might not fit (the operation would wrap). What is not here: what
guards in the program prove (`kdsl.frontend.proofs`); a range holds wherever the value is computed.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from kdsl.ir.nodes import ValueOp
from kdsl.lang.types import DType

Range: TypeAlias = tuple[int, int]

GRID: Final = (0, 2**31 - 2)
"""A block index: CUDA's grids have at most 2**31 - 1 blocks along x, and the other dimensions are folded into x."""
GRID_EXTENT: Final = (1, 2**31 - 1)
"""An extent of the grid."""
LENGTH: Final = (0, 2**47)
"""The length of an array: no address space holds more bytes."""


def of_type(type: DType) -> Range:
    """All values of an integer type (or of `bool`)."""
    return (type.minimum, type.maximum)


def of(value: ValueOp) -> Range:
    """What is known of an integer value."""
    return value.range if value.range is not None else of_type(value.type)


def fitting(type: DType, low: int, high: int) -> Range | None:
    """The range, if it lies in the type and says more than the type does."""
    if low < type.minimum or high > type.maximum or (low, high) == of_type(type):
        return None
    return (low, high)


def unary(op: str, type: DType, a: Range) -> Range | None:
    """The range of `Unary`."""
    match op:
        case "neg":
            return fitting(type, -a[1], -a[0])
        case "invert":
            return fitting(type, ~a[1], ~a[0]) if type.is_signed else None
        case "abs":
            return fitting(type, 0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1])), max(abs(a[0]), abs(a[1])))
        case "popcount" | "leading_zeros" | "trailing_zeros":
            return fitting(type, 0, type.bits)
        case _:
            return None


def binary(op: str, type: DType, a: Range, b: Range) -> Range | None:
    """The range of `Binary`."""
    match op:
        case "add":
            return fitting(type, a[0] + b[0], a[1] + b[1])
        case "sub":
            return fitting(type, a[0] - b[1], a[1] - b[0])
        case "mul":
            corners = [x * y for x in a for y in b]
            return fitting(type, min(corners), max(corners))
        case "floordiv" if b[0] >= 0:
            corners = [x // max(y, 1) for x in a for y in b]
            if b[0] == 0:  # division by zero gives 0
                corners.append(0)
            return fitting(type, min(corners), max(corners))
        case "mod" if b[0] >= 0:
            if a[0] >= 0 and a[1] < b[0]:  # a dividend that is below every divisor stays as it is
                return fitting(type, *a)
            largest = max(b[1] - 1, 0)
            return fitting(type, 0, min(largest, a[1]) if a[0] >= 0 else largest)
        case "min":
            return fitting(type, min(a[0], b[0]), min(a[1], b[1]))
        case "max":
            return fitting(type, max(a[0], b[0]), max(a[1], b[1]))
        case "and" if a[0] >= 0 or b[0] >= 0:
            return fitting(type, 0, min(x[1] for x in (a, b) if x[0] >= 0))
        case "or" | "xor" if a[0] >= 0 and b[0] >= 0:
            return fitting(type, 0, (1 << max(a[1].bit_length(), b[1].bit_length())) - 1)
        case "shl" if a[0] >= 0 and b[0] >= 0 and b[1] < type.bits:
            return fitting(type, a[0] << b[0], a[1] << b[1])
        case "shr" if b[0] >= 0:
            corners = [x >> min(y, type.bits) for x in a for y in b]
            return fitting(type, min(corners), max(corners))
        case _:
            return None


def cast(type: DType, value: ValueOp) -> Range | None:
    """The range of a `Cast` to an integer type."""
    if not type.is_integer or value.type.is_float:
        return None
    return fitting(type, *of(value))


def select(type: DType, a: Range, b: Range) -> Range | None:
    """The range of `Select`, or of anything that is one of two values."""
    return fitting(type, min(a[0], b[0]), max(a[1], b[1]))


def counter(type: DType, start: Range, stop: Range, step: Range) -> Range | None:
    """The range of the counter of a loop, while its body runs."""
    ranges: list[Range] = []
    if step[1] > 0:
        ranges.append((start[0], stop[1] - 1))
    if step[0] < 0:
        ranges.append((stop[0] + 1, start[1]))
    ranges = [(low, high) for low, high in ranges if low <= high]
    return fitting(type, min(r[0] for r in ranges), max(r[1] for r in ranges)) if ranges else None
