"""What was found, in words: the entries of a launch's table become `Finding`s, of which the program has one list."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from kdsl.ir import nodes

Point: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class Spot:
    """An access of one thread."""

    what: str
    """`read`, `write`, `atomic operation`, `copy`, or what was computed."""
    file: str
    """Source file."""
    line: int
    """From 1."""
    column: int
    """From 1."""
    callers: tuple[str, ...] = ()
    """`file:line:column` of the calls that led there, innermost first."""
    block: Point | None = None
    """Block: x, y, z; None if several."""
    thread: Point | None = None
    """Thread in its block: x, y, z; None if all of them or several."""

    @property
    def place(self) -> str:
        """`file:line:column`."""
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Finding:
    """Something that is wrong in a kernel, found once or more often at the same place."""

    kind: str
    """`race`, `uninitialised`, `outside`, ...: `kdsl.backend.cpu.sanitizer.layout.KINDS`."""
    kernel: str
    """Name of the kernel."""
    message: str
    """One sentence."""
    hint: str
    """What to do."""
    spot: Spot
    """The access."""
    other: Spot | None = None
    """Of a race, the other access."""
    array: str | None = None
    """Name of the array."""
    index: tuple[int, ...] = ()
    """Of the first element for which it was found."""
    reported: bool = False
    """Whether the kernel has checked it by itself, so that the program gets a BoundsError."""
    count: int = field(default=1, compare=False)
    """How often it was found."""

    @property
    def key(self) -> tuple[Any, ...]:
        """The same for findings that are one: kind, kernel and places."""
        places = [(spot.place, spot.callers) for spot in (self.spot, self.other) if spot is not None]
        return (self.kind, self.kernel, self.array, tuple(sorted(places)))  # whichever of the two came first

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(given: dict[str, Any]) -> Finding:
        """From JSON."""

        def spot(of: dict[str, Any] | None) -> Any:
            if of is None:
                return None
            known: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in of.items()}
            return Spot(**known)

        known = dict(given, spot=spot(given["spot"]), other=spot(given["other"]), index=tuple(given["index"]))
        return Finding(**known)


def spot_of(what: str, location: nodes.Location, block: Point | None, thread: Point | None) -> Spot:
    """An access at a place in the source."""
    callers, caller = [], location.caller
    while caller is not None:
        callers.append(str(caller))
        caller = caller.caller
    return Spot(what, location.file, location.line, location.column + 1, tuple(callers), block, thread)
