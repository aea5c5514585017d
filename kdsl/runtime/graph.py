"""Graphs: work that is recorded once and then launched as a whole, with arguments that can be exchanged.

On a GPU a launch of the graph is one call of the driver; on the CPU it runs the prepared launches one after the other. Leaves out what can be recorded and
in which order it runs (`capture.py`), and how each device runs it (`cpu_graph.py`, `gpu_graph.py`).
"""

from __future__ import annotations

import dataclasses
import threading
from types import TracebackType
from typing import Any, Never, Protocol

from kdsl.errors import GraphError, LaunchError
from kdsl.runtime import capture as capturing
from kdsl.runtime.array import Array
from kdsl.runtime.capture import Capture, Launch, Node, Step
from kdsl.runtime.device import Device
from kdsl.runtime.device import device as default_device
from kdsl.runtime.memory import Memory, uses
from kdsl.runtime.stream import Stream


class Executable(Protocol):
    """The steps of a graph, ready to run on its device."""

    def launch(self, stream: Stream) -> None:
        """Run all steps behind what the stream holds."""

    def update(self, number: int, launch: Launch) -> None:
        """Exchange a launch; what has been launched before is not affected. If it raises, nothing has changed."""


class Graph:
    """A sequence of launches, copies and fills that is recorded once and launched many times.

        with kdsl.Graph(device) as graph:
            step = saxpy(y, x, 2.0)      # recorded, not run
        graph.launch()                   # runs it
        graph.update(step, a=3.0)        # other arguments from the next launch on
        graph.launch(stream)

    Within the `with` block everything that this thread puts on the device is recorded: launches on any of its streams, copies between its arrays, fills, and
    the order that streams and events give them. Arrays may be made there; their memory is allocated at once and stays with the graph, and `zeros` and `full`
    fill it anew in each launch. All that a graph uses is kept alive by it.
    """

    def __init__(self, device: Device | None = None) -> None:
        """A graph for `device` (the default device if not given), still to be captured."""
        chosen = default_device() if device is None else device
        if not isinstance(chosen, Device):
            raise TypeError(f"a graph is captured on a device, such as kdsl.device(); not {chosen!r}")
        self.device: Device = chosen
        """Where it runs."""
        self._lock = threading.RLock()
        self._capture: Capture | None = None
        self._thread = 0
        self._executable: Executable | None = None
        self._steps: list[Step] = []
        self._memories: tuple[Memory, ...] = ()
        self._looked_at: object = None
        self._looked_for: Stream | None = None
        self._state = "has not been captured yet; do so in a `with graph:` block"

    def __enter__(self) -> Graph:
        """Begin to record. Raises GraphError if it has been captured before, or if this thread captures on the device already."""
        if self._capture is not None:
            raise GraphError("a graph is captured once; make another one: with kdsl.Graph(device) as graph")
        capture = Capture(self.device)
        self._thread = capturing.begin(capture)
        self._capture = capture
        self._state = "is still being captured; leave its `with` block first"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Make it ready to be launched. After an exception nothing is kept of it."""
        capture = self._capture
        assert capture is not None
        capturing.end(capture, self._thread)
        steps = capture.close()
        self._state = "was not captured: its `with` block ended with an exception"
        if kind is not None:
            return
        if capture.refused is not None:
            raise GraphError(f"nothing was captured: {capture.refused}") from capture.refused
        self._executable = self.device._executable(steps)
        self._use(steps)

    def launch(self, stream: Stream | None = None) -> None:
        """Run all that was recorded, on `stream` (the default one if not given), behind what that stream holds.

        Launches of one graph run one after the other, on whatever streams. Raises LaunchError if an array that it uses has been freed. A check that fails is
        raised as BoundsError by the next synchronisation, as for any launch.
        """
        executable = self._executable
        if executable is None:
            self._unusable("launched")
        device = self.device
        if stream is None:
            stream = device.default_stream
        elif not isinstance(stream, Stream) or stream.device is not device:
            raise LaunchError(f"a graph on {device} is launched on a stream of that device, not on {stream!r}")
        if capturing.captures:
            capturing.forbid(device, "launching a graph")
        with self._lock:
            if self._looked_at is not uses.generation or self._looked_for is not stream:
                self._look(stream)
            executable.launch(stream)

    def update(self, node: Node | None, /, **arguments: Any) -> None:
        """Give a recorded launch other arguments, by name; those that are not named stay.

        All checks of a launch are made again (kinds, contract, overlap, grid), and the grid follows the new arguments; then it holds from the next
        `launch` on. Raises what the kernel raises for wrong arguments, such as LaunchError; then the graph is as it was. The order of the graph stays: if
        launches that may run side by side are given the same array, it is as if two streams used it.
        """
        with self._lock:
            if self._executable is None:
                self._unusable("updated")
            number = self._number(node)
            old = self._steps[number].work
            assert isinstance(old, Launch)
            for name in arguments:
                if name not in old.arguments:
                    raise TypeError(f"{old.kernel} has no parameter {name}; its parameters are {', '.join(old.arguments)}")
            with capturing.checking() as check:
                old.entry(**{**old.arguments, **arguments})
            new = check.found
            assert new is not None, "a launcher hands its launch to the recorder or raises"
            if new.device is not self.device:
                raise LaunchError(f"{old.kernel}: the graph is on {self.device}, the arrays are on {new.device}")
            self._executable.update(number, new)
            steps = list(self._steps)
            steps[number] = dataclasses.replace(steps[number], work=new)
            self._use(steps)

    def arguments(self, node: Node | None, /) -> dict[str, Any]:
        """The arguments that a recorded launch has now, by name."""
        if self._executable is None:
            self._unusable("asked for arguments")
        launch = self._steps[self._number(node)].work
        assert isinstance(launch, Launch)
        return dict(launch.arguments)

    def __len__(self) -> int:
        """Number of recorded steps: launches, copies and fills."""
        return len(self._steps)

    def __bool__(self) -> bool:
        """True, even without steps."""
        return True

    def __repr__(self) -> str:
        return f"<graph of {len(self)} steps on {self.device.name}>"

    def __reduce__(self) -> Never:
        raise TypeError("a graph belongs to its process and is neither pickled nor copied: capture another one")

    def _number(self, node: Node | None) -> int:
        if not isinstance(node, Node):
            raise GraphError(
                f"update takes what the kernel returned during the capture, not {node!r}; a call outside of the capture returns None"
            )
        if node.capture is not self._capture:
            raise GraphError(f"{node} belongs to another graph")
        return node.number

    def _unusable(self, what: str) -> Never:
        raise GraphError(f"this graph cannot be {what}: it {self._state}")

    def _use(self, steps: list[Step]) -> None:
        self._steps = steps
        self._memories = tuple(dict.fromkeys(array.memory for step in steps for array in step.arrays))
        self._looked_at = None

    def _look(self, stream: Stream) -> None:
        """See that all memory is there, and let the stream use it. This holds for later launches, too, until some memory is freed or waits for its streams."""
        generation = uses.generation  # first: what changes from here on is noticed the next time
        for memory in self._memories:
            if memory.stream is not stream:
                if memory.stream is None:
                    raise LaunchError(f"{self._owner(memory)} of the graph has been freed")
                memory.join(stream)
        self._looked_at, self._looked_for = generation, stream

    def _owner(self, memory: Memory) -> str:
        """What uses the memory first, in words."""
        for number, step in enumerate(self._steps):
            if isinstance(step.work, Launch):
                for name, value in step.work.arguments.items():
                    if isinstance(value, Array) and value.memory is memory:
                        return f"{step.work.kernel}: the array for {name} in step {number}"
            elif any(array.memory is memory for array in step.arrays):
                return f"an array of step {number}"
        return "an array"
