"""What one pass over a kernel learns for the next: types of names that start as literals, and which local arrays need memory.

A name that starts as a literal has a *weak* type: it gives way to the types that it meets. When a pass finds a better type the pass is
finished with what it has and repeated; types only ever grow, so this ends. An error counts only if the pass that found it had nothing left to learn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from kdsl.ir.nodes import Location
from kdsl.lang.types import DType

Key: TypeAlias = tuple[object, ...]
"""Names a variable or array of one expansion of one function, the same in every pass."""


@dataclass(frozen=True)
class NameType:
    """The type of a name."""

    type: DType
    """The type."""
    weak: bool
    """Whether only literals were assigned so far."""
    location: Location
    """The assignment that decided it."""


@dataclass
class Decisions:
    """All that is decided so far."""

    types: dict[Key, NameType] = field(default_factory=dict)
    """Types of names that start as literals."""
    in_memory: set[Key] = field(default_factory=set)
    """Local arrays that are indexed by run-time values."""
    changed: bool = False
    """Whether the present pass has learned something."""
    adapted: bool = False
    """Whether the present pass treated a weak value as another type than its own."""
    passes: int = 0
    """Passes so far."""

    def decide(self, key: Key, decision: NameType) -> None:
        """Record the type of a name."""
        known = self.types.get(key)
        if known is None or (known.type, known.weak) != (decision.type, decision.weak):
            self.types[key] = decision
            self.changed = True

    def needs_memory(self, key: Key) -> None:
        """Record that a local array cannot live in registers."""
        if key not in self.in_memory:
            self.in_memory.add(key)
            self.changed = True

    def settle(self, weak: dict[Key, NameType]) -> None:
        """Make every type that is still weak final."""
        for key, decision in weak.items():
            self.types[key] = NameType(decision.type, False, decision.location)
