"""What every operation of the IR is, and every operation that yields a value."""

from __future__ import annotations

from dataclasses import dataclass

from kdsl.ir.places import Location
from kdsl.lang.types import DType


@dataclass(eq=False, kw_only=True)
class Op:
    """One operation."""

    location: Location
    """Its place in the source."""


@dataclass(eq=False, kw_only=True)
class ValueOp(Op):
    """An operation that yields a value, which is this object."""

    type: DType
    """Type of the value."""
    range: tuple[int, int] | None = None
    """Smallest and largest value that an integer can take, if more is known than its type says."""
    hint: str = ""
    """Name in the source, for readable code; no meaning."""
