"""`cached(array, how)`: a view whose plain reads and writes carry a hint for the caches."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence

from kdsl.frontend.arguments import Evaluated
from kdsl.frontend.context import Context
from kdsl.frontend.instructions.places import option
from kdsl.frontend.values import ViewRef, describe, known_number
from kdsl.ir import nodes
from kdsl.lang.caching import HOW, PREFETCHES, CacheHint
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.struct_type import StructType


def cached(ctx: Context, row: Intrinsic, arguments: Evaluated, places: Sequence[ast.AST]) -> ViewRef:
    """The view with a hint. `places` are those of the arguments."""
    target, how, prefetch = arguments
    if not isinstance(target, ViewRef) or isinstance(target.view, nodes.SharedView):
        raise ctx.error(f"cached() takes an array parameter, not {describe(target)}", places[0], "only device memory is cached")
    name = target.view.name
    if isinstance(target.view.type, StructType):
        raise ctx.error(
            f"cached() of `{name}`, whose elements are structs, which are read and written number by number", places[0],
            "give the kernel an array of numbers or of vectors",
        )  # fmt: skip
    if target.cache is not None:
        raise ctx.error(f"`{name}` is {target.cache} already", places[0], "call cached() once, with all that it shall say")
    bytes_ahead = known_number(prefetch)
    if isinstance(bytes_ahead, bool) or bytes_ahead not in PREFETCHES:
        allowed = ", ".join(map(str, PREFETCHES))
        shown = describe(prefetch) if bytes_ahead is None else str(bytes_ahead)
        raise ctx.error(f"`prefetch` of cached() is one of {allowed} bytes; this is {shown}", places[2], "such as prefetch=128")
    hint = CacheHint(option(ctx, row, how, places[1], "`how`", tuple(HOW)), int(bytes_ahead))
    return dataclasses.replace(target, cache=None if hint == CacheHint("normal") else hint)


def refuse_hints(ctx: Context, row: Intrinsic, arguments: Evaluated, places: Sequence[ast.AST]) -> None:
    """An error for a view with a hint among the arguments of what is no plain read or write."""
    for value, place in zip(arguments, places, strict=True):
        if isinstance(value, ViewRef) and value.cache is not None:
            name = value.view.name
            raise ctx.error(
                f"{row.name}() on `{name}`, which is {value.cache} here: that is for plain reads and writes", place, f"pass {name} itself"
            )
