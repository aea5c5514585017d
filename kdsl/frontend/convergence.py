"""The convergence rules: who must reach a barrier, or an exchange between lanes, together.

All threads of the block that have not returned must reach a barrier, all such lanes of the warp an exchange, and all threads of a warpgroup its matrix
products. Control flow around them that depends on the thread (for an exchange: on the lane) is an error that shows both places; so is a lane that may be
missing from an operation of a whole warp.
"""

from __future__ import annotations

from kdsl.frontend.errors import KernelError
from kdsl.ir import nodes
from kdsl.ir.absence import with_absent_lanes
from kdsl.ir.uniformity import Level, Uniformity, together
from kdsl.lang.intrinsics import INTRINSICS


def check(kernel: nodes.Kernel) -> None:
    """Raise KernelError at the first operation that threads may reach apart."""
    needed = [op for op in nodes.walk(kernel.body) if together(op) != "none"]
    if not needed:
        return
    for op, left in with_absent_lanes(kernel, _of_whole_warps).items():
        raise _absent(kernel, op, left)
    uniformity = Uniformity(kernel)
    groups = Uniformity(kernel, nodes.WARP_GROUP_SIZE) if any(together(op) == "warpgroup" for op in needed) else uniformity
    for op in needed:
        whom = together(op)
        judge = groups if whom == "warpgroup" else uniformity
        control = judge.divergence(op, above=Level.BLOCK if whom == "block" else Level.GROUP)
        if control is not None:
            raise _divergent(op, control, judge)


def _of_whole_warps(op: nodes.Op) -> bool:
    return isinstance(op, nodes.Instruction) and INTRINSICS[op.name].whole_warps


def _absent(kernel: nodes.Kernel, op: nodes.Op, left: nodes.Op | None) -> KernelError:
    """The error for an operation of a whole warp at which lanes may be missing."""
    assert isinstance(op, nodes.Instruction)
    if left is None:
        return KernelError(
            f"{op.name}() is done by whole warps, and the last warp of a block of {kernel.threads} threads is not whole",
            op.location,
            f"make the block a multiple of {nodes.WARP_SIZE} threads",
        )
    return KernelError(
        f"{op.name}() is done by whole warps, of which lanes may have returned",
        op.location,
        "let lanes without work go on with zeros, and leave out what they would write",
        [("by this return", left.location)],
    )


def _divergent(op: nodes.Op, control: nodes.Op, uniformity: Uniformity) -> KernelError:
    place, why = _cause(control, uniformity)
    if together(op) == "block":
        name = op.name if isinstance(op, nodes.Instruction) else "sync_threads"
        return KernelError(
            f"not all threads of the block reach {name}() together",
            op.location,
            "move the barrier out of the branch or loop, or make its condition the same for the whole block",
            [(why.format("thread"), place)],
        )
    assert isinstance(op, nodes.Exchange | nodes.Instruction)
    if together(op) == "warpgroup":
        return KernelError(
            f"not all warps of the warpgroup reach {op.name}() together",
            op.location,
            "let its branches and loops depend on warp_group_index() and on what the whole block shares only",
            [(why.format("thread"), place)],
        )
    return KernelError(
        f"not all lanes of the warp reach {op.name}() together",
        op.location,
        "move the call out of the branch or loop, or make its condition the same for the whole warp"
        + ("; let lanes without work pass a neutral value, or say with mask= which lanes come" if isinstance(op, nodes.Exchange) else ""),
        [(why.format("lane"), place)],
    )


def _cause(control: nodes.Op, uniformity: Uniformity) -> tuple[nodes.Location, str]:
    """Where threads part, and how."""
    own = [o for o in nodes.operands(control) if uniformity.level(o) > Level.BLOCK]
    if own or isinstance(control, nodes.If):
        text = "this condition depends on the {}"
        if isinstance(control, nodes.ForRange):
            text = "the number of trips depends on the {}"
        return control.location, text
    # the loop's own condition is uniform: a jump out of it, or to its next trip, is not
    for block in nodes.children(control):
        for op in nodes.walk(block):
            if isinstance(op, nodes.Break | nodes.Continue | nodes.Leave):
                around = uniformity.divergence(op, above=Level.BLOCK)
                if around is not None:
                    word = {nodes.Break: "a `break`", nodes.Continue: "a `continue`", nodes.Leave: "a `return` or jump"}[type(op)]
                    return around.location, f"{word} under this condition depends on the {{}}"
    return control.location, "the way through this depends on the {}"
