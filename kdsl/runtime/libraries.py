"""Libraries whose arrays a launch recognises again: what of such an array decides the checks, and on which stream its library puts its work.

Both are known twice: as Python's sources, and as places in memory that native code reads (`native_state.py`). Those of PyTorch are DLPack's C exchange API,
those of NumPy its public structures. Where a library keeps things otherwise than it is known to, which is found out with arrays made for that, the sources
serve. Arrays of all other libraries are taken through DLPack at each launch. No library is imported here: an array of it exists only after somebody else
has done so.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from kdsl.runtime.native_state import CUPY, DLPACK, NUMPY, Layout

HOST: Final = -1
"""In place of a stream: the array is on the CPU."""
_HEAD: Final = object.__basicsize__
_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


@dataclass(frozen=True, eq=False)
class Library:
    """What is asked of the arrays of one class. Sources are Python, of an array `{x}`: each combination of classes becomes one function."""

    name: str
    """Of the library: arrays of one library lie on one current stream."""
    state: str
    """Source of address, shape, strides, element type and all else that may be another one in the same object, or in another one at the same place: a fixed
    number of hashable values."""
    stream: str
    """Source of the driver's handle of the library's current stream on the array's GPU, 0 or 1 for the legacy default stream; `HOST` on the CPU."""
    shared: Callable[[Any], Any]
    """From an array to what DLPack is asked of."""
    names: Mapping[str, Any] = field(default_factory=dict)
    """What the sources speak of."""
    layout: Layout | None = None
    """How native code reads all that, None if it cannot."""

    @functools.cached_property
    def current(self) -> Callable[[Any], int]:
        """`stream` as a function."""
        return function([self.stream.format(x="x")], ["x"], self.names)


def function(parts: Sequence[str], parameters: Sequence[str], names: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that gives the one part, or a tuple of them."""
    body = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    made: Callable[..., Any] = eval(f"lambda {', '.join(parameters)}: {body}", dict(names))  # its sources are all from here
    return made


def _itself(x: Any) -> Any:
    return x


def _word(address: int) -> int:
    return ctypes.c_size_t.from_address(address).value


def place_of(value: int, x: object) -> int:
    """Where an object keeps a word, in bytes from its beginning. Raises LookupError unless it keeps it once."""
    (place,) = [place for place in range(_HEAD, type(x).__basicsize__, _WORD) if _word(id(x) + place) == value] or [None]
    if place is None:
        raise LookupError
    return place


def _layout(find: Callable[[], Layout]) -> Layout | None:
    """What was found out, None if that is not possible."""
    if sys.implementation.name != "cpython" or _WORD != 8:
        return None
    try:
        return find()
    except Exception:  # private parts of a library are not there, or otherwise
        return None


def _numpy(kind: type) -> Library | None:
    if kind is not np.ndarray:
        return None
    layout = _layout(_numpy_layout)
    address = "{x}.ctypes.data" if layout is None else f"word(id({{x}}) + {layout.places[0]})"  # NumPy's own way takes microseconds
    state = f"{address}, {{x}}.shape, {{x}}.strides, {{x}}.dtype, {{x}}.flags.writeable"
    return Library("numpy", state, str(HOST), _itself, {"word": _word}, layout)


def _numpy_layout() -> Layout:
    """`PyArrayObject_fields`, on which compiled extensions rely, too."""
    places = tuple(_HEAD + place for place in (0, 8, 16, 24, 40, 48))
    data, ndim, shape, strides, element, flags = places
    for x in (np.zeros((4, 7), np.int16)[1:, ::2], np.zeros(9, ">f4")):
        for writeable in (True, False):
            x.flags.writeable = writeable
            at = id(x)
            kept = ctypes.c_int.from_address(at + ndim).value, _word(at + data), _word(at + element)
            extents, steps = ((ctypes.c_ssize_t * x.ndim).from_address(_word(at + place)) for place in (shape, strides))
            flag = bool(ctypes.c_int.from_address(at + flags).value & 0x400)
            _same((*kept, *extents, *steps, flag), (x.ndim, x.ctypes.data, id(x.dtype), *x.shape, *x.strides, writeable))
            _same(_element(x.dtype), (x.dtype.kind, x.dtype.byteorder, x.dtype.num))
    return Layout(NUMPY, places)


def _element(of: Any) -> tuple[str, str, int]:
    """Kind, byte order and number where an element type of NumPy's keeps them."""
    kind, _, order, _ = (ctypes.c_char * 4).from_address(id(of) + _HEAD + 8)
    return kind.decode(), order.decode(), ctypes.c_int.from_address(id(of) + _HEAD + 12).value


def _same(found: object, wanted: object) -> None:
    if found != wanted:
        raise LookupError


def _torch(kind: type) -> Library | None:
    torch: Any = sys.modules["torch"]
    if kind not in (torch.Tensor, torch.nn.Parameter):  # subclasses may be anything, also without memory
        return None
    current = getattr(torch._C, "_cuda_getCurrentRawStream", None) or _torch_stream
    state = "{x}.data_ptr(), {x}.shape, {x}.stride(), {x}.dtype, {x}.is_neg()"
    stream = f"{HOST} if (gpu := {{x}}.get_device()) < 0 else torch_stream(gpu)"
    return Library("torch", state, stream, _detached, {"torch_stream": current}, _layout(functools.partial(_torch_layout, torch, kind)))


def _torch_layout(torch: Any, kind: Any) -> Layout:
    """DLPack's functions, which do not say whether a tensor is lazily negated (`z.conj().imag` is such a one): its set of dispatch keys does."""
    api = _pointer(kind.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    major, minor = (ctypes.c_uint32 * 2).from_address(api)
    _same((major, minor >= 2), (1, True))
    read, current = _word(api + 40), _word(api + 48)
    _same((read != 0, current != 0), (True, True))
    probes = [torch.zeros(3), torch._neg_view(torch.zeros(3)), torch.zeros(2, 2, dtype=torch.int8)]
    keys = [torch._C._dispatch_keys(probe).raw_repr() for probe in probes]
    behind = place_of(probes[0]._cdata, probes[0])
    word = next(place for place in range(0, 512, _WORD) if _word(probes[0]._cdata + place) == keys[0])
    for probe, found in zip(probes, keys, strict=True):
        _same((_word(id(probe) + behind), _word(probe._cdata + word)), (probe._cdata, found))
    _same(keys[0] != keys[1], True)
    return Layout(DLPACK, (read, current, behind, word))


def _torch_stream(index: int) -> int:
    return int(sys.modules["torch"].cuda.current_stream(index).cuda_stream)


def _detached(x: Any) -> Any:
    """PyTorch does not hand over what it differentiates; what a kernel does it does not see anyway."""
    return x.detach() if x.requires_grad else x


def _cupy(kind: type) -> Library | None:
    cupy: Any = sys.modules["cupy"]
    if kind is not cupy.ndarray:
        return None
    current = cupy.cuda.get_current_stream
    source = "cupy_stream({x}.data.device_id).ptr"
    try:
        current(0)
    except TypeError:  # an older release, which only knows the current device
        source = "cupy_stream({x}.device)"

        def current(device: Any) -> int:
            with device:
                return int(cupy.cuda.get_current_stream().ptr)

    state = "{x}.data.ptr, {x}.shape, {x}.strides, {x}.dtype"
    return Library("cupy", state, source, _itself, {"cupy_stream": current}, _layout(functools.partial(_cupy_layout, cupy)))


def _cupy_layout(cupy: Any) -> Layout:
    """Found with arrays in memory that is nowhere."""
    streams = sys.modules["cupy_backends.cuda.stream"].__pyx_capi__["get_stream_ptr"]
    current = _pointer(streams, b"intptr_t (int)")
    probes = []
    for shape, strides, of, number in (((3, 5), (40, 8), np.dtype(np.int64), 5), ((7,), (-6,), np.dtype(np.int16), 9)):
        memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(1 << 32, 1 << 20, None, number), 1024 * number)
        probes.append((cupy.ndarray(shape, of, memory, strides), memory, number))
    x, memory, number = probes[0]
    data, element, address = place_of(id(x.data), x), place_of(id(x.dtype), x), place_of(x.data.ptr, x.data)
    device = next(place for place in range(_HEAD, type(memory).__basicsize__, 4) if ctypes.c_int.from_address(id(memory) + place).value == number)
    extents = next(place for place in range(_HEAD, type(x).__basicsize__ - 6 * _WORD, _WORD) if _vectors(x, place) == (x.shape, x.strides))
    for x, memory, number in probes:
        kept = _word(id(x) + data), _word(id(x) + element), _word(id(memory) + address), ctypes.c_int.from_address(id(memory) + device).value
        _same(kept, (id(memory), id(x.dtype), memory.ptr, number))
        _same((_vectors(x, extents), _element(x.dtype)), ((x.shape, x.strides), (x.dtype.kind, x.dtype.byteorder, x.dtype.num)))
    return Layout(CUPY, (data, address, device, extents, element, current))


def _vectors(x: Any, place: int) -> tuple[tuple[int, ...], ...] | None:
    """Two vectors of C++ with a word for each dimension, None if there are none."""
    found = []
    for at in (id(x) + place, id(x) + place + 3 * _WORD):
        begin, end, room = (ctypes.c_size_t * 3).from_address(at)
        if begin == 0 or end - begin != x.ndim * _WORD or room < end:
            return None
        found.append(tuple((ctypes.c_ssize_t * x.ndim).from_address(begin)))
    return tuple(found)


_FINDERS: Final = {"numpy": _numpy, "torch": _torch, "cupy": _cupy}
_found: Final[dict[type, Library | None]] = {}


def library_of(kind: type) -> Library | None:
    """The library of arrays of a class, None for what is not known so well."""
    if kind not in _found:
        find = _FINDERS.get(kind.__module__.partition(".")[0])
        _found[kind] = find(kind) if find is not None else None
    return _found[kind]
