"""Atomic operations on vectors: which ones there are, and where the vectors may lie.

They are instructions (`nodes.Instruction`) of the rows of the atomic operations. Each number of a vector is changed indivisibly, not all at once; what is
moved as a whole (`atomic_load`, `atomic_store`, `atomic_exchange`, `atomic_cas`) is one piece of 128 bits.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from kdsl.frontend import memory
from kdsl.frontend.context import Context
from kdsl.frontend.guards import Guard, is_shared, memory_of
from kdsl.frontend.instructions.emit import emit
from kdsl.frontend.values import ArrayRef, Nothing, RemoteRef, Value, Vector, ViewRef, describe
from kdsl.frontend.vectors import coerce_vector
from kdsl.ir import nodes
from kdsl.ir.instruction import Option
from kdsl.lang.intrinsics import Intrinsic, ToAtomic
from kdsl.lang.types import I64
from kdsl.lang.vectors import VectorType

_VALUES: Final = ("compare", "value")


def form_of(ctx: Context, row: Intrinsic, target: ViewRef | ArrayRef, node: ast.AST) -> VectorType:
    """The vector type of the elements; an error unless the operation has it where they lie."""
    lowering, of = row.lowering, target.vector
    assert isinstance(lowering, ToAtomic)
    assert of is not None
    kind = "shared array" if is_shared(target) else "SliceMut"
    one_by_one = f"change its numbers one by one, in a {kind} of {of.element}"
    if of.name not in lowering.vectors:
        takes = f"of vectors it takes {', '.join(lowering.vectors)}" if lowering.vectors else "it is on numbers"
        raise ctx.error(f"{row.name}() of {of} elements is on no target: {takes}", node, one_by_one)
    if is_shared(target) and not lowering.vectors[of.name].shared:
        anywhere = [name for name, form in lowering.vectors.items() if form.shared]
        raise ctx.error(
            f"{row.name}() of {of} elements is in device memory only, and `{memory_of(target).name}` is {describe(target)}",
            node,
            f"{one_by_one}; vectors in shared memory are {' and '.join(anywhere)}" if anywhere else one_by_one,
        )
    return of


def build(
    ctx: Context,
    row: Intrinsic,
    target: ViewRef | ArrayRef | RemoteRef,
    given: Mapping[str, Value],
    places: Mapping[str, ast.AST],
    bracketed: ast.Subscript,
    options: Mapping[str, Option],
) -> Value:
    """The old value of the vector, nothing for a store. `options` are scope and order, `bracketed` is the element as it would stand in brackets."""
    own, rank = (target.own, target.rank) if isinstance(target, RemoteRef) else (target, None)
    of = form_of(ctx, row, own, places["array"])
    indices = memory.element_indices(ctx, target, given["index"], bracketed)
    checked = memory.touch_shared(ctx, target, indices, bracketed)
    purposes = {name: f"`{name}` of {row.name}() on `{memory_of(own).name}`" for name in _VALUES if name in given}
    arguments = [coerce_vector(ctx, given[name], of, places[name], purpose).items for name, purpose in purposes.items()]
    guard = Guard(ctx, row.name, "atomic")
    if checked:
        guard.vector_inside(own, indices, rank)
    assert isinstance(row.lowering, ToAtomic)
    results = () if row.lowering.op == "store" else (of.element,) * of.lanes

    def act() -> tuple[nodes.ValueOp, ...]:
        first = ctx.binary("mul", indices[-1], ctx.constant(I64, of.lanes))
        return emit(
            ctx,
            row,
            arguments=tuple(number for vector in arguments for number in vector),
            elements=(nodes.Element(memory_of(own), (*indices[:-1], first), rank),),
            options={"vector": of.name, "checked": checked, **options},
            results=results,
            variant=f"of {of}",
        )

    old = guard.do_for_results(act, results)
    return Vector(of, old) if old else Nothing()
