"""Indices such as `tokens[i] * p.width + column`, of which nothing proves that the row is one: then it is enough to check the row.

In an array of `p.rows * p.width` elements, by the contract, the index is inside exactly where the row is, if the column is proved to be one. A row that is
read from memory is often a number of 32 bits; its check costs less than that of the index, and what is known of it then makes the address cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator

from kdsl.frontend import symbolic
from kdsl.frontend.context import Context
from kdsl.frontend.inequalities import ONE
from kdsl.frontend.polynomials import Polynomial
from kdsl.frontend.relations import extent_name
from kdsl.ir import nodes, ranges
from kdsl.lang.types import I64


def row_check(ctx: Context, view: nodes.View, index: nodes.ValueOp) -> nodes.RowCheck | None:
    """What may be asked in place of the index, None if nothing is known to say the same."""
    if ctx.checked or isinstance(view, nodes.SharedView) or view.rank != 1 or not ctx.contract.relations:
        return None
    for bounds in symbolic.present(ctx):
        for row, width, rest in _split(index):
            columns = bounds.exact(width)
            if columns is None or not any(bounds.proves(columns - ONE - most) for most in bounds.of_exact(rest)):
                continue
            count = _count(ctx, bounds, Polynomial.name(extent_name(view.name, 0)), columns)
            if count is not None:
                return nodes.RowCheck(row, width, rest, count)
    return None


def _split(index: nodes.ValueOp) -> Iterator[tuple[nodes.ValueOp, nodes.ValueOp, nodes.ValueOp]]:
    """Of `row * width + rest`, row, width and rest, either way round, if it does not wrap where the rest is below the width."""
    match index:
        case nodes.Binary(op="add", left=a, right=b):
            for product, rest in ((a, b), (b, a)):
                match product:
                    case nodes.Binary(op="mul", left=x, right=y):
                        for row, width in ((x, y), (y, x)):
                            corners = [r * w for r in ranges.of(row) for w in ranges.of(width)]
                            if I64.minimum <= min(corners) and max(corners) + ranges.of(width)[1] <= I64.maximum:
                                yield row, width, rest


def _count(ctx: Context, bounds: symbolic.Bounds, extent: Polynomial, columns: Polynomial) -> nodes.ValueOp | None:
    """How many rows of so many columns the elements of an array are, if that is one number that a launch gives."""
    for relation in bounds.relations:
        elements = extent - relation  # the extent is no less
        rows = elements.over(columns)
        if rows is not None and bounds.proves(elements - extent):
            for parameter in ctx.parameters:
                if isinstance(parameter, nodes.View):
                    for dimension in range(parameter.rank):
                        if rows == Polynomial.name(extent_name(parameter.name, dimension)):
                            return ctx.length(parameter, dimension)
                elif isinstance(parameter, nodes.ScalarParameter) and parameter.type.is_integer and rows == Polynomial.name(parameter.name):
                    return ctx.parameter(parameter) if parameter.type.minimum == 0 else None
    return None
