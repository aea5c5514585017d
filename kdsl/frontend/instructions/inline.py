"""Calls of `inline_ptx`, and of the addresses that it may need.

Where the call says what stands for it on the CPU, it is one of two (`kdsl.frontend.either`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Final

from kdsl.frontend import memory
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import is_loose, materialise, scalar, with_article
from kdsl.frontend.either import either
from kdsl.frontend.function import Function, Overloaded
from kdsl.frontend.guards import memory_of
from kdsl.frontend.instructions import ptx_text
from kdsl.frontend.instructions.emit import Handler, emit
from kdsl.frontend.instructions.places import barrier, flag, items, option, shared_array
from kdsl.frontend.values import BarrierRef, Group, Nothing, Text, Value, ViewRef, as_type, describe
from kdsl.ir import nodes
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.types import U32, U64, DType

_TARGETS: Final = re.compile(r"sm_\d{2,3}a?")
_VERSION: Final = re.compile(r"\d{1,2}\.\d")
_TOGETHER: Final = ("none", "warp", "warpgroup", "block")
_MOST: Final = 60
"""Results and operands of one text."""

Given = Mapping[str, Value]
Places = Mapping[str, ast.AST]


def _inline_ptx(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    text = given["template"]
    if not isinstance(text, Text):
        raise ctx.error(f"the template of inline_ptx() is a string, not {describe(text)}", places["template"], "write it out")
    results = _results(ctx, given["results"], places["results"])
    operands = _operands(ctx, given["operands"], places["operands"])
    wrong = ptx_text.fault(text.value, len(results), len(operands))
    if wrong is not None:
        raise ctx.error(f"inline_ptx(): {wrong.message}", places["template"], wrong.hint)
    volatile = flag(ctx, row, given["volatile"], places["volatile"], "`volatile`")
    if not results and not volatile:
        raise ctx.error("inline_ptx() without results and without effects", node, "leave volatile=True, or give it a result")
    cpu = given["cpu"]
    if not isinstance(cpu, Function | Overloaded | Text) or (isinstance(cpu, Text) and cpu.value):
        raise ctx.error(f"`cpu` of inline_ptx() is a @function, not {describe(cpu)}", places["cpu"], "mark it with @function")
    options: dict[str, nodes.Option] = {
        "text": text.value,
        "volatile": volatile,
        "memory": flag(ctx, row, given["memory"], places["memory"], "`memory`"),
        "together": option(ctx, row, given["together"], places["together"], "`together`", _TOGETHER),
        "target": _matching(ctx, given["target"], places["target"], "`target`", _TARGETS, "sm_80, sm_90, sm_90a …"),
        "ptx": _matching(ctx, given["ptx"], places["ptx"], "`ptx`", _VERSION, "a PTX version such as 8.0"),
        "has_cpu": not isinstance(cpu, Text),
    }
    if isinstance(cpu, Text):
        return _as_value(emit(ctx, row, arguments=operands, options=options, results=results))

    def text_itself() -> Sequence[nodes.ValueOp]:
        return emit(ctx, row, arguments=operands, options=options, results=results)

    return _as_value(either(ctx, text_itself, cpu, operands, results, places["cpu"], node))


def _as_value(values: Sequence[nodes.ValueOp]) -> Value:
    return Nothing() if not values else values[0] if len(values) == 1 else Group(tuple(values))


def _results(ctx: Context, value: Value, node: ast.AST) -> tuple[DType, ...]:
    if isinstance(value, Nothing):
        return ()
    found = []
    for item, place in items(value, node):
        of = as_type(item)
        if not isinstance(of, DType):
            raise ctx.error(
                f"a result of inline_ptx() is {describe(item)}", place, "name element types, such as u32 or (u32, f32), or None"
            )
        _register(
            ctx,
            of,
            place,
            "make it a u32 and compare it with 0" if of.is_bool else f"make it {'an i32' if of.is_signed else 'a u32'}, and convert",
        )
        found.append(of)
    return tuple(found)


def _operands(ctx: Context, value: Value, node: ast.AST) -> tuple[nodes.ValueOp, ...]:
    if not isinstance(value, Group):
        raise ctx.error(f"the operands of inline_ptx() are a tuple, not {describe(value)}", node, f"write ({ctx.text(node)},)")
    if len(value.items) > _MOST:
        raise ctx.error(f"{len(value.items)} operands", node, f"a text takes at most {_MOST}")
    found = []
    for item, place in items(value, node):
        number = scalar(ctx, item, place, "an operand of inline_ptx()")
        if is_loose(ctx, number):
            raise ctx.error("a literal as an operand of inline_ptx() has no type", place, f"give it one, as in u32({ctx.text(place)})")
        operand = materialise(ctx, number, place)
        of = operand.type
        _register(ctx, of, place, f"write {'i32' if of.is_signed else 'u32'}({ctx.text(place)})")
        found.append(operand)
    return tuple(found)


def _register(ctx: Context, of: DType, node: ast.AST, hint: str) -> None:
    if of.bits < 16:
        raise ctx.error(f"{with_article(of)} has no register of its own in inline PTX, which have 16, 32 or 64 bits", node, hint)


def _matching(ctx: Context, value: Value, node: ast.AST, what: str, pattern: re.Pattern[str], allowed: str) -> str:
    if isinstance(value, Text) and pattern.fullmatch(value.value):
        return value.value
    raise ctx.error(f"{what} of inline_ptx() is {describe(value)}", node, f"it is {allowed}, in quotes")


# ------------------------------------------------------------------------------------------------------------------------ addresses


def _bracketed(places: Places, array: str, node: ast.AST) -> ast.Subscript:
    """The index stands in a call and is checked like one in brackets."""
    return ast.copy_location(ast.Subscript(places[array], places["index"], ast.Load()), node)  # type: ignore[arg-type]  # both are expressions


def _shared_address(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    target = given["array"]
    if isinstance(target, BarrierRef):
        element = barrier(ctx, row, target, given["index"], places["array"], places["index"]).element
    else:
        base = shared_array(ctx, row, target, places["array"], writes=True)
        indices, _ = memory.shared_array_place(ctx, base, given["index"], _bracketed(places, "array", node))
        element = nodes.Element(memory_of(base), indices)
    return emit(ctx, row, elements=(element,), results=(U32,))[0]


def _global_address(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    target = given["view"]
    if not isinstance(target, ViewRef) or isinstance(target.view, nodes.SharedView):
        raise ctx.error(f"global_address() takes a view, not {describe(target)}", places["view"], "pass a Slice or SliceMut parameter")
    view = target.view
    if view.kind == "DisjointSlice":
        raise ctx.error(f"global_address() of `{view.name}`, a DisjointSlice", places["view"], f"declare it as SliceMut[{view.type}]")
    written = view.written
    indices, _ = memory.shared_view_place(ctx, target, given["index"], _bracketed(places, "view", node))
    if view.kind == "Slice" or target.read_only:
        view.written = written
    return emit(ctx, row, elements=(nodes.Element(view, indices),), results=(U64,))[0]


HANDLERS: Final[dict[str, Handler]] = {
    "inline_ptx": _inline_ptx,
    "shared_address": _shared_address,
    "global_address": _global_address,
}
"""By the name in `ToInstruction`."""
