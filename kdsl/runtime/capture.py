"""Recording instead of running: what a thread puts on a device while it captures a graph, and in which order it has to run.

Nothing of a capture reaches the driver before it ends. So another thread that uses the same streams, or an array that is freed meanwhile, does not
disturb it, and a capture that fails leaves nothing behind. Streams only say what has to wait for what; the rules are those of streams
(`stream.py`) and of memory (`memory.py`). Leaves out how a recorded graph runs (`cpu_graph.py`, `gpu_graph.py`) and its owner (`graph.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Never, TypeAlias

from kdsl.errors import GraphError

if TYPE_CHECKING:
    from kdsl.runtime.array import Array
    from kdsl.runtime.cpu import CpuLaunch
    from kdsl.runtime.device import Device
    from kdsl.runtime.gpu_code import CudaLaunch
    from kdsl.runtime.memory import Memory
    from kdsl.runtime.stream import Event, Stream


@dataclass(frozen=True)
class Launch:
    """A launch that has passed all checks."""

    kernel: str
    """Name of the kernel."""
    prepared: CpuLaunch | CudaLaunch
    """The code with its packed arguments."""
    device: Device
    """Where it runs."""
    stream: Stream
    """The stream that it was made for."""
    arguments: Mapping[str, Any]
    """Its arguments by parameter, as the launcher understood them."""
    arrays: tuple[Array, ...]
    """Those that are arrays."""
    plan: Any
    """The version of the kernel that it launches (`kdsl.launch.plan.Plan`)."""
    entry: Callable[..., Any]
    """What makes the launch, checks included, when it is called with the arguments by name."""


@dataclass(frozen=True)
class Copy:
    """A copy between two arrays of the same size and element type that do not overlap, not empty."""

    to: Array
    """Where to."""
    source: Array
    """Where from."""


@dataclass(frozen=True)
class Fill:
    """Setting all elements of an array that is not empty."""

    to: Array
    """The array."""
    value: Any
    """A NumPy scalar of the element type."""


Work: TypeAlias = Launch | Copy | Fill


@dataclass(frozen=True)
class Step:
    """One piece of work of a graph."""

    work: Work
    """What it does."""
    after: tuple[int, ...]
    """Numbers of the steps that have to be done before; all are smaller than its own."""

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that it uses."""
        match self.work:
            case Launch(arrays=arrays):
                return arrays
            case Copy(to=to, source=source):
                return (to, source)
            case Fill(to=to):
                return (to,)


@dataclass(frozen=True, eq=False)
class Node:
    """A launch in a graph: what a kernel returns when it is called during a capture, and what `Graph.update` takes."""

    kernel: str
    """Name of the kernel."""
    number: int
    """Number of the step in its graph."""
    capture: Capture
    """The capture that it belongs to; it keeps no arrays once it has ended."""

    def __repr__(self) -> str:
        return f"<launch of {self.kernel}, step {self.number} of a graph on {self.capture.device.name}>"


class Capture:
    """What one thread has put on one device since the capture began."""

    def __init__(self, device: Device) -> None:
        self.device = device
        """The device."""
        self.steps: list[Step] = []
        """What is to run; every order that respects `Step.after` gives the same."""
        self.refused: GraphError | None = None
        """The first thing that cannot be captured, even if somebody has caught its exception."""
        self._ends: dict[Stream, frozenset[int]] = {}
        """The steps that the next work of a stream has to wait for."""
        self._marks: dict[Event, frozenset[int]] = {}
        """The same for events that were recorded during the capture."""
        self._others: dict[Memory, set[Stream]] = {}
        """Streams beside the home stream that use an allocation (`Memory.others`, within the graph)."""

    def close(self) -> list[Step]:
        """End the capture: its steps, of which it keeps nothing."""
        steps, self.steps = self.steps, []
        self._ends, self._marks, self._others = {}, {}, {}
        return steps

    def refuse(self, action: str) -> Never:
        """Raise GraphError because `action` cannot be part of a graph. The capture is void even if the exception is caught."""
        error = GraphError(f"{action} cannot be captured in a graph on {self.device}; do it before the capture, or after the graph has run")
        self.refused = self.refused or error
        raise error

    def launch(self, launch: Launch) -> Node:
        """A launch: behind what its stream holds."""
        for array in launch.arrays:
            self._join(array.memory, launch.stream)
        self._add(launch, launch.stream)
        return Node(launch.kernel, len(self.steps) - 1, self)

    def copy(self, to: Array, source: Array) -> None:
        """A copy between two arrays of the device, which may overlap: behind everything that uses either."""
        if to.size == 0 or to.address == source.address:
            return
        if to.address < source.end and source.address < to.end:
            apart = self.device._make(source.size, source.dtype, zeroed=False)
            self.copy(apart, source)
            source = apart
        self._gather(source.memory)
        self._add(Copy(to, source), self._gather(to.memory))

    def fill(self, to: Array, value: Any) -> None:
        """Setting all elements: behind everything that uses the array."""
        if to.size:
            self._add(Fill(to, value), self._gather(to.memory))

    def record(self, event: Event, stream: Stream) -> None:
        """Put an event behind what the stream holds. It means something in this capture only."""
        self._marks[event] = self._end(stream)

    def wait(self, stream: Stream, event: Event) -> None:
        """Let what comes later in the stream wait for the event."""
        if event not in self._marks:
            self.refuse("waiting for an event that was not recorded during the capture")
        self._ends[stream] = self._end(stream) | self._marks[event]

    def free(self, memory: Memory) -> None:
        """Called before memory is given back."""
        if any(array.memory is memory for step in self.steps for array in step.arrays):
            self.refuse("freeing an array that the graph uses")

    def _end(self, stream: Stream) -> frozenset[int]:
        return self._ends.get(stream, frozenset())

    def _add(self, work: Work, stream: Stream) -> None:
        self.steps.append(Step(work, tuple(sorted(self._end(stream)))))
        self._ends[stream] = frozenset((len(self.steps) - 1,))

    def _join(self, memory: Memory, stream: Stream) -> None:
        home = memory.alive()
        others = self._others.setdefault(memory, set())
        if stream is not home and stream not in others:
            self._ends[stream] = self._end(stream) | self._end(home)
            others.add(stream)

    def _gather(self, memory: Memory) -> Stream:
        home = memory.alive()
        for stream in self._others.pop(memory, ()):
            self._ends[home] = self._end(home) | self._end(stream)
        return home


class Check:
    """A launch that is made for its checks only: it is kept instead of run, whatever its device."""

    def __init__(self) -> None:
        self.found: Launch | None = None
        """The launch."""

    def launch(self, launch: Launch) -> None:
        """Keep it."""
        self.found = launch


class _Thread:
    """What one thread records."""

    def __init__(self) -> None:
        self.captures: dict[Device, Capture] = {}
        self.checks: list[Check] = []


captures: Final[dict[int, _Thread]] = {}
"""The threads that record something, by their identifier. Launchers and devices look closer only if it is not empty."""


def capture_on(device: Device) -> Capture | None:
    """The capture of this thread on that device."""
    if not captures:
        return None
    thread = captures.get(threading.get_ident())
    return None if thread is None else thread.captures.get(device)


def launch_recorder(device: Device) -> Capture | Check | None:
    """What takes the launches that this thread makes on that device, None if they run."""
    thread = captures.get(threading.get_ident())
    if thread is None:
        return None
    return thread.checks[-1] if thread.checks else thread.captures.get(device)


def forbid(device: Device, action: str) -> None:
    """Raise GraphError if this thread captures a graph on the device, because `action` cannot be part of one."""
    capture = capture_on(device)
    if capture is not None:
        capture.refuse(action)


def begin(capture: Capture) -> int:
    """Record what this thread puts on the device from now on; the thread's identifier, for `end`. Raises GraphError if it captures there already."""
    identifier = threading.get_ident()
    thread = captures.setdefault(identifier, _Thread())
    if capture.device in thread.captures:
        raise GraphError(f"this thread captures a graph on {capture.device} already; a graph within a graph is not possible")
    thread.captures[capture.device] = capture
    return identifier


def end(capture: Capture, identifier: int) -> None:
    """Stop recording."""
    thread = captures[identifier]
    del thread.captures[capture.device]
    _forget(identifier, thread)


@contextmanager
def checking() -> Iterator[Check]:
    """Keep launches of this thread instead of running or capturing them."""
    identifier = threading.get_ident()
    thread = captures.setdefault(identifier, _Thread())
    check = Check()
    thread.checks.append(check)
    try:
        yield check
    finally:
        thread.checks.remove(check)
        _forget(identifier, thread)


def _forget(identifier: int, thread: _Thread) -> None:
    if not thread.captures and not thread.checks:
        captures.pop(identifier, None)
