"""The CPU as a device. Leaves out how kernels run on it (`cpu.py`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kdsl.ir.abi import RECORD_SIZE
from kdsl.runtime import exit
from kdsl.runtime.array import Array
from kdsl.runtime.cpu_graph import CpuExecutable
from kdsl.runtime.device import Device
from kdsl.runtime.memory import CpuMemory, Memory
from kdsl.runtime.record import FailureRecord
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
        self._record = CpuMemory(self, 2 * RECORD_SIZE, zeroed=True)  # the record, then the claim on a cache line of its own
        claim = self._record.bytes[RECORD_SIZE : RECORD_SIZE + 8].view(np.uint64)

        def clear_claim() -> None:
            claim[0] = 0

        address = self._record.address
        self.failures = FailureRecord(address + RECORD_SIZE, address, address, clear_claim)
        exit.at_exit(self.failures.take)
        os.register_at_fork(after_in_child=self.failures.forget)

    def __str__(self) -> str:
        return "cpu"

    def _synchronize(self) -> None:
        """Everything is done when its call returns."""

    def stream(self) -> Stream:
        return Stream(self)

    def event(self) -> Event:
        return Event(self)

    def _executable(self, steps: Sequence[Step]) -> Executable:
        return CpuExecutable(self, steps)

    def _allocate(self, nbytes: int, *, zeroed: bool) -> Memory:
        return CpuMemory(self, nbytes, zeroed=zeroed)

    def _upload(self, to: Array, host: npt.NDArray[Any]) -> None:
        _elements(to)[:] = host

    def _download(self, host: npt.NDArray[Any], source: Array) -> None:
        host[:] = _elements(source)

    def _copy(self, to: Array, source: Array) -> None:
        _elements(to)[:] = _elements(source)  # NumPy copies through a buffer where they overlap

    def _fill(self, to: Array, value: Any) -> None:
        _elements(to).fill(value)


def _elements(array: Array) -> npt.NDArray[Any]:
    """The elements as NumPy sees them, in place."""
    memory = array.memory
    assert isinstance(memory, CpuMemory)
    first = array.address - memory.address
    return memory.bytes[first : first + array.nbytes].view(array.dtype.numpy)
