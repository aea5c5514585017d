"""Launches that are checked once and made many times: `kernel.prepare(…)`.

An argument that is exchanged is checked for what can go wrong with it alone, and for overlap; where more depends on it (the shape of an array, a number of
which the contract or the grid speaks, a compile-time constant) all checks of the launch are made again. Leaves out those checks (the generated launcher).
"""

from __future__ import annotations

import functools
import struct
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never

from kdsl.errors import LaunchError
from kdsl.ir.abi import Argument, encoded
from kdsl.lang.types import BF16, DType
from kdsl.launch import refuse
from kdsl.launch.arguments import scalar
from kdsl.launch.packing import arguments_by_name, struct_bytes
from kdsl.runtime.array import Array
from kdsl.runtime.capture import Launch, Node, captures, checking, launch_recorder
from kdsl.runtime.memory import uses
from kdsl.runtime.stream import Stream
from kdsl.runtime.tensor_map import DeviceTensorMap

if TYPE_CHECKING:
    from kdsl.launch.bind import Launcher
    from kdsl.launch.plan import Runner


def checked(entry: Callable[..., Any] | None, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Launch:
    """The launch that `entry` would make with these arguments, checked and not made. Raises what the launch would raise."""
    assert entry is not None, "the launcher's owner sets it"
    with checking() as check:
        entry(*arguments, **keywords)
    assert check.found is not None, "a launcher hands its launch to the recorder or raises"
    return check.found


class _Place:
    """Where a parameter is packed, and what may be packed there without further checks."""

    __slots__ = ("accept", "is_array", "pack", "rivals")

    def __init__(
        self, accept: Callable[[Any], Any], pack: Callable[[Any], None], rivals: Sequence[str] = (), *, is_array: bool = False
    ) -> None:
        self.is_array = is_array
        """Whether it is an array."""
        self.accept = accept
        """From a new argument to what is packed, None if all checks have to be made again."""
        self.pack = pack
        """Packs it."""
        self.rivals = rivals
        """The arrays with which an array may not share memory."""


class _State:
    """What a prepared launch is at a time; another object once all checks have been made again."""

    __slots__ = ("arrays", "buffer", "generation", "launch", "places", "runner")

    def __init__(self, launch: Launch) -> None:
        prepared: Any = launch.prepared
        given = {name: value.array if isinstance(value, DeviceTensorMap) else value for name, value in launch.arguments.items()}
        self.launch = launch
        """The launch as it was checked."""
        self.buffer = prepared.owner.bytes
        """Its packed arguments."""
        self.arrays = {name: value for name, value in given.items() if isinstance(value, Array)}
        """The arrays among its arguments, and those that the launch itself needs."""
        self.arrays |= {f"[{number}]": array for number, array in enumerate(launch.arrays[len(self.arrays) :])}
        self.generation: object = None
        """That of `uses` when the arrays were last looked at."""
        self.places: dict[str, _Place] | None = None
        """What can be exchanged; found out when something is."""
        self.runner: Runner | None = launch.plan.runner(prepared, launch.stream)
        """What makes it; None while arguments are written."""

    def look(self) -> None:
        """See that the memory of all arrays is there, and let the stream use it."""
        generation, stream = uses.generation, self.launch.stream  # first: what changes from here on is noticed the next time
        for name, array in self.arrays.items():
            if array.memory.stream is None:
                refuse.freed(self.launch.kernel, name)
            array.memory.join(stream)
        self.generation = generation

    def overlaps(self, place: _Place, array: Array, changes: Mapping[str, Any]) -> bool:
        """Whether a new array shares memory with one that it may not share any with, or only under conditions."""
        for rival in place.rivals:
            other = changes[rival] if rival in changes else self.arrays[rival]
            if array.start < other.end and other.start < array.end:
                return True
        return False

    def keep(self, name: str, array: Array) -> None:
        """Hold a new array."""
        self.arrays[name] = array
        if array.memory.stream is not self.launch.stream:
            self.generation = None  # the stream may have to join it


class PreparedLaunch:
    """A launch of a kernel that has passed all checks, to be made any number of times. `kernel.prepare(…)` makes it.

        step = saxpy.prepare(y, x, 2.0)
        step()                        # launches
        step(a=3.0)                   # launches with another argument, which it keeps
        step.update(x=other)          # exchanges an argument, without a launch
        step.on(stream)()             # the same on another stream

    It keeps its arrays alive, and holds for the numbers that the kernel had captured. Several threads may use one: each launch has all arguments of one
    update. While the thread captures a graph on the device, launches are recorded.
    """

    __slots__ = ("_arguments", "_launcher", "_lock", "_state", "_under_way", "stream")

    def __init__(self, launcher: Launcher, launch: Launch) -> None:
        """A checked launch of a launcher."""
        self._launcher = launcher
        self._lock = threading.RLock()
        self._under_way: list[None] = []
        self._state = _State(launch)
        self._arguments = dict(launch.arguments)
        self.stream: Stream = launch.stream
        """Where it launches."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that it has now, by name."""
        return dict(self._arguments)

    def __call__(self, **changes: Any) -> Node | None:
        """Launch, with other arguments from now on if some are named. Gives a node if this thread captures a graph, else None.

        Raises what `update` raises, and LaunchError if an array has been freed.
        """
        if changes:
            self._exchange(changes)
        if captures and launch_recorder(self.stream.device) is not None:
            return self._whole()
        under_way = self._under_way
        under_way.append(None)
        try:
            state = self._state
            runner = state.runner
            if runner is None:
                with self._lock:  # until the update is over
                    state = self._state
                    runner = state.runner
                if runner is None:  # it is this thread's: a signal handler has come in between
                    return self._whole()
            if state.generation is not uses.generation:
                state.look()
            status = runner.fire()
            if status:
                runner.recover(status)
        finally:
            under_way.pop()
        return None

    def update(self, **changes: Any) -> None:
        """Exchange arguments, by name; those that are not named stay.

        Another array of the same shape, strides, element type and device, another number or struct are checked by themselves, and arrays for overlap; for
        anything else all checks of a launch are made again. Raises what the kernel raises for wrong arguments; then everything is as it was.
        """
        self._exchange(changes)

    def _exchange(self, changes: dict[str, Any]) -> None:
        with self._lock:
            state = self._state
            places = state.places
            if places is None:
                places = state.places = _places(state, self._launcher.deciding)
            if len(changes) == 1:  # the usual case, without lists
                ((name, value),) = changes.items()
                place = places.get(name)
                found = None if place is None else place.accept(value)
                if place is not None and found is not None and not (place.rivals and state.overlaps(place, value, changes)):
                    runner, state.runner = state.runner, None  # a launch that has found it is counted already
                    if not self._under_way:
                        place.pack(found)
                        state.runner = runner
                        self._arguments[name] = value
                        if place.is_array:
                            state.keep(name, value)
                        return
                    state.runner = runner
            elif self._exchange_all(state, places, changes):
                return
            self._again(changes)

    def _exchange_all(self, state: _State, places: Mapping[str, _Place], changes: dict[str, Any]) -> bool:
        """Whether the arguments could be exchanged without further checks."""
        written: list[tuple[_Place, Any, str, Any]] = []
        for name, value in changes.items():
            place = places.get(name)
            found = None if place is None else place.accept(value)
            if place is None or found is None:
                return False
            written.append((place, found, name, value))
        if any(state.overlaps(place, value, changes) for place, _, _, value in written):
            return False
        runner, state.runner = state.runner, None
        if self._under_way:  # a launch of another thread may be reading the packed arguments
            state.runner = runner
            return False
        for place, found, _, _ in written:
            place.pack(found)
        state.runner = runner
        self._arguments.update(changes)
        for place, _, name, value in written:
            if place.is_array:
                state.keep(name, value)
        return True

    def on(self, stream: Stream) -> PreparedLaunch:
        """Another one with the same arguments, which launches on `stream`. Raises LaunchError if that is none of the device."""
        if not isinstance(stream, Stream):
            raise LaunchError(f"{self._state.launch.kernel}: on() takes a stream of a device, such as device.stream(), not {stream!r}")
        with self._lock:
            return self._launcher.prepare((), self._arguments, stream)

    def _whole(self) -> Node | None:
        """The launch with all checks, through the launcher."""
        node: Node | None = self._state.launch.entry(**self._arguments, **{self._launcher.stream_keyword: self.stream})
        return node

    def _again(self, changes: Mapping[str, Any]) -> None:
        """Make all checks of a launch with other arguments."""
        launch = self._state.launch
        for name in changes:
            if name not in self._arguments:
                raise TypeError(f"{launch.kernel} has no parameter {name}; its parameters are {', '.join(self._arguments)}")
        made = checked(launch.entry, (), {**self._arguments, **changes, self._launcher.stream_keyword: self.stream})
        self._state, self._arguments = _State(made), dict(made.arguments)

    def __repr__(self) -> str:
        return f"<prepared launch of {self._state.launch.kernel} on {self.stream.device.name}>"

    def __reduce__(self) -> Never:
        raise TypeError("a prepared launch belongs to its process and is neither pickled nor copied: prepare another one")


def _places(state: _State, deciding: Container[str]) -> dict[str, _Place]:
    """What of the arguments of a launch can be exchanged without making all checks again."""
    launch, plan = state.launch, state.launch.plan
    starts = {slot.name: slot.offset for slot in plan.layout.slots if slot.kind == "address"}
    packed = arguments_by_name(plan.layout)
    places: dict[str, _Place] = {}
    for name, value in launch.arguments.items():
        if f"{name}.address" in starts and isinstance(value, Array):
            pack = functools.partial(struct.Struct("=Q").pack_into, state.buffer, starts[f"{name}.address"])
            places[name] = _Place(
                _array(value, plan.alignment_of(name), readonly=plan.takes_readonly(name)), pack, plan.rivals[name], is_array=True
            )
        elif name in packed and plan.can_lie_ready and name not in deciding:
            accept, code = _value(launch.kernel, name, packed[name], value)
            places[name] = _Place(accept, functools.partial(struct.Struct(f"={code}").pack_into, state.buffer, packed[name].offset))
    return places


def _array(old: Array, alignment: int, *, readonly: bool) -> Callable[[Any], int | None]:
    shape, strides, dtype, device = old.shape, old.strides, old.dtype, old.device

    def accept(new: Any) -> int | None:
        if (
            new.__class__ is Array
            and new.shape == shape
            and new.dtype is dtype
            and new.device is device
            and new.strides == strides
            and new.memory.stream is not None
            and not new.address % alignment
            and (readonly or not new.memory.readonly)
        ):
            return int(new.address)
        return None

    return accept


def _value(kernel: str, name: str, argument: Argument, value: Any) -> tuple[Callable[[Any], Any], str]:
    """What accepts a number or a struct, and how it is packed."""
    slot, kind = argument.slots[0], type(value)
    if argument.struct is None:
        return _number(kernel, name, slot.type), slot.code
    return lambda new: struct_bytes(kernel, name, new) if type(new) is kind else None, f"{argument.struct.type.size}s"


def _number(kernel: str, name: str, of: DType) -> Callable[[Any], Any]:
    """As the launcher does it: Python's own numbers are only compared with the limits of the type."""
    if of.is_bool:
        return lambda new: scalar(kernel, name, of, new)
    low, high = (-of.format.largest, of.format.largest) if of.is_float else (of.minimum, of.maximum)
    kind = float if of.is_float else int

    def accept(new: Any) -> Any:
        number = new if new.__class__ is kind and low <= new <= high else scalar(kernel, name, of, new)
        return encoded(of, number) if of is BF16 else number

    return accept
