"""Streams and events. On the CPU a stream executes at once; `gpu.py` has the GPU's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Never

from kdsl.errors import DeviceError
from kdsl.runtime.capture import capture_on, forbid
from kdsl.runtime.token import tokens

if TYPE_CHECKING:
    from kdsl.runtime.device import Device


class Stream:
    """A queue of work on a device: what it holds runs in order, different streams run side by side.

    Between streams nothing is ordered unless an event says so (`wait`), with one exception: the first use of an array on a stream waits
    for the work that its home stream (the device's default one) holds at that time, so that it is allocated and filled.
    This class is the CPU's, whose work is done when the call returns.
    """

    def __init__(self, device: Device, handle: Any = None) -> None:
        self.device = device
        """The device that it belongs to."""
        self.handle = handle
        """The driver's handle, None on the CPU."""
        self.token = next(tokens)
        """What stands for it in memories of launches, which must not keep it."""

    def synchronize(self) -> None:
        """Wait until everything in the stream is done. Raises BoundsError if a check has failed on the device."""
        forbid(self.device, "waiting for a stream")
        self._synchronize()
        self.device.failures.check()

    def record(self) -> Event:
        """A new event behind everything that the stream holds now."""
        event = self.device.event()
        event.record(self)
        return event

    def wait(self, event: Event) -> None:
        """Let what comes later in this stream wait for `event`, without blocking the host."""
        if event.device is not self.device:
            raise DeviceError(f"a stream of {self.device} cannot wait for an event of {event.device}")
        capture = capture_on(self.device)
        if capture is not None:
            capture.wait(self, event)
        else:
            self._wait(event)

    def wait_for(self, other: Stream) -> None:
        """Let what comes later in this stream wait for everything that `other`, of the same device, holds now."""

    def _synchronize(self) -> None:
        """Wait until everything in the stream is done."""

    def _wait(self, event: Event) -> None:
        """Let what comes later wait for an event of the same device."""

    def __repr__(self) -> str:
        return f"<stream of {self.device.name}>"

    def __reduce__(self) -> Never:
        raise TypeError("a stream belongs to its process and is neither pickled nor copied: make one with device.stream()")


class Event:
    """A mark in a stream. This class is the CPU's, where a recorded event has happened."""

    def __init__(self, device: Device) -> None:
        self.device = device
        """The device that it belongs to."""
        self._time: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark behind everything that `stream` (the default one if not given) holds now."""
        chosen = self._stream_of(stream)
        capture = capture_on(self.device)
        if capture is not None:
            capture.record(self, chosen)
        else:
            self._record(chosen)

    def synchronize(self) -> None:
        """Wait until the mark is reached. Raises BoundsError if a check has failed on the device."""
        forbid(self.device, "waiting for an event")
        self._synchronize()
        self.device.failures.check()

    def elapsed_ms(self, end: Event) -> float:
        """Milliseconds from this event to `end`; both must be recorded, and it waits for both."""
        if end.device is not self.device:
            raise DeviceError(f"elapsed_ms needs two events of one device, not of {self.device} and {end.device}")
        forbid(self.device, "measuring time")
        return self._elapsed_ms(end)

    def _record(self, stream: Stream) -> None:
        """Put the mark behind everything that `stream` holds now."""
        self._time = time.perf_counter()

    def _synchronize(self) -> None:
        """Wait until the mark is reached."""

    def _elapsed_ms(self, end: Event) -> float:
        """Milliseconds to another event of the same device."""
        if self._time is None or end._time is None:
            raise DeviceError("elapsed_ms needs two events that have been recorded")
        return (end._time - self._time) * 1e3

    def _stream_of(self, stream: Stream | None) -> Stream:
        chosen = self.device.default_stream if stream is None else stream
        if chosen.device is not self.device:
            raise DeviceError(f"an event of {self.device} cannot be recorded in a stream of {chosen.device}")
        return chosen

    def __reduce__(self) -> Never:
        raise TypeError("an event belongs to its process and is neither pickled nor copied: make one with device.event()")
