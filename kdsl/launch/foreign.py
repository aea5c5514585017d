"""Launches that are given arrays of other libraries.

The first time each becomes an array of ours (`kdsl.runtime.foreign`), and all checks are made. What decides them is where the elements lie, in which shape,
strides and element type: its state, which native code reads (`kdsl.runtime.native_state`), or else Python. A launch with the same of all of these lies
ready as one of our own arrays does (`ready.py`), whichever objects it is given. So nothing is remembered of an object that could change in place, and no
object is kept.

Order on a GPU: a launch all of whose arrays belong to one library runs on that library's current stream, as the library's own work does. One that also has
others, or that was given a stream, runs on the default stream, or that one: behind what the current streams of the libraries hold, and before what they get
later.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kdsl.launch import refuse
from kdsl.runtime.array import Array
from kdsl.runtime.capture import captures
from kdsl.runtime.foreign import adopt, is_foreign
from kdsl.runtime.gpu import LEGACY, CudaDevice, CudaStream
from kdsl.runtime.libraries import HOST, Library, function, library_of
from kdsl.runtime.native_state import OURS as OUR_READER
from kdsl.runtime.native_state import Layout, Table
from kdsl.runtime.places import place_of
from kdsl.runtime.stream import Stream
from kdsl.runtime.tensor_map import DeviceTensorMap

OURS: Final = (Array, DeviceTensorMap)


class Form:
    """What is known of a launch from the classes of its arrays, where native code does not read them."""

    __slots__ = ("read",)

    def __init__(self, kinds: Sequence[type]) -> None:
        libraries = [None if kind in OURS else library_of(kind) for kind in kinds]
        known = [library for library in libraries if library is not None]
        strangers = any(library is None and kind not in OURS for library, kind in zip(libraries, kinds, strict=True))
        one = len({library.name for library in known}) == 1 and not strangers
        self.read = _reader(libraries) if one else None
        """From the arrays to the current stream of the one library that has arrays in it, and all of each array that decides the checks. None if there are
        several libraries, or one that is not known so well."""


def _reader(libraries: Sequence[Library | None]) -> Callable[..., tuple[Any, ...]]:
    parameters = [f"a{place}" for place in range(len(libraries))]
    parts = [f"{x}.token" if of is None else of.state.format(x=x) for x, of in zip(parameters, libraries, strict=True)]
    first, library = next((x, of) for x, of in zip(parameters, libraries, strict=True) if of is not None)
    return function([library.stream.format(x=first), *parts], parameters, library.names)


_forms: Final[dict[tuple[type, ...], Form]] = {}
State: TypeAlias = bytes | tuple[Any, ...]
"""What decides all checks of the arrays of a launch: as native code reads it, or beginning with a `Form`."""


def _layout(kind: type) -> Layout | None:
    if kind in OURS:
        probe: Any = kind.__new__(kind)
        probe.token = token = object()
        return Layout(OUR_READER, (place_of(id(token), probe),))
    library = library_of(kind)
    return None if library is None else library.layout


def _missed(*given: Any) -> State | None:
    """The state of arrays that native code could not read, some of which it may learn to. None for what has to be taken anew each time."""
    kinds = tuple(type(x) for x in given)
    if any(_native().table.learn(kind, _layout) for kind in kinds):
        return _native().read(*given)
    form = _forms.get(kinds)
    if form is None:
        form = _forms.setdefault(kinds, Form(kinds))
    if form.read is None:
        return None
    try:
        return form, *form.read(*given)
    except Exception:  # it has no memory, or is no array at all: asked again, it says why
        return None


def _other_state(stream: Stream | None, *given: Any) -> State | bool:
    """The same for launches on a stream that was given, or that native code does not read; False if streams have to wait or be waited for."""
    found = _native().read(*given)
    if found is None or not (stream is None or isinstance(stream, Stream)):
        return False
    native = isinstance(found, bytes)
    handle = int.from_bytes(found[:8], "little", signed=True) if native else found[1]
    if stream is None:
        mixed = any(one.__class__ in OURS for one in given)
        return False if mixed and handle > LEGACY else found
    if handle != HOST and not _follows(stream, handle):
        return False
    return found, stream.token


class _Native(NamedTuple):
    """What native code there is."""

    table: Table
    """The classes of arrays that it reads."""
    read: Callable[..., State | None]
    """The state of arrays, not all of them ours."""
    read_default: Callable[..., State | bool]
    """`state`."""


@functools.cache
def _native() -> _Native:
    table = Table()
    return _Native(table, table.reader(_missed, default=False), table.reader(_other_state, default=True))


def _first_state(*arguments: Any) -> State | bool:
    """Compiles the native code, in some milliseconds: `import kdsl` would take as much longer."""
    global state
    state = _native().read_default
    return state(*arguments)


state: Callable[..., State | bool] = _first_state
"""From the stream of a launch (None: none was given) and its arrays, not all of them ours, to what decides its checks beside numbers, structs and constants;
False if nothing can lie ready. For most launches native code gives it at once."""


def _follows(stream: Any, handle: int) -> bool:
    """Whether a stream is that one, or ordered with it by CUDA itself."""
    return isinstance(stream, CudaStream) and (stream.number == (handle or LEGACY) or (handle <= LEGACY and stream.blocking))


class Bridge:
    """In place of a key: streams of other libraries that wait for the launch."""

    __slots__ = ("_after", "_stream")

    def __init__(self, stream: CudaStream, after: list[CudaStream]) -> None:
        self._stream, self._after = stream, after

    def close(self) -> None:
        """Called when the launch is made."""
        for stream in self._after:
            stream.wait_for(self._stream)


def adopted(
    kernel: str, views: tuple[tuple[str, str], ...], key: tuple[Any, ...] | None, stream: Any, given: tuple[Any, ...]
) -> tuple[list[Any], Any, Any]:
    """The arrays of a launch as ours, the stream that it runs on (None: the default one), and its key. `views` are names and annotations of the parameters.

    What is no array at all stays as it is, to be refused. Raises ArgumentError for what cannot be an array of ours.
    """
    recording = bool(captures) and threading.get_ident() in captures
    arrays: list[Any] = []
    handles: set[int] = set()
    fresh: list[Array] = []
    names: set[str] = set()
    for (name, annotation), one in zip(views, given, strict=True):
        if isinstance(one, OURS) or not is_foreign(one):
            arrays.append(one)
            names.add("")
            continue
        library = library_of(type(one))
        try:
            if library is None or recording:
                array = adopt(one if library is None else library.shared(one), stream)
                names.add("")
            else:
                array = adopt(library.shared(one), ordered=False, behind=True)
                names.add(library.name)
                fresh.append(array)
                if isinstance(array.device, CudaDevice):
                    handles.add(library.current(one))
        except Exception as error:
            refuse.foreign(kernel, name, annotation, one, error)
        arrays.append(array)
    if recording or not handles or not (stream is None or isinstance(stream, CudaStream)):
        return arrays, stream, key
    on = fresh[0].device
    assert isinstance(on, CudaDevice)
    if stream is None:
        whole = len(names) == len(handles) == 1
        stream = on.wrapped(handles.pop() or LEGACY) if whole else on.default_stream
    others = [on.wrapped(handle or LEGACY) for handle in handles if not _follows(stream, handle)]
    for other in others:
        stream.wait_for(other)
    for array in fresh:  # its memory is there: no stream has to wait for another one
        if array.device is stream.device:
            array.memory.stream = stream
    return arrays, stream, Bridge(stream, others) if others else key
