"""`print` in a kernel: its text is known to the compiler, its numbers are written down by each thread and put into words by the host."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from kdsl.frontend import structs
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import materialise
from kdsl.frontend.values import ArrayRef, Group, Literal, Record, Text, Value, Vector, describe
from kdsl.ir import nodes
from kdsl.ir.nodes import Format
from kdsl.lang.struct_type import StructType
from kdsl.lang.types import BOOL, F64, I64, DType

_MOST_NUMBERS: Final = 64


def call(ctx: Context, node: ast.Call) -> None:
    """Emit a call of `print`; its arguments are not evaluated yet, since f-strings are values nowhere else."""
    from kdsl.frontend.expressions import evaluate  # expressions contain calls, and this is one

    words = {"sep": " ", "end": "\n"}
    for keyword in node.keywords:
        if keyword.arg not in words:
            raise ctx.error(
                "print() in a kernel takes values, and sep= and end=", keyword.value, "the host writes the text, to its standard output"
            )
        given = evaluate(ctx, keyword.value)
        if not isinstance(given, Text):
            raise ctx.error(f"{keyword.arg}= is a string that the compiler knows, not {describe(given)}", keyword.value, "write it out")
        words[keyword.arg] = given.value
    line = _Line(ctx)
    for number, argument in enumerate(node.args):
        if number:
            line.text(words["sep"])
        if isinstance(argument, ast.JoinedStr):
            line.joined(argument)
        else:
            line.value(evaluate(ctx, argument), argument)
    line.text(words["end"])
    if len(line.numbers) > _MOST_NUMBERS:
        raise ctx.error(f"print() of {len(line.numbers)} numbers at once; {_MOST_NUMBERS} is the most", node, "print them in several calls")
    site = ctx.sites.setdefault(nodes.Site("print", "", ctx.location, None, format=tuple(line.parts)), len(ctx.sites))
    ctx.emit(nodes.Print(location=ctx.location, values=tuple(line.numbers), site=site))


class _Line:
    """The text of one call, and its numbers."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.parts: list[Format] = []
        self.numbers: list[nodes.ValueOp] = []

    def text(self, text: str) -> None:
        self.parts.append(text)

    def joined(self, node: ast.JoinedStr) -> None:
        """An f-string."""
        from kdsl.frontend.expressions import evaluate

        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.value(evaluate(self.ctx, part.value), part.value, self.spec(part))
            else:
                assert isinstance(part, ast.Constant)
                self.text(str(part.value))

    def spec(self, node: ast.FormattedValue) -> str:
        """What stands behind the colon."""
        if node.conversion not in (-1, ord("s"), ord("r")):
            raise self.ctx.error("`!a` has no meaning for a number", node, "leave it out")
        if node.format_spec is None:
            return ""
        assert isinstance(node.format_spec, ast.JoinedStr)
        parts = node.format_spec.values
        if not all(isinstance(part, ast.Constant) for part in parts):
            raise self.ctx.error("a format that is computed", node, "write the format out, as in {x:.3f}")
        return "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))

    def value(self, value: Value, node: ast.AST, spec: str = "") -> None:
        match value:
            case Text():
                self.text(self.formatted(value.value, spec, node))
            case Literal():
                self.text(self.formatted(value.value, spec, node))
            case Group() | Vector():
                self.items(value.items, node, spec)
            case Record(struct=StructType() as of):
                for position, (name, part) in enumerate(value.fields.items()):
                    self.text(f", {name}=" if position else f"{of.name}({name}=")
                    self.value(part, node, spec)
                self.text(")")
            case ArrayRef(member=True):  # the host shows it as a tuple, of tuples for several dimensions
                self.items(_nested(list(structs.array_items(self.ctx, value)), value.array.shape), node, spec)
            case nodes.ValueOp():
                number = materialise(self.ctx, value, node)
                self.formatted(_sample(number.type), spec, node)
                self.parts.append((number.type, spec))
                self.numbers.append(number)
            case _:
                hint = "print numbers, strings, structs, tuples of them and vectors"
                raise self.ctx.error(f"{describe(value)} cannot be printed", node, hint)

    def items(self, items: Sequence[Value], node: ast.AST, spec: str) -> None:
        """A tuple."""
        self.text("(")
        for position, item in enumerate(items):
            if position:
                self.text(", ")
            self.value(item, node, spec)
        self.text(",)" if len(items) == 1 else ")")

    def formatted(self, value: object, spec: str, node: ast.AST) -> str:
        try:
            return format(value, spec)
        except ValueError as error:
            raise self.ctx.error(f"the format {spec!r} does not fit: {error}", node, "see Python's format specification") from None


def _nested(items: Sequence[Value], shape: tuple[int, ...]) -> Sequence[Value]:
    """The elements of an array in row-major order as tuples of tuples."""
    if len(shape) == 1:
        return items
    length = len(items) // shape[0]
    return [Group(tuple(_nested(items[start : start + length], shape[1:]))) for start in range(0, len(items), length)]


def _sample(of: DType) -> object:
    """A value with the Python type that the host formats."""
    return {BOOL: False, I64: 0, F64: 0.0}[BOOL if of.is_bool else I64 if of.is_integer else F64]
