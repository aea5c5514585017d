"""Removal of operations whose values nobody uses, so that the IR that people read holds what the kernel does."""

from __future__ import annotations

from kdsl.ir import nodes

_PURE = (
    nodes.Constant, nodes.ParameterValue, nodes.Length, nodes.Special, nodes.OnGpu, nodes.Unary, nodes.Binary, nodes.Fma, nodes.Scale, nodes.Compare,
    nodes.Select, nodes.Cast, nodes.Bitcast, nodes.Approximation, nodes.Get,
)  # fmt: skip


def clean(body: nodes.Block, variables: list[nodes.Variable]) -> list[nodes.Variable]:
    """Remove unused pure operations, assignments to variables that nobody reads, and empty branches; the variables that are left."""
    while True:
        read = {op.variable for op in nodes.walk(body) if isinstance(op, nodes.Get)}
        used: set[nodes.ValueOp] = set()
        removed = _clean(body, used, read)
        if not removed:
            touched = read | {op.variable for op in nodes.walk(body) if isinstance(op, nodes.Set)}
            return [variable for variable in variables if variable in touched]


def _clean(block: nodes.Block, used: set[nodes.ValueOp], read: set[nodes.Variable]) -> bool:
    """Backwards through a block and those nested in it; uses come after definitions, so one pass sees every use first."""
    kept: list[nodes.Op] = []
    changed = False
    for op in reversed(block.ops):
        if isinstance(op, _PURE) and op not in used:
            continue
        if isinstance(op, nodes.Set) and op.variable not in read:
            continue
        if isinstance(op, nodes.Load) and op.field is not None and not op.checked and op not in used:
            continue  # a number of a struct that was read as a whole
        used.update(nodes.operands(op))
        for child in reversed(nodes.children(op)):
            changed |= _clean(child, used, read)
        if isinstance(op, nodes.If) and not op.then.ops and not op.orelse.ops:
            continue
        kept.append(op)
    kept.reverse()
    changed |= len(kept) != len(block.ops)
    block.ops = kept
    return changed
