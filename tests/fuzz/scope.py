"""What a generated program can name at some point: variables with their types, arrays, functions, and what must not happen there."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Final

from tests.fuzz.arithmetic import BITS, FLOATS, INTEGERS, MAXIMUM, MINIMUM, TYPES, promote

PAIRS: Final[dict[str, list[tuple[str, str]]]] = {t: [(a, b) for a in TYPES for b in TYPES if promote(a, b) == t] for t in TYPES}
"""For each type the operands that meet in it."""
COMPARABLE: Final = [(a, b) for a in TYPES for b in TYPES if promote(a, b) is not None]
NARROWER: Final = {t: [a for a in TYPES if promote(a, t) == t] for t in TYPES}
"""For each type those that become it by themselves."""


@dataclass
class Helper:
    """A generated `@function`."""

    name: str
    """Its name."""
    parameters: list[str]
    """Types of its parameters; `Slice[i32]` for a view."""
    results: list[str]
    """Types of what it returns."""


@dataclass
class Scope:
    """One place in a program."""

    variables: dict[str, str] = field(default_factory=dict)
    """Readable names and their types."""
    fixed: set[str] = field(default_factory=set)
    """Names that must not be assigned: parameters, counters of loops."""
    slices: dict[str, str] = field(default_factory=dict)
    """Views that can be read anywhere, and their types."""
    own: dict[str, str] = field(default_factory=dict)
    """SliceMut views, of which the thread owns the elements from `i * 4` on."""
    disjoint: dict[str, str] = field(default_factory=dict)
    """DisjointSlice views."""
    many: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Views of several dimensions that can be read anywhere: type and rank."""
    rows: dict[str, tuple[str, int]] = field(default_factory=dict)
    """SliceMut views of several dimensions, of which the thread owns what has `i` as its first index."""
    counters: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Views for atomic operations alone: type, and the kind of operation, which is one whose order does not show."""
    local: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    """Local arrays: type and shape."""
    shared: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Shared arrays: type and extent."""
    wide: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Arrays of vectors, or taken as such, that can be read anywhere: type and length."""
    wide_shared: set[str] = field(default_factory=set)
    """Of these the shared arrays of numbers, which others may write between barriers."""
    wide_own: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Vectors in memory that are the thread's own: type and length."""
    vectors: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Names of vectors: type and length. Their numbers are among the variables."""
    records: list[str] = field(default_factory=list)
    """Arrays of structs that can be read anywhere."""
    records_own: list[str] = field(default_factory=list)
    """Elements that are structs and the thread's own."""
    values_of_records: list[str] = field(default_factory=list)
    """Names of structs. Their numbers are among the variables."""
    shared_readable: bool = True
    """Whether elements of other threads may be read: no thread writes between the barriers around this place."""
    uniform: dict[str, str] = field(default_factory=dict)
    """Names that are the same for all threads of a block."""
    convergent: bool = False
    """Whether all threads that have not returned come here together."""
    in_kernel: bool = False
    """Whether this is the kernel."""
    in_loop: bool = False
    """Whether `break` and `continue` are possible here."""
    depth: int = 0
    """Statements around this place."""
    loops: int = 0
    """Loops around this place."""
    results: tuple[str, ...] = ()
    """What a `return` here must give, in a helper."""

    def inner(self, **changes: object) -> Scope:
        """The scope of a nested block: what it binds is not seen outside."""
        made = replace(self, variables=dict(self.variables), depth=self.depth + 1, **changes)  # type: ignore[arg-type]
        made.fixed = set(self.fixed)
        made.vectors = dict(self.vectors)
        made.values_of_records = list(self.values_of_records)
        return made

    def of_type(self, of: str) -> list[str]:
        """Readable names of a type."""
        return [name for name, type_ in self.variables.items() if type_ == of]

    def assignable(self) -> list[tuple[str, str]]:
        """Names that can be assigned again."""
        return [(name, of) for name, of in self.variables.items() if name not in self.fixed]


def integer_literal(rng: random.Random, of: str) -> int:
    """An integer that the type holds; small ones are frequent."""
    kind = rng.randrange(10)
    if kind < 6:
        return rng.randrange(0, 8)
    if kind < 8:
        return max(MINIMUM[of], rng.randrange(-20, 100))
    if kind == 8:
        return rng.choice((MINIMUM[of], MAXIMUM[of], MAXIMUM[of] - 1, MINIMUM[of] + 1))
    return rng.randrange(MINIMUM[of], MAXIMUM[of] + 1)


_FLOATS: Final = (
    "0.0",
    "1.0",
    "0.5",
    "2.0",
    "0.1",
    "3.7",
    "1.5",
    "1e-3",
    "100.0",
    "1e-40",
    "3e38",
    "1e-45",
    "16777217.0",
    "1e10",
    "2147483648.0",
    "0.3333333333333333",
    "7",
)
_HALVES: Final = (
    "0.0",
    "1.0",
    "0.5",
    "2.0",
    "0.1",
    "3.7",
    "1e-3",
    "100.0",
    "1e-6",
    "6e-8",
    "2e-8",
    "60000.0",
    "257.0",
    "2049.0",
    "1.00390625",
    "7",
)
_DOUBLES: Final = ("1e-310", "1e308", "5e-324", "9007199254740993.0", "1e-17", "9.3e18")


def literal(rng: random.Random, of: str) -> str:
    """A literal that becomes a number of the type where it is used."""
    if of == "bool":
        return rng.choice(("True", "False"))
    if of in INTEGERS:
        value = integer_literal(rng, of)
        if rng.random() < 0.12 and 4 < value < 100:
            return rng.choice(
                (f"({value - 3} + 3)", f"({value * 2} // 2)", f"(({value} << 2) >> 2)", f"max({value}, 2)", f"({value} ** 1)")
            )
        return f"({value})" if value < 0 else str(value)
    if of in ("f16", "bf16"):
        chosen = rng.choice(_HALVES)
        return f"(-{chosen})" if rng.random() < 0.25 else chosen
    chosen = rng.choice(_FLOATS if of == "f32" or rng.random() < 0.7 else _DOUBLES)
    return f"(-{chosen})" if rng.random() < 0.25 else chosen


def firm_literal(rng: random.Random, of: str) -> str:
    """A literal with its type."""
    if of in FLOATS and rng.random() < 0.15:
        return rng.choice((f'{of}("inf")', f'{of}("-inf")', f'{of}("nan")'))
    return literal(rng, of) if of == "bool" else f"{of}({literal(rng, of)})"


def amount_literal(rng: random.Random, of: str) -> str:
    """A literal amount for a shift of a type."""
    return str(rng.choice((0, 1, 2, 3, BITS[of] - 1, rng.randrange(BITS[of]))))
