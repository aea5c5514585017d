"""A GPU as a device: context, memory, streams and events through the CUDA driver.

Its primary context is made current in every thread that uses it. Memory comes from the device's stream-ordered pool (`memory.py` says how it is kept while any
stream uses it). The default stream is a blocking one, so that CUDA orders it with the legacy default stream, which other libraries use; streams that a
program makes are not. Leaves out modules and launches (`gpu_code.py`).
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from kdsl.errors import DeviceError
from kdsl.ir.abi import PRINT_BYTES, PRINT_CURSOR, PRINT_DATA, RECORD_SIZE
from kdsl.runtime import cuda, exit
from kdsl.runtime.array import Array
from kdsl.runtime.cuda import call
from kdsl.runtime.device import Device
from kdsl.runtime.memory import Memory, uses
from kdsl.runtime.printing import Output
from kdsl.runtime.record import FailureRecord, find_site
from kdsl.runtime.stream import Event, Stream

if TYPE_CHECKING:
    from kdsl.runtime.capture import Step
    from kdsl.runtime.graph import Executable


class CudaDevice(Device):
    """One GPU of CUDA's."""

    def __init__(self, index: int) -> None:
        """The GPU that the driver numbers `index`. Raises DeviceError if its context cannot be made."""
        driver = cuda.driver()
        self._attributes = driver.CUdevice_attribute
        self.index = index
        """Its number."""
        self.name = f"cuda:{index}"
        self.handle = call("cuDeviceGet", index)
        """The driver's handle."""
        self.model = call("cuDeviceGetName", 256, self.handle).split(b"\0")[0].decode(errors="replace").strip()
        """What the maker calls it."""
        self.capability = (self._attribute("COMPUTE_CAPABILITY_MAJOR"), self._attribute("COMPUTE_CAPABILITY_MINOR"))
        """Compute capability: major, minor."""
        self.shared_limit = self._attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self.multiprocessors = self._attribute("MULTIPROCESSOR_COUNT")
        """How many it has."""
        self.target = f"sm_{self.capability[0]}{self.capability[1]}"
        self.context = call("cuDevicePrimaryCtxRetain", self.handle)
        """Its primary context."""
        self._context_address = int(self.context)
        self.context_cell = ctypes.c_uint64(self._context_address)
        """Its primary context as native launches compare it with the thread's."""
        self._current = driver.cuCtxGetCurrent
        self.attach()
        self._pool = self._open_pool()
        self._wrapped: WeakValueDictionary[int, CudaStream] = WeakValueDictionary()
        self.default_stream = CudaStream(self, blocking=True)
        self.failures = self._open_record()
        exit.at_exit(self._last_failure)
        os.register_at_fork(after_in_child=self._orphan)

    def __str__(self) -> str:
        return f"{self.name} ({self.model})"

    def attach(self) -> None:
        """Make the device's context current in this thread. Every use of the driver begins with it: another library may have changed it."""
        status, current = self._current()
        if status != 0 or int(current) != self._context_address:
            if not cuda.usable():
                cuda.start()  # raises, saying that a fork is the reason
            call("cuCtxSetCurrent", self.context)

    def _orphan(self) -> None:
        """A forked child cannot use the context: no address equals this one, so that `attach` looks closer."""
        self._context_address = -1
        self.context_cell.value = 2**64 - 1

    def finalise(self, action: Callable[[], None]) -> None:
        """Run `action`, which frees something, from a finaliser: it may interrupt anybody's code, so the thread's context stays as it was.

        If the context is broken nothing is raised: the call that found out has raised, and nothing is left to free.
        """
        status, before = self._current()
        try:
            self.attach()
            action()
        except DeviceError:
            return
        finally:
            if status == 0 and int(before) != self._context_address:
                call("cuCtxSetCurrent", before)

    def _attribute(self, name: str) -> int:
        return int(call("cuDeviceGetAttribute", getattr(self._attributes, f"CU_DEVICE_ATTRIBUTE_{name}"), self.handle))

    def _open_pool(self) -> Any:
        """The device's memory pool, told to keep what is freed; None where the driver has none (then every free waits for the device)."""
        if not self._attribute("MEMORY_POOLS_SUPPORTED"):
            return None
        driver = cuda.driver()
        pool = call("cuDeviceGetDefaultMemPool", self.handle)
        threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        call("cuMemPoolSetAttribute", pool, threshold, driver.cuuint64_t(2**64 - 1))
        return pool

    def _open_record(self) -> FailureRecord:
        driver = cuda.driver()
        host = int(call("cuMemHostAlloc", RECORD_SIZE, driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP))
        ctypes.memset(host, 0, RECORD_SIZE)
        record = int(call("cuMemHostGetDevicePointer", host, 0))
        claim = int(call("cuMemAlloc", PRINT_DATA + PRINT_BYTES))
        self._cursor = claim + PRINT_CURSOR

        def clear_claim() -> None:
            self.attach()
            call("cuMemsetD32Async", claim, 0, 2, self.default_stream.handle)
            call("cuStreamSynchronize", self.default_stream.handle)

        call("cuMemsetD32Async", self._cursor, 0, 2, self.default_stream.handle)
        clear_claim()
        made = FailureRecord(claim, record, host, clear_claim)
        made.output = Output(self._printed, find_site)
        return made

    def _printed(self) -> tuple[bytes, int]:
        """What kernels have printed, and how many bytes they wanted; the buffer is empty then. No kernel of any stream may be running meanwhile."""
        self._synchronize()
        size = int(self._bytes_at(self._cursor, 8).view(np.uint64)[0])
        if size == 0:
            return b"", 0
        data = self._bytes_at(self._cursor - PRINT_CURSOR + PRINT_DATA, min(size, PRINT_BYTES))
        call("cuMemsetD32Async", self._cursor, 0, 2, self.default_stream.handle)
        call("cuStreamSynchronize", self.default_stream.handle)
        return data.tobytes(), size

    def _bytes_at(self, address: int, count: int) -> npt.NDArray[np.uint8]:
        host = np.zeros(count, np.uint8)
        call("cuMemcpyDtoHAsync", host.ctypes.data, address, count, self.default_stream.handle)
        call("cuStreamSynchronize", self.default_stream.handle)
        return host

    def _last_failure(self) -> Exception | None:
        """What nobody has seen at the end of the program."""
        if not cuda.usable():
            return None
        try:
            self.attach()
            call("cuCtxSynchronize")
            if self.failures.output is not None:
                self.failures.output.flush()
            return self.failures.take()
        except DeviceError as error:
            return error

    def _synchronize(self) -> None:
        self.attach()
        call("cuCtxSynchronize")

    def stream(self, of: object = None) -> CudaStream:
        self.attach()
        return CudaStream(self) if of is None else self.wrapped(stream_number(of), of)

    def wrapped(self, number: int, owner: object = None) -> CudaStream:
        """The stream of that handle, which somebody else has made; the same object as long as it lives."""
        found = self._wrapped.get(number)
        if found is None:
            found = self._wrapped.setdefault(number, CudaStream(self, number=number))
        if found.owner is None:
            found.owner = owner
        return found

    def event(self) -> Event:
        self.attach()
        return CudaEvent(self)

    def _executable(self, steps: Sequence[Step]) -> Executable:
        from kdsl.runtime.gpu_graph import CudaExecutable  # which builds on this module

        return CudaExecutable(self, steps)

    # ------------------------------------------------------------------------------------------------------------------------- memory

    def _allocate(self, nbytes: int, *, zeroed: bool) -> Memory:
        self.attach()
        memory = CudaMemory(self, self._reserve(nbytes) if nbytes else 0, nbytes)
        if zeroed and nbytes:
            call("cuMemsetD8Async", memory.address, 0, nbytes, self.default_stream.handle)
        return memory

    def _reserve(self, nbytes: int) -> int:
        try:
            return self._reserve_once(nbytes)
        except DeviceError as error:
            if error.status != "CUDA_ERROR_OUT_OF_MEMORY":
                raise
        gc.collect()  # arrays in reference cycles; then let the pool merge what has been freed
        call("cuCtxSynchronize")
        if self._pool is not None:
            call("cuMemPoolTrimTo", self._pool, 0)
        try:
            return self._reserve_once(nbytes)
        except DeviceError as error:
            free, total = call("cuMemGetInfo")
            raise DeviceError(
                f"out of memory on {self}: {nbytes:,} bytes were wanted, {int(free):,} of {int(total):,} are free ({error.status})",
                error.status,
            ) from error

    def _reserve_once(self, nbytes: int, stream: Stream | None = None) -> int:
        if self._pool is None:
            return int(call("cuMemAlloc", nbytes))
        return int(call("cuMemAllocAsync", nbytes, (stream or self.default_stream).handle))

    def release(self, address: int, stream: Stream | None = None) -> None:
        """Free memory behind what a stream, the default one if not given, holds now."""
        if self._pool is None:
            call("cuCtxSynchronize")
            call("cuMemFree", address)
        else:
            call("cuMemFreeAsync", address, (stream or self.default_stream).handle)

    def barrier(self, stream: Stream) -> int:
        """The address of a word that is 0, allocated and set in the order of a stream."""
        self.attach()
        address = self._reserve_once(4, stream)
        call("cuMemsetD32Async", address, 0, 1, stream.handle)
        return address

    def _upload(self, to: Array, host: npt.NDArray[Any]) -> None:
        if host.size:
            self.attach()
            home = to.memory.gather()
            call("cuMemcpyHtoDAsync", to.address, host.ctypes.data, host.nbytes, home.handle)
            call("cuStreamSynchronize", home.handle)  # until then the driver may still read `host`

    def _download(self, host: npt.NDArray[Any], source: Array) -> None:
        self.attach()
        home = source.memory.gather()
        if host.size:
            call("cuMemcpyDtoHAsync", host.ctypes.data, source.address, host.nbytes, home.handle)
        call("cuStreamSynchronize", home.handle)

    def _copy(self, to: Array, source: Array) -> None:
        if to.size == 0 or to.address == source.address:
            return
        if to.address < source.end and source.address < to.end:  # the driver copies in no particular order
            apart = self._make(source.size, source.dtype, zeroed=False)
            self._copy(apart, source)
            source = apart
        self.attach()
        source.memory.gather()
        home = to.memory.gather()
        call("cuMemcpyDtoDAsync", to.address, source.address, to.nbytes, home.handle)

    def _fill(self, to: Array, value: Any) -> None:
        pattern = value.tobytes()
        # the driver's patterns have one, two or four bytes
        width = next((w for w in (4, 2, 1) if len(pattern) % w == 0 and pattern == pattern[:w] * (len(pattern) // w)), None)
        if width is None:
            self._upload(to, np.frombuffer(pattern * to.size, np.uint8))
        elif to.size:
            self.attach()
            home = to.memory.gather()
            bits = int.from_bytes(pattern[:width], sys.byteorder)
            call(f"cuMemsetD{8 * width}Async", to.address, bits, to.nbytes // width, home.handle)


class CudaMemory(Memory):
    """Memory of a GPU. The driver frees it in order of the home stream, after all that have joined."""

    def free(self) -> None:
        if self.stream is not None:
            assert isinstance(self.device, CudaDevice)
            self.device.attach()
            self._give_back()
            uses.changed()

    def _give_back(self) -> None:
        """`free` without a word to those who remember what they have found out; also when no array is left that they could be given."""
        assert isinstance(self.device, CudaDevice)
        if self.stream is None:
            return
        self.gather()
        self.stream = None
        if self.address:
            self.device.release(self.address)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing, usable: Callable[[], bool] = cuda.usable) -> None:
        if finalizing() or not usable():  # at the end the driver frees everything; a forked child does not own it
            return
        assert isinstance(self.device, CudaDevice)
        self.device.finalise(self._give_back)


LEGACY: Final = 1
"""The driver's handle of the legacy default stream, which 0 stands for, too (`cuda.h`, CU_STREAM_LEGACY)."""


def stream_number(of: object) -> int:
    """The driver's handle of a stream of another library: an int, what `__cuda_stream__` gives, or an attribute `cuda_stream` (PyTorch) or `ptr` (CuPy).

    Raises TypeError for anything else.
    """
    protocol = getattr(of, "__cuda_stream__", None)
    found: Any = protocol()[1] if callable(protocol) else getattr(of, "cuda_stream", getattr(of, "ptr", of))
    if isinstance(of, Stream) or isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise TypeError(f"a stream of another library is wanted, or the driver's handle as an int, not {of!r}")
    return found or LEGACY


class CudaStream(Stream):
    """A stream of a GPU: a non-blocking one, unless it is the device's default one, or wraps one of another library."""

    device: CudaDevice

    def __init__(self, device: CudaDevice, *, blocking: bool = False, number: int | None = None) -> None:
        """`number` is the handle of a stream that somebody else has made."""
        flags, driver = cuda.driver().CUstream_flags, cuda.driver()
        if number is None:
            handle = call("cuStreamCreate", (flags.CU_STREAM_DEFAULT if blocking else flags.CU_STREAM_NON_BLOCKING).value)
        else:
            handle = driver.CUstream(number)
        super().__init__(device, handle)
        self.number = int(self.handle)
        """The driver's handle as a number."""
        self.blocking = blocking
        """Whether it is ordered with the legacy default stream: each waits for what the other one got before."""
        self.owner: object = None
        """What keeps a stream that somebody else has made."""
        self._own = number is None
        self._barrier = 0
        self._lock = threading.Lock()

    def barrier(self) -> int:
        """The address of the word at which the blocks of cooperative launches in this stream wait for each other. They run one after the other and leave it as
        they found it, so that one word is enough for all of them."""
        if not self._barrier:
            with self._lock:
                self._barrier = self._barrier or self.device.barrier(self)
        return self._barrier

    def _synchronize(self) -> None:
        self.device.attach()
        call("cuStreamSynchronize", self.handle)

    def _wait(self, event: Event) -> None:
        assert isinstance(event, CudaEvent)
        self.device.attach()
        call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def wait_for(self, other: Stream) -> None:
        self.device.attach()
        event = call("cuEventCreate", cuda.driver().CUevent_flags.CU_EVENT_DISABLE_TIMING.value)
        try:
            call("cuEventRecord", event, other.handle)
            call("cuStreamWaitEvent", self.handle, event, 0)
        finally:
            call("cuEventDestroy", event)  # the driver keeps it until it has happened

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing, usable: Callable[[], bool] = cuda.usable) -> None:
        if self.__dict__.get("handle") is not None and (self._own or self._barrier) and not finalizing() and usable():
            self.device.finalise(self._destroy)

    def _destroy(self) -> None:
        if self._barrier:
            self.device.release(self._barrier, self)
        if self._own:
            call("cuStreamDestroy", self.handle)  # the driver keeps it until its work is done


class CudaEvent(Event):
    """An event of a GPU, with time stamps."""

    device: CudaDevice

    def __init__(self, device: CudaDevice) -> None:
        super().__init__(device)
        self.handle = call("cuEventCreate", cuda.driver().CUevent_flags.CU_EVENT_DEFAULT.value)
        """The driver's handle."""

    def _record(self, stream: Stream) -> None:
        self.device.attach()
        call("cuEventRecord", self.handle, stream.handle)

    def _synchronize(self) -> None:
        self.device.attach()
        call("cuEventSynchronize", self.handle)

    def _elapsed_ms(self, end: Event) -> float:
        assert isinstance(end, CudaEvent)
        self.device.attach()
        call("cuEventSynchronize", self.handle)
        call("cuEventSynchronize", end.handle)
        return float(call("cuEventElapsedTime", self.handle, end.handle))

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing, usable: Callable[[], bool] = cuda.usable) -> None:
        if self.__dict__.get("handle") is not None and not finalizing() and usable():
            handle = self.handle
            self.device.finalise(lambda: call("cuEventDestroy", handle))
