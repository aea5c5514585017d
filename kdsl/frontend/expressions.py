"""Expressions: a handler per class of the syntax tree, evaluated in Python's order."""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Final
from typing import Literal as Choice

from kdsl.frontend import arrays_described, calls, memory, operators, parts, slices, structs, tables, tuples, vectors
from kdsl.frontend.captures import MISSING
from kdsl.frontend.context import Context, grid_rank
from kdsl.frontend.conversions import coerce, is_loose, join, scalar, type_of
from kdsl.frontend.geometry import note_witness
from kdsl.frontend.proofs import assume
from kdsl.frontend.values import (
    LARGEST_LITERAL,
    ArrayRef,
    BarrierRef,
    Foreign,
    Group,
    Literal,
    LiteralChoice,
    MapRef,
    Module,
    Nothing,
    Number,
    Place,
    Record,
    RemoteRef,
    Text,
    Value,
    Vector,
    ViewRef,
    as_type,
    describe,
    from_python,
)  # fmt: skip
from kdsl.frontend.variables import are_alike, assign_slot, foreign, new_slot, read, read_slot
from kdsl.ir import nodes
from kdsl.lang.intrinsics import IndexTriple
from kdsl.lang.types import BOOL, I64, DType
from kdsl.lang.vectors import VectorType

_CHEAP: Final = 8
"""So many pure operations are evaluated rather than jumped over."""
_PURE: Final = (
    nodes.Constant, nodes.Unary, nodes.Binary, nodes.Ternary, nodes.Fma, nodes.Scale, nodes.Compare, nodes.Select, nodes.Cast, nodes.Bitcast, nodes.Get,
)  # fmt: skip


def evaluate(ctx: Context, node: ast.expr) -> Value:
    """The value of an expression."""
    outer, ctx.location = ctx.location, ctx.locate(node)  # as `ctx.at` does, which takes its time: nothing is called more often
    value = _HANDLERS[type(node)](ctx, node)
    if isinstance(value, Place):
        value = structs.read(ctx, value)
    ctx.location = outer
    return value


def locate(ctx: Context, node: ast.expr) -> Value:
    """The value of an expression; an element of struct type, or a part of one, stays a place, of which only what is wanted is read."""
    with ctx.at(node):
        return _HANDLERS[type(node)](ctx, node)


def condition(ctx: Context, node: ast.expr) -> Literal | nodes.ValueOp:
    """The truth of an expression: a `Literal` if the compiler knows it. Only here `and` and `or` take numbers for what they count as."""
    if not isinstance(node, ast.BoolOp):
        return operators.truth(ctx, evaluate(ctx, node), node)
    with ctx.at(node):
        joined = _connect(ctx, _word(node), [lambda item=item: condition(ctx, item) for item in node.values])  # type: ignore[misc]
    return operators.truth(ctx, joined, node)


def _constant(ctx: Context, node: ast.Constant) -> Value:
    if node.value is None:
        return Nothing()
    if isinstance(node.value, int) and node.value.bit_length() > LARGEST_LITERAL:
        raise ctx.error("a literal of more digits than any type holds", node, "use a float")
    if isinstance(node.value, float) and math.isinf(node.value):
        raise ctx.error(f"{ctx.text(node)} is larger than any float", node, 'write f32("inf") if that is meant')
    return Text(node.value) if isinstance(node.value, str) else Literal(node.value)  # type: ignore[arg-type]  # the rest is refused before


def _tuple(ctx: Context, node: ast.Tuple) -> Value:
    return Group(tuple(evaluate(ctx, item) for item in node.elts))


def _binary(ctx: Context, node: ast.BinOp) -> Value:
    symbol = operators.SYMBOLS[type(node.op)]
    if symbol in ("+", "-") and ctx.contract_fma:
        return sum_of(ctx, symbol, node.left, node.right, node)
    return operators.binary(ctx, symbol, evaluate(ctx, node.left), evaluate(ctx, node.right), node.left, node.right, node)


def _product(ctx: Context, node: ast.expr) -> tuple[Number, Number, ast.BinOp] | None:
    """The factors of an expression that is a product."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
        return None
    a = vectors.number(ctx, evaluate(ctx, node.left), node.left, "an operand of `*`")
    return a, vectors.number(ctx, evaluate(ctx, node.right), node.right, "an operand of `*`"), node


def _fuses(product: tuple[Number, Number, ast.BinOp]) -> bool:
    """Whether a product is one of floats."""
    return any(vectors.is_float(factor) for factor in product[:2])


def sum_of(ctx: Context, symbol: str, left: ast.expr, right: ast.expr, node: ast.AST, left_value: Value | None = None) -> Number:
    """`left + right` or `left - right`: a product of floats on one side fuses, the left one of two."""
    left_product = _product(ctx, left) if left_value is None else None
    if left_product is not None and _fuses(left_product):
        other = vectors.number(ctx, evaluate(ctx, right), right, f"an operand of `{symbol}`")
        return operators.fused(ctx, symbol, left_product, other, right, True, node)
    if left_product is not None:
        a, b, product_node = left_product
        with ctx.at(product_node):
            first: Value = operators.binary(ctx, "*", a, b, product_node.left, product_node.right, product_node)
    else:
        first = evaluate(ctx, left) if left_value is None else left_value
    right_product = _product(ctx, right)
    if right_product is None:
        return operators.binary(ctx, symbol, first, evaluate(ctx, right), left, right, node)
    return operators.fused(ctx, symbol, right_product, vectors.number(ctx, first, left, f"an operand of `{symbol}`"), left, False, node)


def _unary(ctx: Context, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        return operators.negate(ctx, condition(ctx, node.operand))
    return operators.unary(ctx, operators.SYMBOLS[type(node.op)], evaluate(ctx, node.operand), node.operand, node)


def _boolean(ctx: Context, node: ast.BoolOp) -> Value:
    """`and` and `or` where their value is wanted: one of the operands, as in Python. Which one the compiler has to know, or all of them are bools."""
    return _one_of(ctx, node, node.values)


def _one_of(ctx: Context, node: ast.BoolOp, items: Sequence[ast.expr]) -> Value:
    first, *rest = items
    value = evaluate(ctx, first)
    if isinstance(value, Literal) and rest:
        return value if bool(value.value) == isinstance(node.op, ast.Or) else _one_of(ctx, node, rest)
    if not rest and not _is_bool(value):
        return value
    following = [lambda item=item: _flag(ctx, evaluate(ctx, item), item, node) for item in rest]
    return _connect(ctx, _word(node), [lambda: _flag(ctx, value, first, node), *following])


def _word(node: ast.BoolOp) -> Choice["and", "or"]:
    return "and" if isinstance(node.op, ast.And) else "or"


def _is_bool(value: Value) -> bool:
    return isinstance(value, Literal | LiteralChoice | nodes.ValueOp) and type_of(value) is BOOL


def _flag(ctx: Context, value: Value, item: ast.expr, node: ast.BoolOp) -> Literal | nodes.ValueOp:
    """An operand of `and` or `or` whose value is wanted. A number would be a value of another type than the other operands, or than what it counts as."""
    if _is_bool(value) or not isinstance(value, Literal | LiteralChoice | nodes.ValueOp):
        return operators.truth(ctx, value, item)
    word, first = _word(node), item is node.values[0]
    a, b = (f"({ctx.text(part)})" if isinstance(part, ast.IfExp | ast.BoolOp) else ctx.text(part) for part in node.values[:2])
    test = f"{a} != 0" if first else a
    then, orelse = (b, a if first else "0") if word == "and" else (a if first else "1", b)
    hint = (
        f"write `{then} if {test} else {orelse}`"
        if len(node.values) == 2
        else "write conditional expressions, such as `a if a != 0 else b`"
    )
    raise ctx.error(
        f"the value of `{word}` is one of its operands, and `{ctx.text(item)}` is no bool",
        node,
        f"{hint}, or bool({ctx.text(node)}) if its truth is meant",
    )


def _connect(ctx: Context, kind: Choice["and", "or"], parts: list[Callable[[], Literal | nodes.ValueOp]]) -> Literal | nodes.ValueOp:
    """The parts joined by `and` or `or`: a part is evaluated only if those before it leave the result open."""
    first = parts[0]()
    if len(parts) == 1:
        return first
    if isinstance(first, Literal):
        return _connect(ctx, kind, parts[1:]) if first.value == (kind == "and") else first
    block = nodes.Block()
    mark = len(ctx.set_log)
    with ctx.nested(block):
        assume(ctx, first, kind == "and")
        second = _connect(ctx, kind, parts[1:])
        rest = ctx.constant(BOOL, second.value) if isinstance(second, Literal) else second
    if isinstance(second, Literal) and second.value == (kind == "and") and _is_cheap(block):
        return first
    if _is_cheap(block):
        ctx.splice(block)
        result: nodes.ValueOp = ctx.binary(kind, first, rest)
    else:
        result = _short_circuit(ctx, kind, first, rest, block)
    ctx.forget_since(mark)
    if not isinstance(result, nodes.Constant):  # a constant is shared: it may be one of its own parts
        ctx.connectives[result] = (kind, first, rest)
    return result


def _short_circuit(ctx: Context, kind: str, first: nodes.ValueOp, rest: nodes.ValueOp, block: nodes.Block) -> nodes.ValueOp:
    variable = ctx.new_variable(kind, BOOL)
    with ctx.nested(block):
        ctx.set(variable, rest)
    other = nodes.Block()
    with ctx.nested(other):
        ctx.set(variable, ctx.constant(BOOL, kind == "or"))
    then, orelse = (block, other) if kind == "and" else (other, block)
    ctx.emit(nodes.If(location=ctx.location, condition=first, then=then, orelse=orelse))
    ctx.known.pop(variable, None)
    return ctx.get(variable)


def _is_cheap(block: nodes.Block) -> bool:
    """Whether evaluating the operations of a block always is right and costs next to nothing."""
    return len(block.ops) <= _CHEAP and all(isinstance(op, _PURE) and not _is_slow(op) for op in block)


def _is_slow(op: nodes.Op) -> bool:
    return (isinstance(op, nodes.Binary) and op.op in ("div", "floordiv", "mod")) or (isinstance(op, nodes.Unary) and op.op == "sqrt")


def _compare(ctx: Context, node: ast.Compare) -> Value:
    """A chain evaluates each operand once, and stops at the first comparison that fails."""
    left_node, left = node.left, evaluate(ctx, node.left)
    if len(node.ops) == 1:
        right = evaluate(ctx, node.comparators[0])
        return _comparison(ctx, node.ops[0], left, right, left_node, node.comparators[0], node)

    def link(position: int, left: Value, left_node: ast.expr) -> list[Callable[[], Literal | nodes.ValueOp]]:
        def test() -> Literal | nodes.ValueOp:
            right_node = node.comparators[position]
            right = evaluate(ctx, right_node)
            with ctx.at(node):
                result = _comparison(ctx, node.ops[position], left, right, left_node, right_node, node)
            if position + 1 < len(node.ops):
                following.extend(link(position + 1, right, right_node))
            return result

        following: list[Callable[[], Literal | nodes.ValueOp]] = []
        if position + 1 == len(node.ops):
            return [test]
        return [test, lambda: _connect(ctx, "and", following)]

    return _connect(ctx, "and", link(0, left, left_node))


def _comparison(
    ctx: Context, op: ast.cmpop, left: Value, right: Value, left_node: ast.expr, right_node: ast.expr, node: ast.expr
) -> Literal | nodes.ValueOp:
    if isinstance(op, ast.In | ast.NotIn):
        if isinstance(right, Group):
            inside: Literal | nodes.ValueOp = tuples.contains(ctx, left, right, left_node, right_node, node)
        else:
            inside = arrays_described.contains(ctx, left, right, left_node, node)
        return operators.negate(ctx, inside) if isinstance(op, ast.NotIn) else operators.truth(ctx, inside, node)
    if isinstance(op, ast.Is | ast.IsNot):
        left, right = as_type(left), as_type(right)
        if isinstance(left, DType | VectorType | Nothing) or isinstance(right, DType | VectorType | Nothing):
            return Literal((left == right) == isinstance(op, ast.Is))
        raise ctx.error("`is` compares types; numbers are compared with `==`", node, "write `==` or `!=`")
    return operators.compare(ctx, operators.SYMBOLS[type(op)], left, right, left_node, right_node, node)


def _conditional(ctx: Context, node: ast.IfExp) -> Value:
    """Only the side that is taken is evaluated."""
    test = condition(ctx, node.test)
    if isinstance(test, Literal):
        return evaluate(ctx, node.body if test.value else node.orelse)
    blocks = (nodes.Block(), nodes.Block())
    sides: list[Value] = []
    mark = len(ctx.set_log)
    for block, side, holds in ((blocks[0], node.body, True), (blocks[1], node.orelse, False)):
        with ctx.nested(block):
            assume(ctx, test, holds)
            sides.append(evaluate(ctx, side))
    then, orelse = sides
    if _are_literals(then, orelse) and not (blocks[0].ops or blocks[1].ops):
        return LiteralChoice(test, then, orelse)  # type: ignore[arg-type]  # as just asked
    result = _choice(ctx, test, blocks, then, orelse, node)
    ctx.forget_since(mark)
    return result


def _are_literals(a: Value, b: Value) -> bool:
    """Whether both are literals, and both or neither bool."""
    return (
        isinstance(a, Literal | LiteralChoice) and isinstance(b, Literal | LiteralChoice) and (type_of(a) is BOOL) == (type_of(b) is BOOL)
    )


def _choice(
    ctx: Context, test: nodes.ValueOp, blocks: tuple[nodes.Block, nodes.Block], then: Value, orelse: Value, node: ast.IfExp
) -> Value:
    if isinstance(then, Vector) or isinstance(orelse, Vector):
        return _choice_of_vectors(ctx, test, blocks, then, orelse, node)
    if are_alike(then, orelse):
        return _choice_of_parts(ctx, test, blocks, then, orelse, node)
    if isinstance(then, Group | Record) and isinstance(orelse, Group | Record):
        sides = f"{describe(then)} and {describe(orelse)}"
        raise ctx.error(f"the sides of a conditional expression are {sides}", node, "both are of one kind, tuples of as many items")
    a, b = (scalar(ctx, side, place, "each side of a conditional expression") for side, place in ((then, node.body), (orelse, node.orelse)))
    common = join(ctx, "if else", a, b, node.body, node.orelse, node)
    with ctx.nested(blocks[0]):
        first = coerce(ctx, a, common, node.body)
    with ctx.nested(blocks[1]):
        second = coerce(ctx, b, common, node.orelse)
    if all(_is_cheap(block) for block in blocks):
        for block in blocks:
            ctx.splice(block)
        with ctx.of_a_type((a, b)):
            result = ctx.select(test, first, second)
    else:
        variable = ctx.new_variable("choice", common)
        for block, value in zip(blocks, (first, second), strict=True):
            with ctx.nested(block):
                ctx.set(variable, value)
        ctx.emit(nodes.If(location=ctx.locate(node.test), condition=test, then=blocks[0], orelse=blocks[1]))
        ctx.known.pop(variable, None)
        result = ctx.get(variable)
    if is_loose(ctx, a) and is_loose(ctx, b):
        ctx.weak.add(result)
    return result


def _choice_of_vectors(
    ctx: Context, test: nodes.ValueOp, blocks: tuple[nodes.Block, nodes.Block], then: Value, orelse: Value, node: ast.IfExp
) -> Value:
    if not isinstance(then, Vector) or not isinstance(orelse, Vector) or then.type is not orelse.type:
        vector, other, place = (then, orelse, node.orelse) if isinstance(then, Vector) else (orelse, then, node.body)
        assert isinstance(vector, Vector)
        raise ctx.error(
            f"the sides of a conditional expression are {describe(vector)} and {describe(other)}",
            node,
            f"write {vector.type}({ctx.text(place)})",
        )
    if all(_is_cheap(block) for block in blocks):
        for block in blocks:
            ctx.splice(block)
        return Vector(then.type, tuple(ctx.select(test, a, b) for a, b in zip(then.items, orelse.items, strict=True)))
    return _choice_of_parts(ctx, test, blocks, then, orelse, node)


def _choice_of_parts(
    ctx: Context, test: nodes.ValueOp, blocks: tuple[nodes.Block, nodes.Block], then: Value, orelse: Value, node: ast.IfExp
) -> Value:
    key = ctx.frame.fresh_key("choice")
    with ctx.nested(blocks[0]):
        slot = new_slot(ctx, "choice", then, key, node.body, node.body)
    with ctx.nested(blocks[1]):
        assign_slot(ctx, "choice", slot, orelse, node.orelse, node.orelse)
    ctx.emit(nodes.If(location=ctx.locate(node.test), condition=test, then=blocks[0], orelse=blocks[1]))
    return read_slot(ctx, slot)


def _subscript(ctx: Context, node: ast.Subscript) -> Value:
    base = locate(ctx, node.value)
    if slices.is_slice(node):
        return slices.load(ctx, base, node)
    subscript = evaluate(ctx, node.slice)
    return parts.element(ctx, base, subscript, node) or memory.load(ctx, base, subscript, node)


def _attribute(ctx: Context, node: ast.Attribute) -> Value:
    base = locate(ctx, node.value)
    name = node.attr
    match base:
        case Module():
            return _of_module(ctx, base, name, node)
        case Record():
            if name in base.fields:
                return base.fields[name]
            if base.struct is not None:
                raise parts.no_field(ctx, base.struct, name, node, ctx.text(node.value))
            raise ctx.error(f"a {base.name} has no field `{name}`", node, f"its fields are {', '.join(base.fields)}")
        case Place():
            return parts.field(ctx, base, name, node)
        case ViewRef() | ArrayRef() | RemoteRef() | MapRef():
            return arrays_described.attribute(ctx, base, name, node)
        case BarrierRef() if name == "unchecked":
            return dataclasses.replace(base, unchecked=True)
        case IndexTriple():
            return _index_triple(ctx, base, name, node)
        case Vector():
            return vectors.attribute(ctx, base, name, node)
        case Literal() | LiteralChoice() | nodes.ValueOp() if name == "dtype":
            return type_of(base)
        case _:
            raise ctx.error(f"{describe(base)} has no attribute `{name}`", node, "structs have fields; arrays and numbers have .dtype")


def _of_module(ctx: Context, base: Module, name: str, node: ast.Attribute) -> Value:
    dotted = f"{base.path}.{name}"
    value: Any = ctx.frame.source.captures.values.get(dotted, MISSING)
    if value is MISSING:
        value = getattr(base.module, name, MISSING)
    if value is MISSING:
        raise ctx.error(f"the module `{base.path}` has no `{name}`", node, "see its documentation for the name")
    meaning = from_python(dotted, value)
    if isinstance(meaning, Foreign):
        raise foreign(ctx, meaning, node)
    return tables.resolve(ctx, dotted, meaning, node)


def _index_triple(ctx: Context, base: IndexTriple, name: str, node: ast.Attribute) -> Value:
    if name not in ("x", "y", "z"):
        raise ctx.error(f"`{base.name}` has no `{name}`", node, f"write {base.name}.x, {base.name}.y or {base.name}.z")
    if base.name == "block_dim":
        return ctx.constant(I64, ctx.block_dim["xyz".index(name)])
    full: Any = f"{base.name}.{name}"
    value = ctx.special(full)
    if full == "block_idx.x" and grid_rank(ctx.declaration.geometry) == 1:
        note_witness(ctx, value, "block_index")  # it is the same number
    return value


def _name(ctx: Context, node: ast.Name) -> Value:
    return read(ctx, node)


def _call(ctx: Context, node: ast.Call) -> Value:
    return calls.call(ctx, node)


_HANDLERS: Final[dict[type[ast.expr], Callable[[Context, Any], Value]]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _tuple,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Subscript: _subscript,
    ast.Attribute: _attribute,
    ast.Call: _call,
}
