"""Calls on barriers in shared memory and on named barriers."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from kdsl.frontend.context import Context
from kdsl.frontend.conversions import index
from kdsl.frontend.instructions.emit import Handler, emit
from kdsl.frontend.instructions.places import barrier, count, flag, guarded, number, option, word
from kdsl.frontend.proofs import bounds
from kdsl.frontend.values import Nothing, Value, known_number
from kdsl.ir import nodes
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.intrinsics.barriers import WAIT
from kdsl.lang.types import BOOL, U32

_MOST_ARRIVALS: Final = (1 << 20) - 1
"""Limit of the counts of a barrier (PTX ISA, "mbarrier")."""
_LAST_NUMBER: Final = 15
_LONGEST: Final = 1 << 62

Given = Mapping[str, Value]
Places = Mapping[str, ast.AST]


def _on_barrier(argument: str, low: int = 0, high: int = _MOST_ARRIVALS) -> Handler:
    """A call on a barrier with one number behind it, named so in the row's signature; empty for none."""

    def build(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
        where = barrier(ctx, row, given["barriers"], given["index"], places["barriers"], places["index"])
        arguments = (count(ctx, row, given[argument], places[argument], f"`{argument}`", low, high),) if argument else ()
        with guarded(ctx, where.holds, f"{row.name}(): the barrier exists"):
            emit(ctx, row, elements=(where.element,), arguments=arguments)
        return Nothing()

    return build


def _arrive_copies(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    where = barrier(ctx, row, given["barriers"], given["index"], places["barriers"], places["index"])
    noinc = flag(ctx, row, given["noinc"], places["noinc"], "`noinc`")
    with guarded(ctx, where.holds, f"{row.name}(): the barrier exists"):
        emit(ctx, row, elements=(where.element,), options={"noinc": noinc})
    return Nothing()


def _parity(ctx: Context, row: Intrinsic, given: Given, places: Places) -> nodes.ValueOp:
    known = known_number(given["parity"])
    if known is not None and known not in (0, 1):
        raise ctx.error(f"a parity is 0 or 1, not {known}", places["parity"], "phases have 0 and 1 in turn, from 0 on")
    value = word(ctx, row, given["parity"], places["parity"], "the parity")
    return value if bounds(ctx, value)[1] <= 1 else ctx.binary("and", value, ctx.constant(U32, 1))


def _wait(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    where = barrier(ctx, row, given["barriers"], given["index"], places["barriers"], places["index"])
    parity = _parity(ctx, row, given, places)
    timeout = number(ctx, row, given["timeout"], places["timeout"], "the timeout", 0, _LONGEST) or (WAIT if ctx.checked else 0)
    with guarded(ctx, where.holds, f"{row.name}(): the barrier exists"):
        results = emit(
            ctx, row, elements=(where.element,), arguments=(parity,), options={"timeout": timeout}, results=(BOOL,) if timeout else ()
        )
        for in_time in results:
            site = ctx.new_site("assert", f"the wait for a barrier ends within {timeout} ns", None)
            ctx.emit(nodes.Assertion(location=ctx.location, condition=in_time, site=site))
    return Nothing()


def _test(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    where = barrier(ctx, row, given["barriers"], given["index"], places["barriers"], places["index"])
    parity = _parity(ctx, row, given, places)
    if where.holds is None:
        return emit(ctx, row, elements=(where.element,), arguments=(parity,), results=(BOOL,))[0]
    ended = ctx.new_variable("ended", BOOL)
    ctx.set(ended, ctx.constant(BOOL, False))
    with guarded(ctx, where.holds, f"{row.name}(): the barrier exists"):
        ctx.set(ended, emit(ctx, row, elements=(where.element,), arguments=(parity,), results=(BOOL,))[0])
    ctx.known.pop(ended, None)
    return ctx.get(ended)


def _fence(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    emit(ctx, row)
    return Nothing()


def _fence_async_proxy(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    space = option(ctx, row, given["space"], places["space"], "the space", ("shared", "global", "all"))
    emit(ctx, row, options={"space": space})
    return Nothing()


def _elect_one(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    return emit(ctx, row, results=(BOOL,))[0]


def _named(ctx: Context, row: Intrinsic, given: Given, places: Places, node: ast.Call) -> Value:
    x, y, z = ctx.block_dim
    threads = number(ctx, row, given["count"], places["count"], "the count", 1, x * y * z)
    if threads % nodes.WARP_SIZE:
        raise ctx.error(
            f"{threads} threads at a named barrier: whole warps come to it", places["count"], f"use a multiple of {nodes.WARP_SIZE}"
        )
    place = places["number"]
    known = known_number(given["number"])
    options: dict[str, nodes.Option] = {"count": threads}
    arguments: tuple[nodes.ValueOp, ...] = ()
    which = index(ctx, given["number"], place, f"the number of {row.name}()")
    low, high = bounds(ctx, which)
    if low < 1 or high > _LAST_NUMBER:
        shown = f"this is {known}" if known is not None else "the compiler cannot see that of this one"
        raise ctx.error(
            f"a named barrier has a number of 1 to {_LAST_NUMBER} (0 is that of sync_threads()); {shown}", place, "such as 1 + i % 2"
        )
    if known is not None:
        options["number"] = int(known)
    else:
        arguments = (ctx.cast(U32, which),)
    emit(ctx, row, arguments=arguments, options=options)
    return Nothing()


HANDLERS: Final[dict[str, Handler]] = {
    "barrier_init": _on_barrier("count", 1),
    "barrier_arrive": _on_barrier(""),
    "barrier_arrive_copies": _arrive_copies,
    "barrier_arrive_expect": _on_barrier("bytes"),
    "barrier_arrive_remote": _on_barrier("block", 0, 15),
    "barrier_complete": _on_barrier("bytes"),
    "barrier_wait": _wait,
    "barrier_test": _test,
    "fence": _fence,
    "fence_async_proxy": _fence_async_proxy,
    "elect_one": _elect_one,
    "barrier_sync": _named,
}
"""By the name in `ToInstruction`."""
