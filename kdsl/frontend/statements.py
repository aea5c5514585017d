"""Statements: a handler per class of the syntax tree; loops have a file of their own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final

from kdsl.frontend import expand, loops, memory, operators, parts, slices, structs
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import items_of
from kdsl.frontend.expressions import condition, evaluate, locate, sum_of
from kdsl.frontend.function import Function, Overloaded
from kdsl.frontend.proofs import assume
from kdsl.frontend.values import Literal, Nothing, Place, Text, Value, as_type
from kdsl.frontend.variables import Declared, assign, declare, read
from kdsl.frontend.vectors import number
from kdsl.ir import nodes
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.types import DType
from kdsl.lang.vectors import VectorType


def run_body(ctx: Context, statements: Sequence[ast.stmt]) -> None:
    """The statements of a function; in the last one, a `return` needs no jump."""
    run(ctx, statements, tail=True, top=True)


def run(ctx: Context, statements: Sequence[ast.stmt], *, tail: bool = False, top: bool = False) -> None:
    """Statements in order, up to the first after which the program does not go on.

    `tail`: nothing of the function follows; `top`: no branch or loop surrounds them.
    """
    for position, statement in enumerate(statements):
        if ctx.frame.assigned is None:
            return
        last = tail and position == len(statements) - 1
        ctx.location = ctx.locate(statement)
        if isinstance(statement, ast.If):
            _if(ctx, statement, last, top)
        elif isinstance(statement, ast.Return):
            _return(ctx, statement, last, top)
        else:
            _HANDLERS[type(statement)](ctx, statement)


def merge(*states: set[str] | None) -> set[str] | None:
    """Names that are certainly assigned where several ways meet; ways on which the program never comes do not count."""
    alive = [state for state in states if state is not None]
    return set.intersection(*alive) if alive else None


def _if(ctx: Context, node: ast.If, tail: bool, top: bool) -> None:
    test = condition(ctx, node.test)
    if isinstance(test, Literal):  # the other branch does not exist: it is not even checked for types
        run(ctx, node.body if test.value else node.orelse, tail=tail, top=top)
        return
    location = ctx.locate(node)
    frame = ctx.frame
    before = frame.assigned
    mark = len(ctx.set_log)
    branches: list[tuple[nodes.Block, set[str] | None]] = []
    for statements, holds in ((node.body, True), (node.orelse, False)):
        block = nodes.Block()
        frame.assigned = None if before is None else set(before)
        with ctx.nested(block):
            assume(ctx, test, holds)
            run(ctx, statements, tail=tail)
        branches.append((block, frame.assigned))
    (then, after_then), (orelse, after_else) = branches
    ctx.location = location
    ctx.emit(nodes.If(location=ctx.locate(node.test), condition=test, then=then, orelse=orelse))
    ctx.forget_since(mark)
    frame.assigned = merge(after_then, after_else)
    # where only one branch goes on, its condition holds for the rest of the block
    if after_then is None and after_else is not None:
        assume(ctx, test, False)
    elif after_else is None and after_then is not None:
        assume(ctx, test, True)


def _return(ctx: Context, node: ast.Return, tail: bool, top: bool) -> None:
    frame = ctx.frame
    if frame.scope is None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            raise ctx.error("a kernel returns nothing", node, "write results to an array")
        if not (tail and top):
            ctx.emit(nodes.Return(location=ctx.location))
    else:
        value: Value = Nothing() if node.value is None else evaluate(ctx, node.value)
        expand.give_back(ctx, value, node.value or node, last=tail and top)
        if not tail:
            frame.left_early = True
            ctx.emit(nodes.Leave(location=ctx.locate(node), scope=frame.scope))
    frame.assigned = None


def _assign(ctx: Context, node: ast.Assign) -> None:
    value = evaluate(ctx, node.value)
    for target in node.targets:
        _assign_target(ctx, target, value, node.value)


def _assign_target(ctx: Context, target: ast.expr, value: Value, value_node: ast.expr) -> None:
    """Assign to a name, an element, or the parts of a tuple (whose values are all known before the first is assigned)."""
    if isinstance(target, ast.Name):
        assign(ctx, target.id, value, target, value_node)
    elif isinstance(target, ast.Tuple):
        items = items_of(ctx, value, len(target.elts), value_node)
        places = value_node.elts if isinstance(value_node, ast.Tuple) and len(value_node.elts) == len(items) else [value_node] * len(items)
        for part, item, place in zip(target.elts, items, places, strict=True):
            _assign_target(ctx, part, item, place)
    elif isinstance(target, ast.Subscript):
        base = locate(ctx, target.value)
        if slices.is_slice(target):
            slices.store(ctx, base, value, target, value_node)
        else:
            structs.store(ctx, base, evaluate(ctx, target.slice), value, target, value_node)
    elif isinstance(target, ast.Attribute):
        structs.write(ctx, parts.target(ctx, locate(ctx, target.value), target), value, target, value_node)
    else:
        raise ctx.error("this cannot be assigned to", target, "assign to a name, an element, or a tuple of those")


def _augmented(ctx: Context, node: ast.AugAssign) -> None:
    symbol = operators.SYMBOLS[type(node.op)]
    target = node.target
    if isinstance(target, ast.Name):
        old = read(ctx, target)
        new = _combine(ctx, symbol, old, target, node)
        assign(ctx, target.id, new, target, node)
    elif isinstance(target, ast.Subscript) and slices.is_slice(target):
        raise ctx.error("a slice cannot be changed in place", target, "assign a tuple to it")
    elif isinstance(target, ast.Subscript):
        base, subscript = locate(ctx, target.value), evaluate(ctx, target.slice)
        place = parts.element(ctx, base, subscript, target)
        if place is not None:
            _augment_place(ctx, symbol, place, target, node)
            return
        with ctx.at(target):
            old = memory.load(ctx, base, subscript, target)
        memory.store(ctx, base, subscript, _combine(ctx, symbol, old, target, node), target, node)
    elif isinstance(target, ast.Attribute):
        _augment_place(ctx, symbol, parts.target(ctx, locate(ctx, target.value), target), target, node)


def _augment_place(ctx: Context, symbol: str, place: Place, target: ast.expr, node: ast.AugAssign) -> None:
    with ctx.at(target):
        old = structs.read(ctx, place)
    structs.write(ctx, place, _combine(ctx, symbol, old, target, node), target, node)


def _combine(ctx: Context, symbol: str, old: Value, target: ast.expr, node: ast.AugAssign) -> Value:
    if symbol in ("+", "-") and ctx.contract_fma:
        return sum_of(ctx, symbol, target, node.value, node, left_value=number(ctx, old, target, f"an operand of `{symbol}`"))
    return operators.binary(ctx, symbol, old, evaluate(ctx, node.value), target, node.value, node)


def _annotated(ctx: Context, node: ast.AnnAssign) -> None:
    if not isinstance(node.target, ast.Name):
        raise ctx.error("only a name can be annotated", node.target, "write the assignment without a type")
    name = node.target.id
    declare(ctx, name, _annotation(ctx, node.annotation), node.target)
    if node.value is not None:
        assign(ctx, name, evaluate(ctx, node.value), node.target, node.value)


def _annotation(ctx: Context, node: ast.expr) -> Declared:
    """A type that is written beside a local name."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "tuple":
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return tuple(_annotation(ctx, item) for item in items)
    of = as_type(evaluate(ctx, node)) if isinstance(node, ast.Name | ast.Attribute) else None
    if not isinstance(of, DType | VectorType):
        hint = "annotate with a type such as f32, i64 or f32x4, a struct, a tuple such as tuple[f32, i64], or not at all"
        raise ctx.error(f"`{ctx.text(node)}` is no element type", node, hint)
    return of


def _expression(ctx: Context, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return  # a string that documents the line above
    if not isinstance(node.value, ast.Call):
        value = evaluate(ctx, node.value) if isinstance(node.value, ast.Name | ast.Attribute) else None
        hint = f"call it: {ctx.text(node)}()" if isinstance(value, Function | Overloaded | Intrinsic) else "assign it, or remove it"
        raise ctx.error("this expression has no effect", node, hint)
    evaluate(ctx, node.value)


def _assert(ctx: Context, node: ast.Assert) -> None:
    message = ctx.text(node.test)
    if node.msg is not None:
        text = evaluate(ctx, node.msg)
        if not isinstance(text, Text):
            raise ctx.error("the message of an assertion is a plain string", node.msg, "print() writes values")
        message = text.value
    test = condition(ctx, node.test)
    if isinstance(test, Literal):
        if not test.value:
            raise ctx.error(f"this assertion never holds: {message}", node, "its condition is known to the compiler")
        return
    site = ctx.new_site("assert", message, None)
    ctx.emit(nodes.Assertion(location=ctx.location, condition=test, site=site))


def _pass(ctx: Context, node: ast.Pass) -> None:
    return


_HANDLERS: Final[dict[type[ast.stmt], Callable[[Context, Any], None]]] = {
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.AnnAssign: _annotated,
    ast.Expr: _expression,
    ast.Assert: _assert,
    ast.Pass: _pass,
    ast.For: loops.for_loop,
    ast.While: loops.while_loop,
    ast.Break: loops.break_statement,
    ast.Continue: loops.continue_statement,
}
