"""One allocation in a device's memory, and which streams use it.

Memory is allocated in order of its home stream, the device's default one. Another stream joins before its first use: it waits for what the home stream
holds then. To be freed, or used by the host, the home stream in turn waits for all that joined. So memory is never freed, nor given to somebody else, while
a stream still uses it, and nothing of this blocks the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Never
from weakref import WeakSet

import numpy as np

from kdsl.errors import DeviceError

if TYPE_CHECKING:
    from kdsl.runtime.device import Device
    from kdsl.runtime.stream import Stream

ALIGNMENT = 64
"""Bytes; a cache line, and the widest vector register of any host."""
LARGE_PAGE: Final = 2 << 20
"""Bytes of a large page of x86-64, and of AArch64 whose small pages have 4 KiB."""


class Uses:
    """Whether what was found out about memory still holds: `generation` is another object whenever some memory has been freed, or its home stream has
    waited for other streams, which then have to join again. Who has looked at memory remembers the object, and looks again only if it is another one."""

    __slots__ = ("generation",)

    def __init__(self) -> None:
        self.generation = object()

    def changed(self) -> None:
        """Let everybody look again."""
        self.generation = object()  # not a number: two threads that count at once could come back to an old one


uses: Final = Uses()
"""That of all memory in this process."""


class Memory:
    """One allocation. Arrays and their slices share it; it goes when the last of them goes."""

    def __init__(self, device: Device, address: int, nbytes: int) -> None:
        self.device = device
        """Where it is."""
        self.address = address
        """Address of the first byte, 0 for an empty allocation."""
        self.nbytes = nbytes
        """Its size."""
        self.stream: Stream | None = device.default_stream
        """Its home stream, None once it has been freed."""
        self.others: set[Stream] = set()
        """Other streams that have used it since the home stream last waited for them."""
        self.shadow: object = None
        """What the sanitizer knows of it."""
        self.readonly = False
        """Whether it may not be written: another library has said so."""
        self.lent: WeakSet[object] | None = None
        """What other libraries hold of it (`lend.py`), None if nobody ever asked."""

    def join(self, stream: Stream) -> None:
        """Let `stream` use the memory from now on. The first time it waits for what the home stream holds now."""
        home = self.alive()
        if stream is not home and stream not in self.others:
            stream.wait_for(home)
            self.others.add(stream)

    def gather(self) -> Stream:
        """The home stream, made to wait for every other stream that has used the memory; those will have to join again."""
        home = self.alive()
        if self.others:
            try:
                while self.others:
                    home.wait_for(self.others.pop())
            finally:
                uses.changed()  # afterwards: a launch of another thread that has just looked looks again
        return home

    def alive(self) -> Stream:
        """The home stream. Raises DeviceError if the memory has been freed."""
        if self.stream is None:
            raise DeviceError(f"this array on {self.device} has been freed")
        return self.stream

    def __reduce__(self) -> Never:
        """A copy by `pickle` or `copy.deepcopy` would have the same address and live on when this one is freed."""
        raise TypeError(
            f"an array on {self.device} is neither pickled nor copied deeply: pass on the host's copy, a.numpy(), or copy it to the device, "
            "device.array(a.numpy())"
        )

    def free(self) -> None:
        """Give the memory back as soon as no stream uses it. Arrays that share it can no longer be used."""
        self.stream = None
        uses.changed()


class CpuMemory(Memory):
    """Memory of this process, aligned to `ALIGNMENT`, from two large pages on to these, where Linux gives them: a column of a matrix lies in as many small
    pages as it has rows.

    `free` only marks it: the bytes stay until no array refers to them, since another thread may be running a kernel on them.
    """

    def __init__(self, device: Device, nbytes: int, *, zeroed: bool) -> None:
        is_large = nbytes >= 2 * LARGE_PAGE
        alignment = LARGE_PAGE if is_large else ALIGNMENT
        try:
            # NumPy asks for large pages (madvise) where it allocates so much, but not for zeros
            whole = (np.zeros if zeroed and not is_large else np.empty)(nbytes + alignment, np.uint8)
        except MemoryError:
            raise DeviceError(f"out of memory on {device}: {nbytes:,} bytes were wanted") from None
        start = -whole.ctypes.data % alignment
        if zeroed and is_large:
            whole[start : start + nbytes] = 0
        self.bytes = whole[start : start + nbytes]
        """The bytes, for the host."""
        super().__init__(device, whole.ctypes.data + start, nbytes)
