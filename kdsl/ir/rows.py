"""Which rows of the table of intrinsics an operation stands for: what a target has to have."""

from __future__ import annotations

from kdsl.ir import nodes
from kdsl.lang.intrinsics import IN_CLUSTER, INTRINSICS


def rows_of(op: nodes.Op) -> tuple[str, ...]:
    """The names of the rows, with `:variant` behind a form of one that has floors of its own."""
    found: tuple[str, ...] = ()
    if isinstance(op, nodes.Exchange | nodes.Atomic | nodes.Fence | nodes.Clock | nodes.Sleep | nodes.Instruction) or (
        isinstance(op, nodes.Special) and op.name in INTRINSICS
    ):
        variants = [op.variant] if isinstance(op, nodes.Instruction) and op.variant else []
        scope = op.scope if isinstance(op, nodes.Atomic) else op.options.get("scope") if isinstance(op, nodes.Instruction) else ""
        if scope == "cluster":
            variants.append(IN_CLUSTER)
        found = tuple(f"{op.name}:{variant}" for variant in variants) or (op.name,)
    if isinstance(op, nodes.Approximation):
        found = (f"{op.name}:{op.type}" if op.type.name in INTRINSICS[op.name].variants else op.name,)
    if any(place.remote is not None for place in nodes.touched(op)):
        found += ("remote",)
    if isinstance(op, nodes.PlainAccess) and op.cache is not None:
        found += ("cached",)
    return found
