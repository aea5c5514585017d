"""The meaning of `nodes.Instruction` on the CPU, by the name of its row: one function each, kept in the file of its topic. What is GPU only has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from kdsl.backend.cpu.instructions import grid, warps
from kdsl.backend.cpu.lanes import Lanes, Uniform
from kdsl.backend.llvm.module import value_type
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


def _never(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    """An instruction for which something else stands on the CPU: the code is never reached."""
    return [Uniform(ir.Constant(value_type(of), None)) for of in op.results]


EMITTERS: Final[dict[str, Callable[[Emission, nodes.Instruction], Sequence[Lanes]]]] = {
    **grid.EMITTERS,
    **warps.EMITTERS,
    "inline_ptx": _never,
    "sync_threads_count": _never,
    "sync_threads_and": _never,
    "sync_threads_or": _never,
}
"""Emits an instruction for the active lanes of a group; yields its results. The tables of the topics, joined."""


def emit(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    """The results of an instruction."""
    return EMITTERS[op.name](emission, op)


from kdsl.backend.cpu.instructions import atomics, copies, matrix, mma  # noqa: E402  # they use what stands above

EMITTERS.update({**atomics.EMITTERS, **copies.EMITTERS, **matrix.EMITTERS, **mma.EMITTERS})
