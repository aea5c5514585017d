"""The CPU as a device. Leaves out how kernels run on it (`cpu.py`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kdsl.ir.abi import PRINT_BYTES, PRINT_CURSOR, PRINT_DATA, RECORD_SIZE
from kdsl.runtime import exit
from kdsl.runtime.array import Array
from kdsl.runtime.cpu_graph import CpuExecutable
from kdsl.runtime.device import Device
from kdsl.runtime.memory import CpuMemory, Memory
from kdsl.runtime.printing import Output
from kdsl.runtime.record import FailureRecord, find_site
from kdsl.runtime.sanitizer import session, shadow
from kdsl.runtime.stream import Event, Stream

if TYPE_CHECKING:
    from kdsl.runtime.capture import Step
    from kdsl.runtime.graph import Executable


class CpuDevice(Device):
    """The CPU: arrays are memory of this process, launches have run when they return."""

    name = "cpu"
    target = "cpu"

    def __init__(self) -> None:
        self.default_stream = Stream(self)
        # the record, then the claim on a cache line of its own, with what is printed behind it, then the address of the sanitizer's state
        self._record = CpuMemory(self, RECORD_SIZE + PRINT_DATA + PRINT_BYTES + 8, zeroed=True)
        claim = self._record.bytes[RECORD_SIZE : RECORD_SIZE + 8].view(np.uint64)

        def clear_claim() -> None:
            claim[0] = 0

        address = self._record.address
        self.failures = FailureRecord(address + RECORD_SIZE, address, address, clear_claim)
        self.failures.output = Output(self._printed, find_site)
        exit.at_exit(self._last_failure)
        os.register_at_fork(after_in_child=self.failures.forget)

    def __str__(self) -> str:
        return "cpu"

    def _printed(self) -> tuple[bytes, int]:
        """What kernels have printed, and how many bytes they wanted; the buffer is empty then."""
        behind = self._record.bytes[RECORD_SIZE:]
        cursor = behind[PRINT_CURSOR:PRINT_DATA].view(np.uint64)
        size = int(cursor[0])
        data = behind[PRINT_DATA : PRINT_DATA + min(size, PRINT_BYTES)].tobytes()
        cursor[0] = 0
        return data, size

    def _last_failure(self) -> Exception | None:
        """What nobody has seen at the end of the program."""
        if self.failures.output is not None:
            self.failures.output.flush()
        return self.failures.take()

    def _synchronize(self) -> None:
        """Everything is done when its call returns."""

    def stream(self, of: object = None) -> Stream:
        if of is not None:
            raise TypeError(f"the CPU has no streams of other libraries; {of!r} is none")
        return Stream(self)

    def event(self) -> Event:
        return Event(self)

    def _executable(self, steps: Sequence[Step]) -> Executable:
        return CpuExecutable(self, steps)

    def _allocate(self, nbytes: int, *, zeroed: bool) -> Memory:
        made = CpuMemory(self, nbytes, zeroed=zeroed)
        if session() is not None:
            shadow.watch(made, written=zeroed)
        return made

    def _upload(self, to: Array, host: npt.NDArray[Any]) -> None:
        _elements(to)[:] = host
        shadow.wrote(to)

    def _download(self, host: npt.NDArray[Any], source: Array) -> None:
        host[:] = _elements(source)

    def _copy(self, to: Array, source: Array) -> None:
        _elements(to)[:] = _elements(source)  # NumPy copies through a buffer where they overlap
        shadow.copied(to, source)

    def _fill(self, to: Array, value: Any) -> None:
        _elements(to).fill(value)
        shadow.wrote(to)


def _elements(array: Array) -> npt.NDArray[Any]:
    """The elements as NumPy sees them, in place."""
    memory = array.memory
    assert isinstance(memory, CpuMemory)
    first = array.address - memory.address
    return memory.bytes[first : first + array.nbytes].view(array.dtype.numpy)
