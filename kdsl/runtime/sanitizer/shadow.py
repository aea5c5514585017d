"""Shadows of allocations: for each granule, who touched it last (`kdsl.backend.cpu.sanitizer.layout`).

An allocation gets its shadow when an instrumented kernel first uses it. Until then only what the host has done is known: all of it is written, none, or some.
What is not here: the arrays within a kernel.
"""

from __future__ import annotations

import bisect
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from kdsl.backend.cpu.sanitizer import layout

if TYPE_CHECKING:
    from kdsl.runtime.array import Array
    from kdsl.runtime.memory import Memory

_lock: Final = threading.Lock()
_addresses: Final[list[int]] = []
_memories: Final[dict[int, weakref.ref[Memory]]] = {}


class Shadow:
    """The shadow of one allocation."""

    def __init__(self, address: int, nbytes: int, *, written: bool) -> None:
        self.address = address
        """Of the allocation."""
        self.nbytes = nbytes
        """Its size."""
        self.granule = 0
        """Bytes of a granule, 0 until a kernel uses it."""
        self.words: npt.NDArray[np.uint64] = np.empty((0, layout.WORDS), np.uint64)
        """A row for each granule."""
        self._written = bytearray([written])  # one flag per byte of the allocation as soon as the host has written a part of it

    def words_for(self, granule: int) -> npt.NDArray[np.uint64]:
        """The words, for kernels whose smallest number has so many bytes."""
        if self.granule == granule:
            return self.words
        by_byte = self._bytes_written()[: self.nbytes // granule * granule]
        written: npt.NDArray[np.bool_] = by_byte.reshape(-1, granule).max(axis=1, initial=False)
        self.granule = granule
        self.words = np.zeros((-(-self.nbytes // granule), layout.WORDS), np.uint64)
        if written.any():
            self.words[: len(written), layout.WRITTEN] = np.where(written, layout.BY_HOST, 0)
        self._written = bytearray(1)
        return self.words

    def _bytes_written(self) -> npt.NDArray[np.bool_]:
        if self.granule:
            known = (self.words[:, layout.WRITTEN] | self.words[:, layout.ATOMIC]) != 0
            return np.repeat(known, self.granule)[: self.nbytes]
        if len(self._written) == 1:
            return np.full(self.nbytes, bool(self._written[0]))
        return np.frombuffer(self._written, np.bool_)

    def wrote(self, address: int, nbytes: int) -> None:
        """The host has written some bytes."""
        self._set(address - self.address, nbytes, None)

    def copied(self, address: int, source: Shadow, source_address: int, nbytes: int) -> None:
        """The host has copied some bytes from another place; what was not written there is not written here."""
        first = source_address - source.address
        self._set(address - self.address, nbytes, source._bytes_written()[first : first + nbytes].copy())

    def _set(self, first: int, nbytes: int, written: npt.NDArray[np.bool_] | None) -> None:
        if not nbytes:
            return
        if self.granule:
            part = self.words[first // self.granule : (first + nbytes) // self.granule]
            part[:] = 0
            part[:, layout.WRITTEN] = (
                layout.BY_HOST if written is None else np.where(written.reshape(-1, self.granule).any(axis=1), layout.BY_HOST, 0)
            )
            return
        if written is None and (nbytes == self.nbytes or self._written == b"\x01"):
            self._written = bytearray(b"\x01")
            return
        if len(self._written) == 1:
            self._written = bytearray(bytes(self._written) * self.nbytes)
        self._written[first : first + nbytes] = b"\x01" * nbytes if written is None else written.tobytes()


def watch(memory: Any, *, written: bool) -> None:
    """Begin to watch a new allocation."""
    if not memory.nbytes:
        return
    memory.shadow = Shadow(memory.address, memory.nbytes, written=written)
    address = memory.address
    with _lock:
        if address not in _memories:
            bisect.insort(_addresses, address)
        made = _memories[address] = weakref.ref(memory)
    weakref.finalize(memory, _forget, address, made).atexit = False


def _forget(address: int, made: weakref.ref[Memory]) -> None:
    with _lock:
        if _memories.get(address) is made:
            del _memories[address]
            del _addresses[bisect.bisect_left(_addresses, address)]


def shadow_at(address: int) -> Shadow | None:
    """The shadow of the allocation that an address lies in, None if it is not watched."""
    with _lock:
        place = bisect.bisect_right(_addresses, address) - 1
        memory: Any = _memories[_addresses[place]]() if place >= 0 else None
    if memory is None or address >= memory.address + memory.nbytes:
        return None
    found: Shadow = memory.shadow
    return found


def wrote(array: Array) -> None:
    """The host has written all elements of an array, which lie side by side."""
    found: Any = array.memory.shadow
    if found is not None:
        found.wrote(array.address, array.nbytes)


def lent(array: Array) -> None:
    """Another library may write to the memory of an array, unseen: all of it counts as written."""
    found: Any = array.memory.shadow
    if found is not None:
        found.wrote(array.memory.address, array.memory.nbytes)


def copied(to: Array, source: Array) -> None:
    """The host has copied an array."""
    found: Any = to.memory.shadow
    of: Any = source.memory.shadow
    if found is not None and of is not None:
        found.copied(to.address, of, source.address, to.nbytes)
    elif found is not None:
        found.wrote(to.address, to.nbytes)
