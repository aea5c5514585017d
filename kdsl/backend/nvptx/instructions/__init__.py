"""PTX of `nodes.Instruction`, by the name of its row: one function each, kept in the file of its topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir

from kdsl.ir import nodes


@dataclass(frozen=True)
class Emission:
    """One instruction that is being emitted."""

    builder: ir.IRBuilder
    """Where."""
    op: nodes.Instruction
    """What."""
    arguments: Sequence[Any]
    """Its arguments, LLVM values."""
    addresses: Sequence[Any]
    """Addresses of its elements, pointers into the space of their array."""


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {}
"""Emits an instruction; yields its results. `EMITTERS.update({...})` with the tables of the topics stands below."""


def emit(builder: ir.IRBuilder, op: nodes.Instruction, arguments: Sequence[Any], addresses: Sequence[Any]) -> Sequence[Any]:
    """The results of an instruction."""
    return EMITTERS[op.name](Emission(builder, op, arguments, addresses))


from kdsl.backend.nvptx.instructions import copies, matrix  # noqa: E402  # they use what stands above

EMITTERS.update({**copies.EMITTERS, **matrix.EMITTERS})
