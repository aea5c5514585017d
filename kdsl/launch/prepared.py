"""Launches that are checked once and made many times: `kernel.prepare(…)`.

An argument that is exchanged is checked for what can go wrong with it alone, and for overlap; where more depends on it (the shape of an array, a number of
which the contract or the grid speaks, a compile-time constant) all checks of the launch are made again. Leaves out those checks (the generated launcher).
"""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Never

from kdsl.errors import LaunchError
from kdsl.ir.abi import Argument, encoded
from kdsl.lang.types import BF16, DType
from kdsl.launch import refuse
from kdsl.launch.arguments import scalar
from kdsl.launch.delegate import Delegate
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


MOST: Final = 64
"""Arrays that are remembered at most."""


class _Place:
    """Where a parameter is packed, and what may be packed there without further checks."""

    __slots__ = ("accept", "cell", "pack")

    def __init__(
        self, accept: Callable[[Any, Mapping[str, Any]], Any], buffer: Any, code: str, offset: int, *, is_array: bool = False
    ) -> None:
        self.accept = accept
        """From a new argument, and all others that are exchanged with it, to what is packed; None if all checks have to be made again."""
        self.pack = functools.partial(struct.Struct(f"={code}").pack_into, buffer, offset)
        """Packs it."""
        self.cell = ctypes.c_uint64.from_buffer(buffer, offset) if is_array else None
        """Of an array: its address; setting the `value` is the quicker way to pack it."""


class _State:
    """What a prepared launch is at a time; another object once all checks have been made again. One thread at a time writes or launches it."""

    __slots__ = (
        "arguments", "arrays", "buffer", "deciding", "fire", "further", "generation", "known", "last", "launch", "places", "recover", "stream",
    )  # fmt: skip

    def __init__(self, launch: Launch, deciding: Container[str]) -> None:
        prepared: Any = launch.prepared
        self.launch = launch
        """The launch as it was checked."""
        self.arguments = dict(launch.arguments)
        """Its arguments now, by name."""
        self.buffer = prepared.owner.bytes
        """Its packed arguments."""
        self.arrays = tuple(name for name, value in launch.arguments.items() if isinstance(value, Array | DeviceTensorMap))
        """The names of the arrays among them."""
        self.further = launch.arrays[len(self.arrays) :]
        """Arrays that the launch itself needs."""
        self.stream = launch.stream
        """Where it launches."""
        self.generation: object = None
        """That of `uses` when the arrays were last looked at."""
        self.deciding = deciding
        """The number and struct parameters of which the contract or the grid speaks."""
        self.places: dict[str, _Place] = {}
        """What can be exchanged; found out when something is."""
        self.last: _Place | None = None
        """The array parameter that was exchanged last."""
        self.known: dict[int, int] = {}
        """Arrays that were accepted there, by token, and their addresses: as long as no other array is exchanged they are accepted again."""
        runner: Runner = launch.plan.runner(prepared, launch.stream)
        self.fire: Callable[[], int | None] = runner.fire
        """Launches it; gives a status, 0 or None if all is well."""
        self.recover: Callable[[int], None] = runner.recover
        """What to do after another status: it launches after all, or raises."""

    def look(self) -> None:
        """See that the memory of all arrays is there, and let the stream use it."""
        generation, stream = uses.generation, self.launch.stream  # first: what changes from here on is noticed the next time
        for name in self.arrays:
            memory = _array_of(self.arguments[name]).memory
            if memory.stream is None:
                refuse.freed(self.launch.kernel, name)
            memory.join(stream)
        for array in self.further:
            array.memory.join(stream)
        self.generation = generation

    def exchange(self, changes: dict[str, Any]) -> bool:
        """Whether the arguments could be exchanged without further checks; if not, nothing has changed."""
        places = self.places or self._find_places()
        if len(changes) != 1:
            return self._exchange_all(changes)
        name, value = changes.popitem()
        place = places.get(name)
        if place is None:
            found = None
        elif place.cell is None:
            found = place.accept(value, changes)
            if found is not None:
                place.pack(found)
        else:
            if place is not self.last:
                self.last, self.known = place, {}
            found = self.known.get(value.token) if value.__class__ is Array else None
            if found is None:
                found = place.accept(value, changes)
                if found is not None:
                    self._remember(value.token, found)
            if found is not None and value.memory.stream is not self.stream:
                self.generation = None  # the stream may have to join it
                if value.memory.stream is None:  # it was freed since it was accepted
                    found = None
            if found is not None:
                place.cell.value = found
        if found is None:
            changes[name] = value
            return False
        self.arguments[name] = value
        return True

    def _exchange_all(self, changes: dict[str, Any]) -> bool:
        """The same for any number of arguments."""
        written: list[tuple[_Place, Any]] = []
        for name, value in changes.items():
            place = self.places.get(name)
            found = None if place is None else place.accept(value, changes)
            if place is None or found is None:
                return False
            written.append((place, found))
        for place, found in written:
            place.pack(found)
        self.last = self.generation = None
        self.arguments.update(changes)  # at once: other threads may read them
        return True

    def _remember(self, token: int, address: int) -> None:
        if len(self.known) == MOST:
            self.known.clear()
        self.known[token] = address

    def _find_places(self) -> dict[str, _Place]:
        """What of the arguments can be exchanged without making all checks again."""
        launch, plan = self.launch, self.launch.plan
        starts = {slot.name: slot.offset for slot in plan.layout.slots if slot.kind == "address"}
        packed = arguments_by_name(plan.layout)
        for name, value in launch.arguments.items():
            if f"{name}.address" in starts and isinstance(value, Array):
                accept = _array(value, self.arguments, plan.rivals[name], plan.alignment_of(name), readonly=plan.takes_readonly(name))
                self.places[name] = _Place(accept, self.buffer, "Q", starts[f"{name}.address"], is_array=True)
            elif name in packed and plan.can_lie_ready and name not in self.deciding:
                accept, code = _value(launch.kernel, name, packed[name], value)
                self.places[name] = _Place(accept, self.buffer, code, packed[name].offset)
        return self.places


class _Owner:
    """The state of a prepared launch, and who has it."""

    __slots__ = ("_free", "_lock", "launcher", "state", "stream")

    def __init__(self, launcher: Launcher, launch: Launch) -> None:
        """A checked launch of a launcher."""
        self.launcher = launcher
        self._lock = threading.RLock()
        self.state = _State(launch, launcher.deciding)
        self._free = [self.state]  # empty while somebody launches or writes it
        self.stream: Stream = launch.stream
        """Where it launches."""

    def launch(self, **changes: Any) -> Node | None:
        """`PreparedLaunch.__call__`."""
        free = self._free
        try:
            state = free.pop()  # one step of the interpreter: until it is back no other thread gets it, nor a signal handler
        except IndexError:
            return self._beside(changes)
        try:
            if changes and not state.exchange(changes):
                state = self._again(free, changes)
            if captures and launch_recorder(self.stream.device) is not None:
                return self._whole()
            if state.generation is not uses.generation:
                state.look()
            status = state.fire()
            if status:
                state.recover(status)
        finally:
            free.append(state)
        return None

    def update(self, changes: dict[str, Any]) -> None:
        """`PreparedLaunch.update`."""
        free = self._free
        try:
            state = free.pop()
        except IndexError:
            self._update_beside(changes)
            return
        try:
            if not state.exchange(changes):
                state = self._again(free, changes)
        finally:
            free.append(state)

    def _beside(self, changes: dict[str, Any]) -> Node | None:
        """Launch while somebody else does."""
        if changes:
            self._update_beside(changes)
        return self._whole()

    def _update_beside(self, changes: dict[str, Any]) -> None:
        """Exchange arguments while somebody else launches it or does so."""
        with self._lock:
            free, self._free = self._free, []  # who comes now launches with all checks, so that this thread's turn comes
            try:
                while True:
                    try:
                        state = free.pop()
                        break
                    except IndexError:
                        if self._is_under_way_here():  # what it launches stays as it is
                            fresh: list[_State] = []
                            fresh.append(self._again(fresh, changes))
                            free = fresh
                            return
                    time.sleep(1e-5)
                try:
                    if not state.exchange(changes):
                        state = self._again(free, changes)
                finally:
                    free.append(state)
            finally:
                self._free = free

    def _is_under_way_here(self) -> bool:
        """Whether this thread is in the middle of a launch or an update of it: a signal handler has interrupted that, or a finaliser."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            if frame.f_code in _HOLDERS and frame.f_locals.get("self") is self and "state" in frame.f_locals:
                return True
            frame = frame.f_back
        return False

    def _whole(self) -> Node | None:
        """The launch with all checks, through the launcher."""
        state = self.state
        node: Node | None = state.launch.entry(**state.arguments, **{self.launcher.stream_keyword: self.stream})
        return node

    def _again(self, free: list[_State], changes: Mapping[str, Any]) -> _State:
        """Make all checks of a launch with other arguments: the state that comes into `free`."""
        launch, arguments = self.state.launch, self.state.arguments
        for name in changes:
            if name not in arguments:
                raise TypeError(f"{launch.kernel} has no parameter {name}; its parameters are {', '.join(arguments)}")
        made = checked(launch.entry, (), {**arguments, **changes, self.launcher.stream_keyword: self.stream})
        self.state, self._free = _State(made, self.launcher.deciding), free
        return self.state


_HOLDERS: Final = {of.__code__ for of in (_Owner.launch, _Owner.update, _Owner._update_beside)}


class PreparedLaunch(Delegate):
    """A launch of a kernel that has passed all checks, to be made any number of times. `kernel.prepare(…)` makes it.

        step = saxpy.prepare(y, x, 2.0)
        step()                        # launches
        step(a=3.0)                   # launches with another argument, which it keeps
        step.update(x=other)          # exchanges an argument, without a launch
        step.on(stream)()             # the same on another stream

    It keeps its arrays alive, and holds for the numbers that the kernel had captured. Several threads may use one: each launch has all arguments of one
    update. While the thread captures a graph on the device, launches are recorded.
    """

    __slots__ = ("_owner",)
    _owner: _Owner

    def __new__(cls, launcher: Launcher, launch: Launch) -> PreparedLaunch:
        """A checked launch of a launcher."""
        owner = _Owner(launcher, launch)
        made = super().__new__(cls, owner.launch)
        made._owner = owner
        return made

    if TYPE_CHECKING:

        def __call__(self, **changes: Any) -> Node | None:
            """Launch, with other arguments from now on if some are named. Gives a node if this thread captures a graph, else None.

            Raises what `update` raises, and LaunchError if an array has been freed.
            """

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that it has now, by name."""
        return dict(self._owner.state.arguments)

    @property
    def stream(self) -> Stream:
        """Where it launches."""
        return self._owner.state.stream

    def update(self, **changes: Any) -> None:
        """Exchange arguments, by name; those that are not named stay.

        Another array of the same shape, strides, element type and device, another number or struct are checked by themselves, and arrays for overlap; for
        anything else all checks of a launch are made again. Raises what the kernel raises for wrong arguments; then everything is as it was.
        """
        self._owner.update(changes)

    def on(self, stream: Stream) -> PreparedLaunch:
        """Another one with the same arguments, which launches on `stream`. Raises LaunchError if that is none of the device."""
        if not isinstance(stream, Stream):
            raise LaunchError(
                f"{self._owner.state.launch.kernel}: on() takes a stream of a device, such as device.stream(), not {stream!r}"
            )
        return self._owner.launcher.prepare((), self.arguments, stream)

    def __repr__(self) -> str:
        return f"<prepared launch of {self._owner.state.launch.kernel} on {self.stream.device.name}>"

    def __reduce__(self) -> Never:
        raise TypeError("a prepared launch belongs to its process and is neither pickled nor copied: prepare another one")


def _array_of(argument: Any) -> Array:
    array: Array = argument.array if argument.__class__ is DeviceTensorMap else argument
    return array


def _array(
    old: Array, arguments: Mapping[str, Any], rivals: Sequence[str], alignment: int, *, readonly: bool
) -> Callable[[Any, Mapping[str, Any]], int | None]:  # fmt: skip
    """What accepts an array in place of `old`. `rivals` name the arrays with which it may not share memory."""
    shape, strides, dtype, device = old.shape, old.strides, old.dtype, old.device

    def accept(new: Any, changes: Mapping[str, Any]) -> int | None:
        if new.__class__ is not Array or new.shape != shape or new.strides != strides or new.dtype is not dtype or new.device is not device:
            return None
        memory, address = new.memory, new.address
        if memory.stream is None or address % alignment or (memory.readonly and not readonly):
            return None
        for rival in rivals:
            other = _array_of(changes[rival] if rival in changes else arguments[rival])
            if new.start < other.end and other.start < new.end:
                return None  # or only under conditions
        return address

    return accept


def _value(kernel: str, name: str, argument: Argument, value: Any) -> tuple[Callable[[Any, Mapping[str, Any]], Any], str]:
    """What accepts a number or a struct, and how it is packed."""
    slot, kind = argument.slots[0], type(value)
    if argument.struct is None:
        return _number(kernel, name, slot.type), slot.code

    def accept(new: Any, changes: Mapping[str, Any]) -> bytes | None:
        return (new.__kdsl_bytes__ or struct_bytes(kernel, name, new)) if new.__class__ is kind else None

    return accept, f"{argument.struct.type.size}s"


def _number(kernel: str, name: str, of: DType) -> Callable[[Any, Mapping[str, Any]], Any]:
    """As the launcher does it: Python's own numbers are only compared with the limits of the type."""
    if of.is_bool:
        return lambda new, changes: scalar(kernel, name, of, new)
    low, high = (-of.format.largest, of.format.largest) if of.is_float else (of.minimum, of.maximum)
    kind = float if of.is_float else int

    def accept(new: Any, changes: Mapping[str, Any]) -> Any:
        number = new if new.__class__ is kind and low <= new <= high else scalar(kernel, name, of, new)
        return encoded(of, number) if of is BF16 else number

    return accept
