"""Where lanes of a warp may be missing: never there (the block is no multiple of 32), returned before on their own, or not in the mask of an exchange."""

from __future__ import annotations

from collections.abc import Callable

from kdsl.ir import nodes
from kdsl.ir.uniformity import Level, Uniformity


def with_absent_lanes(kernel: nodes.Kernel, concerns: Callable[[nodes.Op], bool]) -> dict[nodes.Op, nodes.Op | None]:
    """The operations that `concerns` picks out and at which lanes may be absent, each with a `Return` by which they may have gone (None: they never came)."""
    ops = list(nodes.walk(kernel.body))
    picked = [(number, op) for number, op in enumerate(ops) if concerns(op)]
    if not picked or kernel.threads % nodes.WARP_SIZE:
        return {op: None for _, op in picked}
    uniformity = Uniformity(kernel)
    alone = [
        (number, op, _loops(uniformity, op))
        for number, op in enumerate(ops)
        if isinstance(op, nodes.Return) and uniformity.divergence(op, Level.GROUP) is not None
    ]
    found: dict[nodes.Op, nodes.Op | None] = {}
    for number, op in picked:
        # A return further down comes before the operation as well if a loop leads back from it
        gone = next((leave for at, leave, loops in alone if at < number or loops & _loops(uniformity, op)), None)
        if gone is not None or (isinstance(op, nodes.Exchange) and op.mask is not None):
            found[op] = gone
    return found


def _loops(uniformity: Uniformity, op: nodes.Op) -> frozenset[nodes.Op]:
    return frozenset(c for c in uniformity.path(op) if isinstance(c, nodes.While | nodes.ForRange))
