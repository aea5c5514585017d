"""Which array parameters can be promised to LLVM as the only way to their memory.

A launch refuses a written view that overlaps another argument, unless both are the same elements and the kernel touches both through the same witness
only (docs/language.md, "Arguments that overlap"). Such a pair may be one array, so neither of the two is promised to be alone. What is not here: the check of
the arguments, which the launcher makes.
"""

from __future__ import annotations

from dataclasses import dataclass

from kdsl.ir import nodes


@dataclass(frozen=True)
class Promise:
    """What LLVM may assume of the memory of a view while the kernel runs."""

    alone: bool
    """This thread changes it through this parameter only, and no other thread's change can be seen (`noalias`)."""
    constant: bool
    """Nothing changes it (`readonly`, loads are invariant and go through the read-only path)."""


def promises(kernel: nodes.Kernel) -> dict[nodes.View, Promise]:
    """The promise of every view of the kernel."""
    views = [p for p in kernel.parameters if isinstance(p, nodes.View)]
    communicates = any(isinstance(op, nodes.Barrier | nodes.Atomic | nodes.Fence | nodes.Instruction) for op in nodes.walk(kernel.body))
    if kernel.attributes.programmatic:  # until it has waited, what its stream holds changes memory that it only reads
        return dict.fromkeys(views, Promise(alone=False, constant=False))
    result = {}
    for view in views:
        separate = not any(may_be_one_array(view, other) for other in views if other is not view)
        if view.written:
            # LLVM lets no call, so no barrier or atomic operation either, change memory that is promised alone: without a witness, other threads may
            # write what this one reads
            result[view] = Promise(alone=separate and (view.witness is not None or not communicates), constant=False)
        else:
            result[view] = Promise(alone=separate, constant=separate)
    return result


def may_be_one_array(a: nodes.View, b: nodes.View) -> bool:
    """Whether a launch may give both the same array."""
    return (a.written or b.written) and a.witness is not None and a.witness == b.witness
