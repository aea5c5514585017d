"""Loops: `while`, `for … in range`, `for … in unroll`, with `break`, `continue` and `else`.

An unrolled loop repeats its body; `break` and `continue` in it leave scopes instead. Names that a loop may skip are not assigned after it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from kdsl.frontend.context import Context, Fact
from kdsl.frontend.conversions import index
from kdsl.frontend.expressions import condition, evaluate
from kdsl.frontend.frames import Loop
from kdsl.frontend.multiples import multiple_of
from kdsl.frontend.proofs import assume
from kdsl.frontend.values import Builtin, Literal, Value, describe, known_number
from kdsl.frontend.variables import assign, variables_of
from kdsl.ir import nodes, ranges
from kdsl.lang.intrinsics import Intrinsic, ToFrontend
from kdsl.lang.types import BOOL, I64

_MOST_TRIPS: Final = 1024
"""Trips that `unroll` repeats; LLVM's time grows faster than the length of a straight piece of code."""


def _run(ctx: Context, statements: Sequence[ast.stmt]) -> None:
    from kdsl.frontend.statements import run  # statements contain loops, loops contain statements

    run(ctx, statements)


def _merge(*states: set[str] | None) -> set[str] | None:
    from kdsl.frontend.statements import merge

    return merge(*states)


def _copy(state: set[str] | None) -> set[str] | None:
    return None if state is None else set(state)


def _forget_assigned(ctx: Context, node: ast.stmt) -> None:
    """At the start of a loop nothing is known of the variables that its trips assign."""
    names = ctx.frame.source.names.assigned_in[node]
    ctx.forget(variable for name in names for variable in variables_of(ctx.frame.slots.get(name)))


def while_loop(ctx: Context, node: ast.While) -> None:
    """`while test: body`, with `else`."""
    frame = ctx.frame
    location = ctx.locate(node)
    before = frame.assigned
    mark = len(ctx.set_log)
    _forget_assigned(ctx, node)
    loop = Loop("run-time")
    head, body, orelse = nodes.Block(), nodes.Block(), nodes.Block()
    with ctx.nested(head):
        test = condition(ctx, node.test)
        known = test.value if isinstance(test, Literal) else None
        decided = ctx.constant(BOOL, True) if isinstance(test, Literal) else test
        if known is not False:
            with ctx.nested(body):
                assume(ctx, decided, True)
                frame.loops.append(loop)
                frame.assigned = _copy(before)
                _run(ctx, node.body)
                frame.loops.pop()
        frame.assigned = None if known else _copy(before)
        if known is None:
            with ctx.nested(orelse):
                assume(ctx, decided, False)
                _run(ctx, node.orelse)
    if known is False:  # as with a branch that is never taken, the body does not exist
        _run(ctx, node.orelse)
        return
    ctx.location = location
    ctx.emit(nodes.While(location=ctx.locate(node.test), head=head, condition=decided, body=body, orelse=orelse))
    ctx.forget_since(mark)
    frame.assigned = _merge(frame.assigned, *loop.breaks)


def for_loop(ctx: Context, node: ast.For) -> None:
    """`for name in range(…)` or `unroll(…)`, with `else`."""
    if not isinstance(node.target, ast.Name):
        raise ctx.error("a loop assigns its number to a name", node.target, "write `for i in range(n):`")
    call = node.iter
    callee = evaluate(ctx, call.func) if isinstance(call, ast.Call) else None
    if isinstance(call, ast.Call) and not call.keywords:
        if isinstance(callee, Builtin) and callee.name == "range":
            _range_loop(ctx, node, node.target, call)
            return
        if isinstance(callee, Intrinsic) and callee.lowering == ToFrontend("unroll"):
            _unrolled(ctx, node, node.target, call)
            return
    hint = (
        "write `for i in range(len(y)):` and read y[i]"
        if callee is None
        else "write range(n), range(start, stop), range(start, stop, step), or unroll(…)"
    )
    raise ctx.error("a loop runs over range(…) or unroll(…)", call, hint)


def _arguments(ctx: Context, call: ast.Call, name: str) -> list[tuple[Value, ast.expr]]:
    if not 1 <= len(call.args) <= 3:
        raise ctx.error(f"{name}() takes one to three integers", call, f"{name}(stop), {name}(start, stop) or {name}(start, stop, step)")
    values: list[tuple[Value, ast.expr]] = [(evaluate(ctx, argument), argument) for argument in call.args]
    if len(values) == 1:
        values.insert(0, (Literal(0), call))
    if len(values) == 2:
        values.append((Literal(1), call))
    if known_number(values[2][0]) == 0:
        raise ctx.error(f"the step of {name}() is zero", values[2][1], "a loop with step 0 would not end")
    return values


def _range_loop(ctx: Context, node: ast.For, target: ast.Name, call: ast.Call) -> None:
    frame = ctx.frame
    values = _arguments(ctx, call, "range")
    start, stop, step = (
        index(ctx, value, place, f"the {what} of range()") for (value, place), what in zip(values, ("start", "stop", "step"), strict=True)
    )
    location = ctx.locate(call)
    known = ranges.counter(I64, ranges.of(start), ranges.of(stop), ranges.of(step))
    multiple = min(multiple_of(ctx, start), multiple_of(ctx, step))
    counter = nodes.Counter(location=ctx.locate(target), type=I64, range=known, hint=target.id, multiple=multiple)
    before = frame.assigned
    mark = len(ctx.set_log)
    _forget_assigned(ctx, node)
    loop = Loop("run-time")
    body, orelse = nodes.Block(), nodes.Block()
    with ctx.nested(body):
        _assume_inside(ctx, counter, start, stop, step)
        frame.loops.append(loop)
        frame.assigned = _copy(before)
        ctx.location = ctx.locate(target)
        assign(ctx, target.id, counter, target, target)
        _run(ctx, node.body)
        frame.loops.pop()
    if not _runs_at_least_once(start, stop, step):
        frame.assigned = _copy(before)
    else:
        frame.assigned = _merge(frame.assigned, *loop.continues)
    if frame.assigned is not None:
        with ctx.nested(orelse):
            _run(ctx, node.orelse)
    ctx.location = location
    ctx.emit(nodes.ForRange(location=location, counter=counter, start=start, stop=stop, step=step, body=body, orelse=orelse))
    ctx.forget_since(mark)
    frame.assigned = _merge(frame.assigned, *loop.breaks)


def _runs_at_least_once(start: nodes.ValueOp, stop: nodes.ValueOp, step: nodes.ValueOp) -> bool:
    """Whether the compiler knows that a range is not empty."""
    (_, first), (end, _), (by, most) = ranges.of(start), ranges.of(stop), ranges.of(step)
    if by > 0:
        return first < end
    return most < 0 and ranges.of(start)[0] > ranges.of(stop)[1]


def _assume_inside(ctx: Context, counter: nodes.ValueOp, start: nodes.ValueOp, stop: nodes.ValueOp, step: nodes.ValueOp) -> None:
    """While the body runs, the counter is below (or above) the end of its range."""
    low, high = ranges.of(step)
    if low > 0:
        ctx.facts += [Fact("lt", counter, stop), Fact("le", start, counter)]
    elif high < 0:
        ctx.facts += [Fact("lt", stop, counter), Fact("le", counter, start)]


def _unrolled(ctx: Context, node: ast.For, target: ast.Name, call: ast.Call) -> None:
    frame = ctx.frame
    numbers = []
    for value, place in _arguments(ctx, call, "unroll"):
        number = known_number(value)
        if not isinstance(number, int) or isinstance(number, bool):
            raise ctx.error(
                f"unroll() repeats its body for values that the compiler knows, and this is {describe(value)}",
                place,
                "use range(), or make it a literal, a captured number or a Const parameter",
            )
        numbers.append(number)
    trips = range(*numbers)
    if len(trips) > _MOST_TRIPS:
        raise ctx.error(f"unroll() of {len(trips)} trips", call, f"use range(); at most {_MOST_TRIPS} trips can be unrolled")
    loop = Loop("unrolled")
    location = ctx.location
    mark = len(ctx.set_log)
    whole = nodes.Block()
    jumps = _own_jumps(node.body)
    if ast.Break in jumps:
        loop.whole = nodes.Scope(location=location, body=whole)
    with ctx.nested(whole):
        for number in trips:
            if frame.assigned is None:
                break
            _trip(ctx, node, target, loop, number, scoped=ast.Continue in jumps)
        if frame.assigned is not None:
            _run(ctx, node.orelse)
        ctx.location = location
    if loop.whole is not None and loop.breaks:
        ctx.emit(loop.whole)
        ctx.forget_since(mark)
    else:
        ctx.splice(whole)
    frame.assigned = _merge(frame.assigned, *loop.breaks)


def _trip(ctx: Context, node: ast.For, target: ast.Name, loop: Loop, number: int, *, scoped: bool) -> None:
    frame = ctx.frame
    block = nodes.Block()
    mark = len(ctx.set_log)
    loop.continues = []
    loop.trip = nodes.Scope(location=ctx.locate(target), body=block) if scoped else None
    with ctx.nested(block):
        ctx.location = ctx.locate(target)
        constant = ctx.constant(I64, number)
        assign(ctx, target.id, constant, target, target)
        if target.id in frame.slots and not _assigns(node.body, target.id):
            frame.numbers[target.id] = constant
        frame.loops.append(loop)
        _run(ctx, node.body)
        frame.loops.pop()
        frame.numbers.pop(target.id, None)
    if loop.trip is not None and loop.continues:
        ctx.emit(loop.trip)
        ctx.forget_since(mark)
    else:
        ctx.splice(block)
    frame.assigned = _merge(frame.assigned, *loop.continues)


def _assigns(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether a loop body assigns a name."""
    inside = (node for statement in statements for node in ast.walk(statement))
    return any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) for node in inside)


def _own_jumps(statements: Sequence[ast.stmt]) -> set[type[ast.stmt]]:
    """Which of `break` and `continue` a loop body holds that speak of this loop."""
    found: set[type[ast.stmt]] = set()
    for statement in statements:
        if isinstance(statement, ast.Break | ast.Continue):
            found.add(type(statement))
        elif isinstance(statement, ast.If):
            found |= _own_jumps(statement.body) | _own_jumps(statement.orelse)
        elif isinstance(statement, ast.For | ast.While):
            found |= _own_jumps(statement.orelse)  # the else of an inner loop belongs to the outer one
    return found


def break_statement(ctx: Context, node: ast.Break) -> None:
    """`break`."""
    loop = ctx.frame.loops[-1]
    loop.breaks.append(ctx.frame.assigned)
    if loop.kind == "run-time":
        ctx.emit(nodes.Break(location=ctx.location))
    else:
        assert loop.whole is not None
        ctx.emit(nodes.Leave(location=ctx.location, scope=loop.whole))
    ctx.frame.assigned = None


def continue_statement(ctx: Context, node: ast.Continue) -> None:
    """`continue`."""
    loop = ctx.frame.loops[-1]
    loop.continues.append(ctx.frame.assigned)
    if loop.kind == "run-time":
        ctx.emit(nodes.Continue(location=ctx.location))
    else:
        assert loop.trip is not None
        ctx.emit(nodes.Leave(location=ctx.location, scope=loop.trip))
    ctx.frame.assigned = None
