"""What the frontend knows of the function that it is in: its names, its loops, and where they are kept. A `Context` (`context.py`) holds one frame per call."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from kdsl.frontend.decisions import Key
from kdsl.frontend.source import Source
from kdsl.frontend.values import Value
from kdsl.ir import nodes
from kdsl.lang.struct_type import ArrayType, StructType
from kdsl.lang.types import DType
from kdsl.lang.vectors import VectorType


@dataclass(eq=False)
class Slot:
    """A name that is a variable of the IR."""

    variable: nodes.Variable
    """The variable."""
    key: Key
    """Its key among the decisions."""
    weak: bool
    """Whether only literals are known to be assigned to it."""
    from_literal: bool
    """Whether it started as a literal, so that it takes the join of what is assigned."""
    location: nodes.Location
    """The assignment that gave it its type."""
    declared: bool = False
    """Whether an annotation says the type."""
    grown: DType | None = None
    """The better type that this pass has found, which the next will give to the variable."""

    @property
    def type(self) -> DType:
        """The type of the name, as far as it is known."""
        return self.grown or self.variable.type


@dataclass(eq=False)
class GroupSlot:
    """A name that holds a tuple, a struct or a vector and is assigned more than once."""

    items: list[Slot | GroupSlot | FixedSlot]
    """One per item or field."""
    location: nodes.Location
    """The first assignment."""
    of: StructType | ArrayType | None = None
    """The struct, or the array in one; None for a tuple."""
    name: str = ""
    """Of a struct, for people."""
    vector: VectorType | None = None
    """The vector type, if it holds a vector."""
    declared: bool = False
    """Whether an annotation says that type."""


@dataclass(eq=False)
class FixedSlot:
    """A name that holds something that is no number; it can be assigned again only with the same thing."""

    value: Value
    """What it holds."""
    location: nodes.Location
    """The first assignment."""


AnySlot = Slot | GroupSlot | FixedSlot


@dataclass(eq=False)
class Loop:
    """A loop that is being built."""

    kind: Literal["run-time", "unrolled"]
    """How it is built."""
    breaks: list[set[str] | None] = field(default_factory=list)
    """Assigned names at every `break`."""
    continues: list[set[str] | None] = field(default_factory=list)
    """Assigned names at every `continue` of the present trip."""
    whole: nodes.Scope | None = None
    """Unrolled: what `break` leaves."""
    trip: nodes.Scope | None = None
    """Unrolled: what `continue` leaves."""


@dataclass(eq=False)
class Frame:
    """A function that is being built: the kernel, or one expansion of a `@function`."""

    source: Source
    """The function."""
    key: Key
    """Names the expansion among the decisions."""
    caller: nodes.Location | None
    """Where it is called."""
    types: Mapping[TypeVar, DType | VectorType]
    """Types of its type variables; in a kernel never vectors."""
    env: dict[str, Value] = field(default_factory=dict)
    """Values of its direct names."""
    slots: dict[str, AnySlot] = field(default_factory=dict)
    """Its other names."""
    numbers: dict[str, nodes.Constant] = field(default_factory=dict)
    """Of those, the ones that are the number of an unrolled loop, whose trip is being built and does not assign them: a constant in it."""
    assigned: set[str] | None = field(default_factory=set)
    """Names that are certainly assigned here; None where the program never comes."""
    loops: list[Loop] = field(default_factory=list)
    """Loops around the present statement, outermost first."""
    scope: nodes.Scope | None = None
    """What `return` leaves; None in the kernel."""
    left_early: bool = False
    """Whether some `return` has left the scope."""
    result: Value | AnySlot | None = None
    """The value that it returns, or the slot for it."""
    first_return: nodes.Location | None = None
    """The first `return`."""
    result_type: Any = None
    """The annotation of its result; `MISSING` if it has none."""
    places: dict[ast.AST, nodes.Location] = field(default_factory=dict)
    """Places of its nodes, once they were asked for."""
    expansions: int = 0
    """Expansions and arrays so far, for their keys."""

    def fresh_key(self, what: str) -> Key:
        """A key that is the same in every pass."""
        self.expansions += 1
        return (*self.key, what, self.expansions)
