"""Arrays of the reference interpreter: checked reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.arithmetic import INTEGERS


@dataclass
class Cells:
    """The elements of an array. A read outside gives 0, a write outside is left out, and both are noted."""

    type: str
    """Element type."""
    cells: list[Any]
    """Elements in order; a bool is 0 or 1, or whatever byte was there at the start."""
    shape: tuple[int, ...] | None = None
    """Extents, if there is more than one."""
    zero: Any = field(init=False)
    """What a read outside gives."""

    def __post_init__(self) -> None:
        self.zero = False if self.type == "bool" else 0 if self.type in INTEGERS else 0.0

    def _inside(self, place: Any, line: int, thread: Any) -> int | None:
        if isinstance(place, tuple):
            assert self.shape is not None
            flat = 0
            for index, extent in zip(place, self.shape, strict=True):
                if not 0 <= index < extent:
                    thread.fail(line, index, extent)
                    return None
                flat = flat * extent + index
            return flat
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
            self.cells[at] = int(value) if self.type == "bool" else value


def new_cells(of: str, shape: tuple[int, ...]) -> Cells:
    """A shared or local array."""
    size = 1
    for extent in shape:
        size *= extent
    made = Cells(of, [], shape if len(shape) > 1 else None)
    made.cells = [made.zero] * size
    return made
