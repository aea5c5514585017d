"""The convergence rules: who must reach a barrier, or an exchange between lanes, together.

All threads of the block that have not returned must reach a barrier, all such lanes of the warp an exchange, and all threads of a warpgroup its matrix
products. Control flow around them that depends on the thread (for an exchange: on the lane) is an error that shows both places.
"""

from __future__ import annotations

from kdsl.frontend.errors import KernelError
from kdsl.ir import nodes
from kdsl.ir.uniformity import Level, Uniformity, together


def check(kernel: nodes.Kernel) -> None:
    """Raise KernelError at the first operation that threads may reach apart."""
    needed = [op for op in nodes.walk(kernel.body) if together(op) != "none"]
    if not needed:
        return
    uniformity = Uniformity(kernel)
    groups = Uniformity(kernel, nodes.WARP_GROUP_SIZE) if any(together(op) == "warpgroup" for op in needed) else uniformity
    for op in needed:
        whom = together(op)
        judge = groups if whom == "warpgroup" else uniformity
        control = judge.divergence(op, above=Level.BLOCK if whom == "block" else Level.GROUP)
        if control is not None:
            raise _divergent(op, control, judge)


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
        "move the call out of the branch or loop, or make its condition the same for the whole warp; let lanes without work pass a neutral value, "
        "or say with mask= which lanes come",
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
