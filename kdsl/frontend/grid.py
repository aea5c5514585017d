"""What holds for a launch as a whole: who comes to the barrier of the grid, and that a kernel which begins early waits.

All threads of the grid must reach `sync_grid()`: a block that does not come holds up the others for ever. Control flow around it that depends on the
block or on the thread is an error, and so is a thread that may have returned before.
"""

from __future__ import annotations

from typing import Final

from kdsl.frontend.errors import KernelError
from kdsl.ir import nodes
from kdsl.ir.uniformity import Level, Uniformity

_LOOPS: Final = (nodes.While, nodes.ForRange)


def check(kernel: nodes.Kernel) -> None:
    """Raise KernelError if a thread of the grid may not come to a barrier of the grid, or if a programmatic kernel never waits."""
    walk = list(nodes.walk(kernel.body))
    names = {op.name for op in walk if isinstance(op, nodes.Instruction)}
    if kernel.attributes.programmatic and "wait_for_dependencies" not in names:
        raise KernelError(
            f"kernel {kernel.name} is programmatic, and nowhere waits for what it depends on",
            kernel.location,
            "call wait_for_dependencies() before it touches memory that others write or read, or leave out programmatic=True",
        )
    if "sync_grid" in names:
        _check_barriers(walk, _AcrossGrid(kernel))


def _check_barriers(walk: list[nodes.Op], uniformity: Uniformity) -> None:
    returns = [
        (number, op, control)
        for number, op in enumerate(walk)
        if isinstance(op, nodes.Return) and (control := uniformity.divergence(op, Level.BLOCK)) is not None
    ]
    for number, op in enumerate(walk):
        if not isinstance(op, nodes.Instruction) or op.name != "sync_grid":
            continue
        control = uniformity.divergence(op, Level.BLOCK)
        if control is not None:
            raise KernelError(
                "not all threads of the grid reach sync_grid() together",
                op.location,
                "move the barrier out of the branch or loop, or make its condition the same for the whole grid",
                [("this is not the same for all blocks and threads", control.location)],
            )
        loops = set(uniformity.path(op)) & {c for c in uniformity.path(op) if isinstance(c, _LOOPS)}
        for at, leaving, why in returns:
            if at < number or loops & set(uniformity.path(leaving)):
                raise KernelError(
                    "a thread that has returned never comes to sync_grid(), and all others wait for it",
                    op.location,
                    "let threads without work go on to the barrier",
                    [("it may return here", leaving.location), ("this is not the same for all blocks and threads", why.location)],
                )


class _AcrossGrid(Uniformity):
    """What is the same for all threads of the grid, as if they were one block: block indices differ, and what blocks keep to themselves."""

    def _special(self, name: nodes.SpecialName) -> Level:
        if name.startswith("block_idx") or name == "cluster_rank":
            return Level.LANE
        return Level.BLOCK if super()._special(name) is Level.BLOCK else Level.LANE

    def _value_level(self, op: nodes.ValueOp) -> Level:
        return Level.LANE if isinstance(op, nodes.Exchange) else super()._value_level(op)

    def _loaded(self, op: nodes.Load | nodes.LoadVector) -> Level:
        same = isinstance(op.memory, nodes.Array) and op.memory.space in ("constant", "parameter")
        return Level.LANE if isinstance(op.memory, nodes.Array | nodes.SharedView) and not same else super()._loaded(op)
