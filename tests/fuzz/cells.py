"""Arrays of the reference interpreter: checked reads and writes, and atomic operations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fuzz.arithmetic import INTEGERS, wrap


@dataclass(frozen=True)
class Strided:
    """Where the elements of an array of several dimensions lie among others."""

    offset: int
    """Place of the element with all indices 0."""
    shape: tuple[int, ...]
    """Extents."""
    strides: tuple[int, ...]
    """Places from one index to the next, by dimension."""


_ATOMIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "min": min,
    "max": max,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "inc": lambda old, limit: 0 if old >= limit else old + 1,
}


@dataclass
class Cells:
    """The elements of an array. A read outside gives 0, a write outside is left out, and both are noted."""

    type: str
    """Element type."""
    cells: list[Any]
    """Elements in order; a bool is 0 or 1, or whatever byte was there at the start."""
    places: Strided | None = None
    """Where they lie, if there is more than one dimension."""
    types: tuple[str, ...] = ()
    """Types of the numbers of an element that is a struct."""
    zero: Any = field(init=False)
    """What a read outside gives."""

    def __post_init__(self) -> None:
        self.zero = tuple(map(_zero, self.types)) if self.types else _zero(self.type)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return (len(self.cells),) if self.places is None else self.places.shape

    def _inside(self, place: Any, line: int, thread: Any) -> int | None:
        if isinstance(place, tuple):
            assert self.places is not None
            at = self.places.offset
            for index, extent, stride in zip(place, self.places.shape, self.places.strides, strict=True):
                if not 0 <= index < extent:
                    thread.fail(line, index, extent)
                    return None
                at += index * stride
            return at
        if 0 <= place < len(self.cells):
            return int(place)
        thread.fail(line, place, len(self.cells))
        return None

    def load(self, place: Any, line: int, thread: Any) -> Any:
        """An element."""
        at = self._inside(place, line, thread)
        if at is None:
            return self.zero
        found = self.cells[at]
        return found != 0 if self.type == "bool" else found

    def store(self, place: Any, value: Any, line: int, thread: Any) -> None:
        """Change an element."""
        at = self._inside(place, line, thread)
        if at is not None:
            if self.types:
                value = tuple(int(v != 0) if of == "bool" else v for of, v in zip(self.types, value, strict=True))
            self.cells[at] = int(value) if self.type == "bool" else value

    def store_number(self, place: Any, position: int, value: Any, line: int, thread: Any) -> None:
        """Change a number of an element that is a struct."""
        at = self._inside(place, line, thread)
        if at is not None:
            self.cells[at] = (*self.cells[at][:position], value, *self.cells[at][position + 1 :])

    def load_vector(self, place: Any, lanes: int, line: int, thread: Any) -> tuple[Any, ...]:
        """So many numbers side by side, zeros if they are not all inside."""
        extent = len(self.cells) // lanes
        if not 0 <= place < extent:
            thread.fail(line, place, extent)
            return (self.zero,) * lanes
        return tuple(self.cells[place * lanes : (place + 1) * lanes])

    def store_vector(self, place: Any, value: tuple[Any, ...], line: int, thread: Any) -> None:
        """Change numbers side by side, all or none."""
        extent = len(self.cells) // len(value)
        if 0 <= place < extent:
            self.cells[place * len(value) : (place + 1) * len(value)] = value
        else:
            thread.fail(line, place, extent)

    def atomic(self, name: str, place: Any, value: Any, line: int, thread: Any) -> Any:
        """Change an element of an integer type; what it was."""
        at = self._inside(place, line, thread)
        if at is None:
            return self.zero
        old = self.cells[at]
        self.cells[at] = wrap(self.type, _ATOMIC[name](old, value))
        return old


def _zero(of: str) -> Any:
    return False if of == "bool" else 0 if of in INTEGERS else 0.0


def new_cells(of: str, shape: tuple[int, ...], types: tuple[str, ...] = ()) -> Cells:
    """A shared or local array."""
    size, strides = 1, []
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    made = Cells(of, [], Strided(0, shape, tuple(reversed(strides))) if len(shape) > 1 else None, types)
    made.cells = [made.zero] * size
    return made
