"""PTX of `nodes.Instruction`, by the name of its row: one function each, kept in the file of its topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir

from kdsl.backend.nvptx.entry import Entry
from kdsl.backend.nvptx.instructions import (
    atomics,
    barriers,
    bulk,
    clusters,
    copies,
    grid,
    inline,
    matrix,
    registers,
    remote_stores,
    votes,
    warpgroups,
    warps,
)
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
    entry: Entry
    """The entry of the kernel."""


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {
    **atomics.EMITTERS,
    **barriers.EMITTERS,
    **bulk.EMITTERS,
    **clusters.EMITTERS,
    **copies.EMITTERS,
    **grid.EMITTERS,
    **inline.EMITTERS,
    **matrix.EMITTERS,
    **registers.EMITTERS,
    **remote_stores.EMITTERS,
    **votes.EMITTERS,
    **warpgroups.EMITTERS,
    **warps.EMITTERS,
}
"""Emits an instruction; yields its results. The tables of the topics, joined."""


def emit(builder: ir.IRBuilder, op: nodes.Instruction, arguments: Sequence[Any], addresses: Sequence[Any], entry: Entry) -> Sequence[Any]:
    """The results of an instruction."""
    return EMITTERS[op.name](Emission(builder, op, arguments, addresses, entry))
