"""Shared arrays whose extents the launch decides: from values of the kernel to expressions that the launcher evaluates.

An extent is what a relation of `requires=` may say: integer parameters and fields, lengths and shapes of views, whole numbers, `+ - * //`. The launcher
evaluates it in exact integers, and the kernel takes the array's extents from the launch, so that both always agree on them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from kdsl.frontend.context import Context
from kdsl.frontend.conversions import index
from kdsl.frontend.multiples import multiple_of
from kdsl.frontend.values import Value, ViewRef
from kdsl.ir import nodes
from kdsl.lang.types import DType
from kdsl.lang.vectors import VectorType

_SUM, _PRODUCT, _ATOM = range(3)
_OPERATORS: Final = {"add": ("+", _SUM), "sub": ("-", _SUM), "mul": ("*", _PRODUCT), "floordiv": ("//", _PRODUCT)}
_MOST_DIMENSIONS: Final = 4


def new_view(
    ctx: Context, of: DType | VectorType, shape: Sequence[int | Value], alignment: int, name: str, node: ast.Call
) -> tuple[ViewRef, nodes.SharedView]:
    """A shared array with at least one extent that the compiler does not know; those that it knows are numbers."""
    if len(shape) > _MOST_DIMENSIONS:
        raise ctx.error(
            f"a shared array whose shape the launch decides has at most {_MOST_DIMENSIONS} dimensions, not {len(shape)}",
            node,
            "join some of them, and compute the index",
        )
    written = node.args[0]
    places = written.elts if isinstance(written, ast.Tuple) and len(written.elts) == len(shape) else [written] * len(shape)
    extents: list[int | str] = []
    sources: dict[int, nodes.ValueOp] = {}
    multiples: dict[int, int] = {}
    for dimension, (item, place) in enumerate(zip(shape, places, strict=True)):
        lanes = of.lanes if isinstance(of, VectorType) and dimension == len(shape) - 1 else 1
        if isinstance(item, int):
            extents.append(lanes * item)
            continue
        value = index(ctx, item, place, "an extent of shared_array()")
        text = _text(ctx, value, place)[0]
        extents.append(f"{lanes} * ({text})" if lanes > 1 else text)
        multiples[dimension] = lanes * multiple_of(ctx, value)
        if _is_exact(value):
            sources[dimension] = value
    vector, number = (of, of.element) if isinstance(of, VectorType) else (None, of)
    view = nodes.SharedView(
        _unique(ctx, name), number, "SliceMut", written=True, read=True, rank=len(shape), extents=tuple(extents), begins_at=alignment,
        vector=vector,
    )  # fmt: skip
    ctx.shared_views.append(view)
    ctx.exact_extents.update({(view, dimension): value for dimension, value in sources.items()})
    ctx.extent_multiples.update({(view, dimension): multiple for dimension, multiple in multiples.items()})
    return ViewRef(view, vector=vector), view


def _unique(ctx: Context, name: str) -> str:
    """A name that no parameter and no other such array has: what travels with a launch is known by it."""
    taken = {p.name for p in ctx.parameters} | {view.name for view in ctx.shared_views}
    found, number = name, 2
    while found in taken:
        found, number = f"{name} ({number})", number + 1
    return found


def _text(ctx: Context, value: nodes.ValueOp, place: ast.AST) -> tuple[str, int]:
    """An expression for a value, and how tightly it holds together."""
    match value:
        case nodes.Constant() if value.type.is_integer:
            return (str(value.value), _ATOM) if int(value.value) >= 0 else (f"({value.value})", _ATOM)
        case nodes.ParameterValue() if value.type.is_integer:
            return value.parameter.name, _ATOM
        case nodes.Length():
            if isinstance(value.view, nodes.SharedView):
                extent = value.view.extents[value.dimension]
                return f"({extent})", _ATOM
            return (f"len({value.view.name})" if value.dimension == 0 else f"{value.view.name}.shape[{value.dimension}]"), _ATOM
        case nodes.Cast() if _keeps(value):
            return _text(ctx, value.operand, place)
        case nodes.Unary(op="neg"):
            text, _ = _text(ctx, value.operand, place)
            return f"(-({text}))", _ATOM
        case nodes.Binary() if value.op in _OPERATORS and value.type.is_integer:
            sign, strength = _OPERATORS[value.op]
            (left, left_holds), (right, right_holds) = (_text(ctx, side, place) for side in (value.left, value.right))
            left = left if left_holds >= strength else f"({left})"
            right = right if right_holds > strength else f"({right})"
            return f"{left} {sign} {right}", strength
    raise ctx.error(
        f"the shape of shared_array() must be known when the kernel is launched, and `{ctx.text(place)}` is not",
        place,
        "use parameters, fields, len() and shapes of views, and whole numbers, with + - * //",
    )


def _keeps(cast: nodes.Cast) -> bool:
    """Whether a conversion changes no integer."""
    of, to = cast.operand.type, cast.type
    return of.is_integer and to.is_integer and to.minimum <= of.minimum and of.maximum <= to.maximum


def _is_exact(value: nodes.ValueOp) -> bool:
    """Whether the kernel, whose integers wrap, computes the same value as the launcher does."""
    match value:
        case nodes.Constant() | nodes.ParameterValue() | nodes.Length():
            return True
        case nodes.Cast():
            return _is_exact(value.operand)
        case nodes.Binary(op="floordiv"):
            divisor = value.right
            return isinstance(divisor, nodes.Constant) and int(divisor.value) > 0 and _is_exact(value.left)
        case nodes.Binary() | nodes.Unary():
            return value.range is not None and all(_is_exact(operand) for operand in nodes.operands(value))
        case _:
            return False
