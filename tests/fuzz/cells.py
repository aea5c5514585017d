"""Arrays of the reference interpreter: checked reads and writes, and atomic operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fuzz import kinds
from tests.fuzz.arithmetic import wrap
from tests.fuzz.kinds import Fields, Kind


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
    fields: Fields = ()
    """Of an element that is a struct."""
    zero: Any = field(init=False)
    """What a read outside gives."""

    def __post_init__(self) -> None:
        self.zero = kinds.zero(self.fields) if self.fields else self.type != "bool" and kinds.zero(self.type)

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
            self.cells[at] = kinds.normal(self.fields or self.type, value)

    def load_part(self, place: Any, steps: Sequence[Any], kind: Kind, line: int, thread: Any) -> Any:
        """A part of an element that is a struct, 0 if one of all indices is outside. For the steps see `store_part`."""
        at = self._inside(place, line, thread)
        found: Any = None if at is None else self.cells[at]
        for step in steps:
            position = step if isinstance(step, int) else kinds.flat_index(step[0], step[1], line, thread)
            found = None if found is None or position is None else found[position]
        return kinds.zero(kind) if found is None else found

    def store_part(self, place: Any, steps: Sequence[Any], kind: Kind, value: Any, line: int, thread: Any) -> None:
        """Change a part of an element that is a struct, unless one of all indices is outside. A step is the position of a field, or extents and indices."""
        at = self._inside(place, line, thread)
        inside = [step if isinstance(step, int) else kinds.flat_index(step[0], step[1], line, thread) for step in steps]
        found = [position for position in inside if position is not None]
        if at is not None and len(found) == len(inside):
            self.cells[at] = kinds.replaced(self.cells[at], found, kinds.normal(kind, value))

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


def new_cells(of: str, shape: tuple[int, ...], fields: Fields = ()) -> Cells:
    """A shared or local array."""
    size, strides = 1, []
    for extent in reversed(shape):
        strides.append(size)
        size *= extent
    made = Cells(of, [], Strided(0, shape, tuple(reversed(strides))) if len(shape) > 1 else None, fields)
    made.cells = [made.zero] * size
    return made


def table(of: str, content: Any) -> Cells:
    """A `constant_array` of nested lists."""
    shape, items = [], content
    while isinstance(items, list):
        shape.append(len(items))
        items = items[0]
    items = content
    for _ in shape[1:]:
        items = [item for row in items for item in row]
    made = new_cells(of, tuple(shape))
    made.cells = [kinds.normal(of, item) for item in items]
    return made
