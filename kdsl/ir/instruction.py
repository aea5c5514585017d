"""Operations that stand for one row of the table each and may yield several values: copies, fragments of matrices, barriers in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from kdsl.ir.operation import Op, ValueOp
from kdsl.ir.places import Memory
from kdsl.ir.vector import LoadVector
from kdsl.lang.types import DType

Option: TypeAlias = "bool | int | str | DType"


@dataclass(frozen=True, eq=False)
class Element:
    """An element of an array, named by an instruction: where it begins to read or write."""

    memory: Memory
    """The array."""
    indices: tuple[ValueOp, ...]
    """i64, one per dimension; the frontend has seen to it that what the instruction touches is inside, or guards the instruction."""
    remote: ValueOp | None = None
    """The rank (i64) of the block of the cluster whose shared array it is, None for this block's own; of atomic operations only."""


@dataclass(eq=False, kw_only=True)
class Instruction(Op):
    """A row of the table whose lowering is `ToInstruction`, or an atomic operation (`ToAtomic`) on a vector. What it yields are its
    `Result`s, which follow it in the same block, in order."""

    name: str
    """Its row."""
    arguments: tuple[ValueOp, ...] = ()
    """Values, in the order that the row's handler documents."""
    elements: tuple[Element, ...] = ()
    """Places in memory, likewise."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """What is known when the kernel is compiled: shapes, modes, types."""
    results: tuple[DType, ...] = ()
    """Types of what it yields."""
    variant: str = ""
    """The form of it among the row's `variants`, if it has some."""


@dataclass(eq=False, kw_only=True)
class Result(ValueOp):
    """One value of the operation that stands before it."""

    of: Instruction | LoadVector
    """The operation."""
    index: int
    """Which of its values."""
