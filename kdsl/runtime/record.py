"""The record of the first failed check of a device, and what its numbers mean.

A failing thread claims the record (one word that it exchanges atomically), fills it in and sets its state (`kdsl.ir.abi.RECORD`). The host looks at the
state after each synchronisation, raises `BoundsError` and clears both. Kernels are known by a number of this process, checks by their number in the
kernel. Leaves out where the memory comes from (the devices) and the end of the program (`exit.py`).
"""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kdsl.errors import BoundsError
from kdsl.ir.abi import RECORD_FORMAT, RECORD_SIZE
from kdsl.ir.nodes import Kernel, Site
from kdsl.runtime.printing import Output


@dataclass(frozen=True)
class RegisteredKernel:
    """What a kernel's number stands for."""

    name: str
    """Name of the kernel."""
    sites: tuple[Site, ...]
    """Its checks, by number."""


_kernels: Final[dict[int, RegisteredKernel]] = {}
_numbers: Final = itertools.count(1)


def register_sites(name: str, sites: Sequence[Site]) -> int:
    """The number under which failures of the kernel `name` with these checks are recorded in this process."""
    number = next(_numbers)
    _kernels[number] = RegisteredKernel(name, tuple(sites))
    return number


def find_site(kernel: int, site: int) -> Site | None:
    """The site of a kernel's number, None if there is none."""
    registered = _kernels.get(kernel)
    return registered.sites[site] if registered is not None and site < len(registered.sites) else None


def register(kernel: Kernel) -> int:
    """The number under which failures of `kernel` are recorded in this process."""
    return register_sites(kernel.name, kernel.sites)


@dataclass(frozen=True)
class Failure:
    """The fields of a record, in its order."""

    state: int
    """1 once the record is complete."""
    kernel: int
    """Number of the kernel."""
    site: int
    """Number of the check in the kernel."""
    dimension: int
    """Dimension of the array whose index failed."""
    index: int
    """That index."""
    extent: int
    """Elements along that dimension."""
    block: tuple[int, int, int]
    """Block: x, y, z."""
    thread: tuple[int, int, int]
    """Thread in its block: x, y, z."""

    @staticmethod
    def unpack(data: bytes) -> Failure:
        """Read the `RECORD_SIZE` bytes of a record."""
        state, kernel, site, dimension, index, extent, *places = struct.unpack_from(RECORD_FORMAT, data)
        block, thread = (places[0], places[1], places[2]), (places[3], places[4], places[5])
        return Failure(state, kernel, site, dimension, index, extent, block, thread)


_LEFT_OUT: Final = {
    "load": ("read", "The read gave 0 instead"),
    "store": ("write", "The write was left out"),
    "atomic": ("atomic operation", "It was left out and gave 0"),
    "copy": ("copy", "It was left out"),
}


_FOUND: Final = {
    "divide": "the divisor of `{}` is zero; the result was 0",
    "shift": "a shift is out of range, {} is meant; the result was 0, or the sign of a negative number",
    "mask": "a lane that is not in its own mask came to {}()",
    "agree": "the threads of a {} do not agree here, on the way to a barrier or lane exchange: what they read was changed meanwhile; one value was taken",
}


def bounds_error(failure: Failure) -> BoundsError:
    """The exception for a failure, in words."""
    where = f"block {failure.block}, thread {failure.thread}"
    registered = _kernels.get(failure.kernel)
    if registered is None or failure.site >= len(registered.sites):
        return BoundsError(
            f"a check of an unknown kernel (number {failure.kernel}, check {failure.site}) failed in {where}",
            index=failure.index, extent=failure.extent, block=failure.block, thread=failure.thread,
        )  # fmt: skip
    site = registered.sites[failure.site]
    location = str(site.location)
    place = f"kernel {registered.name}, {os.path.basename(site.location.file)}:{site.location.line}"
    calls = "".join(f"\n  called from {call}" for call in _callers(site))
    if site.kind == "assert":
        message = f"{place}: assertion failed{f': {site.name}' if site.name else ''}, in {where}.\n  {location}{calls}"
        return BoundsError(message, kernel=registered.name, block=failure.block, thread=failure.thread, location=location)
    if site.kind in _FOUND:
        message = f"{place}: {_FOUND[site.kind].format(site.name)}, in {where}.\n  {location}{calls}"
        return BoundsError(message, kernel=registered.name, block=failure.block, thread=failure.thread, location=location)
    verb, consequence = _LEFT_OUT[site.kind]
    several = site.rank > 1 or len(site.extents or ()) > 1
    dimension = f" of dimension {failure.dimension}" if several else ""
    failing = f"index {failure.index}{dimension} is out of bounds for {failure.extent} elements"
    if failure.dimension >= (site.rank if site.extents is None else len(site.extents)):  # the rank stands behind the indices
        failing = f"rank {failure.index} of its block is out of bounds for a cluster of {failure.extent} blocks"
    message = (
        f"{place}: {verb} outside array {site.name}: {failing}, in {where}. "
        f"{consequence}; this is the first failure since the last synchronisation.\n  {location}{calls}"
    )
    return BoundsError(
        message, kernel=registered.name, array=site.name, index=failure.index, extent=failure.extent,
        block=failure.block, thread=failure.thread, location=location,
    )  # fmt: skip


def _callers(site: Site) -> list[str]:
    calls, caller = [], site.location.caller
    while caller is not None:
        calls.append(str(caller))
        caller = caller.caller
    return calls


class FailureRecord:
    """The record of one device: the addresses that kernels get, and the host's view of it."""

    def __init__(self, claim: int, record: int, host: int, clear_claim: Callable[[], None]) -> None:
        """`claim` and `record` are addresses as kernels see them, `host` the record's address for this process."""
        self.claim = claim
        """Address of the word that a failing thread claims."""
        self.record = record
        """Address of the record."""
        self._bytes = (ctypes.c_char * RECORD_SIZE).from_address(host)
        self._state = ctypes.c_uint32.from_address(host)
        self._clear_claim = clear_claim
        self.output: Output | None = None
        """What kernels print, written at the same times."""
        self._lock = threading.Lock()

    def take(self) -> BoundsError | None:
        """The recorded failure, which is cleared, or None. Call it after a synchronisation."""
        if self._state.value == 0:
            return None
        with self._lock:
            if self._state.value == 0:  # another thread has taken it meanwhile
                return None
            failure = Failure.unpack(self._bytes.raw)
            ctypes.memset(ctypes.addressof(self._bytes), 0, RECORD_SIZE)  # before the claim: whoever claims next finds it empty
            self._clear_claim()
        return bounds_error(failure)

    def check(self) -> None:
        """Write what kernels have printed; raise the recorded failure, if there is one, and clear it."""
        if self.output is not None:
            self.output.flush()
        if self._state.value != 0:
            error = self.take()
            if error is not None:
                raise error

    def forget(self) -> None:
        """Drop what a forked child has inherited: its parent reports it. The lock is new, since a thread that is gone may have held it."""
        self._lock = threading.Lock()
        ctypes.memset(ctypes.addressof(self._bytes), 0, RECORD_SIZE)
        self._clear_claim()
