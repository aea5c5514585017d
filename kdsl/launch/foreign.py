"""Launches that are given arrays of other libraries.

The first time each becomes an array of ours (`kdsl.runtime.foreign`), and all checks are made. What decides them is where the elements lie, in which shape,
strides and element type; a launch with the same of all of these lies ready as one of our own arrays does (`ready.py`), whichever objects it is given. So
nothing is remembered of an object that could change in place, and no object is kept.

Order on a GPU: a launch all of whose arrays belong to one library runs on that library's current stream, as the library's own work does. One that also has
others, or that was given a stream, runs on the default stream, or that one: behind what the current streams of the libraries hold, and before what they get
later.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

from kdsl.launch import refuse
from kdsl.runtime.array import Array
from kdsl.runtime.capture import captures
from kdsl.runtime.foreign import adopt, is_foreign
from kdsl.runtime.gpu import LEGACY, CudaDevice, CudaStream
from kdsl.runtime.libraries import HOST, Library, library_of
from kdsl.runtime.stream import Stream
from kdsl.runtime.tensor_map import DeviceTensorMap

OURS: Final = (Array, DeviceTensorMap)


def _token(x: Any) -> object:
    return x.token


class Form:
    """What is known of a launch from the classes of its arrays. It stands first in the keys of such launches."""

    __slots__ = ("first", "library", "reads", "whole")

    def __init__(self, kinds: Sequence[type]) -> None:
        libraries = [None if kind in OURS else library_of(kind) for kind in kinds]
        known = [library for library in libraries if library is not None]
        strangers = any(library is None and kind not in OURS for library, kind in zip(libraries, kinds, strict=True))
        one = bool(known) and len({library.name for library in known}) == 1 and not strangers
        self.library: Library | None = known[0] if one else None
        """The one library that has arrays in it beside ours; None if there are several, or one that is not known so well."""
        self.reads = [_token if library is None else library.state for library in libraries]
        """What gives of each array what decides the checks."""
        self.first = next((place for place, library in enumerate(libraries) if library is not None), 0)
        """The first array of a library."""
        self.whole = one and len(known) == len(kinds)
        """Whether all arrays are of that library."""


_forms: Final[dict[tuple[type, ...], Form]] = {}


def foreign_key(stream: Stream | None, given: tuple[Any, ...], rest: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What decides all checks of a launch that needs no word to other streams, None for others. `rest` is what decides beside the arrays."""
    kinds = tuple(map(type, given))
    form = _forms.get(kinds)
    if form is None:
        form = _forms.setdefault(kinds, Form(kinds))
    if form.library is None:
        return None
    try:
        handle = form.library.stream(given[form.first])
        place: object = handle
        if stream is not None:
            if handle != HOST and not _follows(stream, handle):
                return None
            place = stream.token
        elif handle > LEGACY and not form.whole:
            return None
        return (form, place, *[read(one) for read, one in zip(form.reads, given)], *rest)  # noqa: B905  # of one length
    except Exception:  # it has no memory, or is no array at all: asked again, it says why
        return None


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
                    handles.add(library.stream(one))
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
