"""From the entries of a launch's table to findings: which array, which element, which block and thread, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kdsl.backend.cpu.sanitizer import layout
from kdsl.backend.cpu.sanitizer.sites import Place, granule, is_global
from kdsl.ir import nodes
from kdsl.lang.struct_type import StructType
from kdsl.runtime.sanitizer.findings import Finding, Point, Spot, spot_of
from kdsl.runtime.sanitizer.shadow import Shadow

_EVERYONE: Final = (1 << 64) - 1
_WHAT: Final = {"read": "read", "write": "write", "atomic": "atomic operation", "copy to": "asynchronous copy", "value": ""}


@dataclass(frozen=True)
class Where:
    """Where an array and its shadow lie in a launch."""

    shadow: int
    """Address of the shadow of the first element."""
    address: int
    """Of the first element, 0 for an array of the kernel's own."""
    allocation: Shadow | None
    """What the array lies in, None for an array of the kernel's own."""


@dataclass(frozen=True)
class Launched:
    """A launch that has run."""

    kernel: nodes.Kernel
    places: Sequence[Place]
    memories: Sequence[nodes.Memory]
    where: Sequence[Where]
    grid: Point
    times: npt.NDArray[np.uint64]
    """When each block started."""
    deciding: frozenset[int] = frozenset()
    """Places of reads by which threads decide whether they come to a barrier or a lane exchange."""

    def block(self, number: int) -> Point:
        """The indices of a block."""
        x, y, _ = (max(extent, 1) for extent in self.grid)
        return number % x, number // x % y, number // x // y

    def thread(self, rank: int) -> Point:
        """The indices of a thread."""
        x, y, _ = self.kernel.block_dim
        return rank % x, rank // x % y, rank // x // y

    def block_at(self, word: int) -> int:
        """The number of the block that was running at a time."""
        return max(int(np.searchsorted(self.times, np.uint64(word & -layout.STEP), "right")) - 1, 0)


def findings(launched: Launched, table: npt.NDArray[np.uint64]) -> list[Finding]:
    """What the table of a launch says."""
    entries = [[int(word) for word in row] for row in table[table[:, layout.KEY] != 0]]
    made = [_finding(launched, entry) for entry in sorted(entries, key=lambda entry: entry[layout.KEY])]
    racing = {
        (spot.place, finding.array)
        for finding in made
        if finding.kind == "race"
        for spot in (finding.spot, finding.other)
        if spot is not None
    }
    # what is read before the other thread writes it is that race, and nothing of its own
    return [finding for finding in made if finding.kind != "uninitialised" or (finding.spot.place, finding.array) not in racing]


def _finding(launched: Launched, entry: list[int]) -> Finding:
    key = entry[layout.KEY]
    kind = layout.KINDS[key >> layout.KIND_SHIFT]
    place = launched.places[layout.word_site(key)]
    thread = None if entry[layout.AT_THREAD] == _EVERYONE else launched.thread(entry[layout.AT_THREAD])
    spot = spot_of(_WHAT[place.what], place.location, launched.block(entry[layout.AT_BLOCK]), thread)
    array = None if place.array is None else launched.memories[place.array]
    index: tuple[int, ...] = ()
    name = None
    if array is not None:
        index, name = _index(array, place, entry), array.name
    other = _other(launched, entry) if entry[layout.OTHER] else None
    message, hint = _SAYS[kind](launched, place, entry, array, _element(array, place, index), other)
    return Finding(
        kind,
        launched.kernel.name,
        message,
        hint,
        spot,
        other,
        name,
        index,
        place.checked and kind in ("outside", "assertion"),
        entry[layout.COUNT],
    )


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _index(array: nodes.Memory, place: Place, entry: list[int]) -> tuple[int, ...]:
    """The indices of the element; of a vector that of the number in it."""
    rank = array.rank if isinstance(array, nodes.View) else len(array.shape)
    indices = [_signed(word) for word in entry[layout.INDICES : layout.INDICES + min(rank, layout.MOST_INDICES)]]
    if layout.KINDS[entry[layout.KEY] >> layout.KIND_SHIFT] == "outside":
        if place.lanes > 1:
            indices[-1] *= place.lanes
        return tuple(indices)
    numbers = 0 if isinstance(array.type, StructType) else entry[layout.DIMENSION] * granule(array.type) // array.type.itemsize
    if place.lanes > 1:
        indices[-1] *= place.lanes
    indices[-1] += numbers
    return tuple(indices)


def _element(array: nodes.Memory | None, place: Place, index: tuple[int, ...]) -> str:
    """As in the source: `tile[3, 4]`, `steps[2].rate`."""
    if array is None:
        return ""
    return f"{array.name}[{', '.join(map(str, index))}]" + (f".{place.field}" if place.field else "")


def _other(launched: Launched, entry: list[int]) -> Spot:
    word = entry[layout.OTHER]
    place = launched.places[layout.word_site(word)]
    number, rank = launched.block_at(word), layout.word_thread(word)
    block: Point | None = launched.block(number)
    thread: Point | None = launched.thread(rank)
    if number == entry[layout.AT_BLOCK] and (rank == entry[layout.AT_THREAD] or word & layout.BLOCKS) and place.what != "copy to":
        # the word stands for others, too, and it is one of those
        thread = None
        block = None if word & layout.BLOCKS else block
    return spot_of(_WHAT[place.what], place.location, block, thread)


# ------------------------------------------------------------------------------------------------------------------------------ words

_Said = tuple[str, str]


def _kind_of(array: nodes.Memory) -> str:
    if is_global(array):
        return "array"
    return f"{'shared' if isinstance(array, nodes.View) else array.space} array"


def _race(launched: Launched, place: Place, entry: list[int], array: Any, element: str, other: Spot | None) -> _Said:
    word = entry[layout.OTHER]
    second = launched.places[layout.word_site(word)]
    through = ""
    if second.array is not None and second.array != place.array:
        through = f" (there called {launched.memories[second.array].name})"
    whom = "threads of one block"
    hint = "put sync_threads() between them, or let one thread do both"
    if launched.block_at(word) != entry[layout.AT_BLOCK] or word & layout.BLOCKS:
        whom = "threads of different blocks"
        hint = "blocks of a launch are in no order: give each its own elements, use atomic operations, or make two kernels of it"
    both = sorted({_WHAT[place.what], _WHAT[second.what]})
    what = f"a {both[0]} and a {both[1]}" if len(both) == 2 else f"two {both[0].replace('copy', 'copie')}s"
    what = what.replace("a atomic", "an atomic").replace("a asynchronous", "an asynchronous")
    between = "which no barrier separates" if whom == "threads of one block" else "which nothing orders"
    if {layout.word_site(word), layout.word_site(entry[layout.KEY])} & launched.deciding:
        between += "; threads decide by it whether they come to a barrier or lane exchange, so perhaps not all do"
    return f"race on {element}{through}: {what} by {whom}, {between}", hint


def _uninitialised(launched: Launched, place: Place, entry: list[int], array: Any, element: str, other: Spot | None) -> _Said:
    if is_global(array):
        return f"read of {element}, which neither the host nor a kernel has written", "fill the array, or make it with zeros()"
    who = "this thread" if isinstance(array, nodes.Array) and array.space == "local" else "no thread of the block"
    verb = "has not written" if who == "this thread" else "has written"
    return (
        f"read of {_kind_of(array)} {element}, which {who} {verb}",
        "write every element before it is read: such an array begins undefined",
    )


def _outside(launched: Launched, place: Place, entry: list[int], array: Any, element: str, other: Spot | None) -> _Said:
    dimension, extent = entry[layout.DIMENSION], entry[layout.EXTENT]
    if array is None:  # an instruction that its own check has left out
        index = _signed(entry[layout.OFFSET])
        return f"access outside {place.text}: index {index} of dimension {dimension} for {extent} elements", "guard the instruction"
    several = (array.rank if isinstance(array, nodes.View) else len(array.shape)) > 1
    index = _signed(entry[layout.INDICES + dimension]) if dimension < layout.MOST_INDICES else 0
    message = f"{_WHAT[place.what]} outside {_kind_of(array)} {array.name}: index {index}{f' of dimension {dimension}' if several else ''} for {extent} "
    message += f"{'vectors' if place.lanes > 1 else 'elements'}"
    where = launched.where[place.array or 0]
    if where.allocation is not None:
        size = granule(array.type)
        first = where.address + _signed(entry[layout.OFFSET]) * size
        if where.allocation.address <= first < where.allocation.address + where.allocation.nbytes:
            message += ", yet inside its allocation, by luck"
        return message, "state in requires= what the arguments must satisfy, or guard the access"
    return message, "guard the access, or make the array larger"


def _misaligned(launched: Launched, place: Place, entry: list[int], array: Any, element: str, other: Spot | None) -> _Said:
    return (
        f"{_WHAT[place.what]} of {entry[layout.EXTENT]} bytes at {element}, whose address is no multiple of {entry[layout.EXTENT]}",
        "begin at a multiple of the size of the access",
    )


def _unfinished(launched: Launched, place: Place, entry: list[int], array: Any, element: str, other: Spot | None) -> _Said:
    return (
        f"{_WHAT[place.what]} of {element}, to which an asynchronous copy is under way",
        "wait_copies() in the thread that has begun it, then sync_threads() for the others",
    )


def _value(text: str, hint: str) -> Any:
    def say(launched: Launched, place: Place, entry: list[int], array: Any, element: str, other: Spot | None) -> _Said:
        lanes = entry[layout.OFFSET]
        bits = [lane for lane in range(32) if lanes >> lane & 1]
        return text.format(text=place.text, value=lanes, lanes=", ".join(map(str, bits))), hint

    return say


def _not_a_number(launched: Launched, place: Place, entry: list[int], array: Any, element: str, other: Spot | None) -> _Said:
    what = "a NaN and was given none" if entry[layout.OFFSET] else "an infinity of finite numbers"
    return f"`{place.text}` gives {what}", "guard the operation"


_SAYS: Final[dict[str, Any]] = {
    "race": _race,
    "uninitialised": _uninitialised,
    "outside": _outside,
    "misaligned": _misaligned,
    "unfinished copy": _unfinished,
    "divide": _value("division by zero: the divisor of `{text}` is 0, and so is the result", "guard the division"),
    "shift": _value("shift out of range: {text} is meant", "guard the shift, or take the amount modulo the width"),
    "mask": _value("a lane comes to {text}() that is not in its own mask", "let the mask name every lane that comes"),
    "conversion": _value("conversion out of range: {text} of a number that does not fit, or of a NaN", "clamp the number first"),
    "not a number": _not_a_number,
    "inactive lane": _value("{text}() reads lane {value}, which takes no part, and gets its own value", "let all lanes come, or choose another source"),
    "missing lane": _value("the mask of {text}() names lanes that do not come: {lanes}", "a GPU may wait for them for ever: leave them out of the mask"),
    "assertion": _value("an assertion does not hold: {text}", "it is the kernel's own"),
}  # fmt: skip
