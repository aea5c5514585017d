"""Wide accesses: several numbers that lie side by side, read or written by one operation.

The IR has no values of vector type: what a `LoadVector` yields are its `Result`s, one per number, and a `StoreVector` takes one value per number. An
access takes a power of two of numbers, at most 16 bytes, at a place that is aligned to its size: arrays of the kernel begin at such a place, of a view
the launch sees to it (`View.alignment`).
"""

from __future__ import annotations

from dataclasses import dataclass

from kdsl.ir.operation import Op, ValueOp
from kdsl.ir.places import Memory
from kdsl.lang.caching import CacheHint
from kdsl.lang.types import DType


@dataclass(eq=False, kw_only=True)
class LoadVector(Op):
    """The `lanes` numbers from number `lanes` times the last index on. An index is inside if it is below its extent, the last one if it is below the
    extent divided by `lanes` (towards 0). If `checked` and one is outside, all numbers are 0 and the failure is recorded under `site`, index and
    extent counted in vectors."""

    memory: Memory
    indices: tuple[ValueOp, ...]
    """i64, one per dimension; the last one counts vectors."""
    lanes: int
    """Numbers."""
    checked: bool
    site: int
    remote: ValueOp | None = None
    """As of `Load`."""
    cache: CacheHint | None = None
    """As of `Load`."""

    @property
    def results(self) -> tuple[DType, ...]:
        """Types of what it yields."""
        return (self.memory.type,) * self.lanes

    @property
    def name(self) -> str:
        """What stands in print."""
        return "load"


@dataclass(eq=False, kw_only=True)
class StoreVector(Op):
    """Write as many numbers as there are values; places and checks are those of `LoadVector`. If a check fails nothing is written."""

    memory: Memory
    indices: tuple[ValueOp, ...]
    """i64, one per dimension; the last one counts vectors."""
    values: tuple[ValueOp, ...]
    """In order, of the type of the element."""
    checked: bool
    site: int
    remote: ValueOp | None = None
    """As of `Load`."""
    cache: CacheHint | None = None
    """As of `Load`."""

    @property
    def lanes(self) -> int:
        """Numbers."""
        return len(self.values)
