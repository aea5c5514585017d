"""Where the objects of other libraries keep what a launch asks of them, for native code (`native_state.py`).

For PyTorch these are functions of DLPack's C exchange API, for NumPy its public structures; CuPy's are its own affair. So all that is found or believed is
tried with arrays made for that; where one keeps something elsewhere, nothing is known, and a launch asks in Python.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from kdsl.runtime.dlpack import capsule_pointer
from kdsl.runtime.native_state import CUPY, DLPACK, NUMPY, Layout

_HEAD: Final = object.__basicsize__
_WORD: Final = ctypes.sizeof(ctypes.c_void_p)
_WRITEABLE: Final = 0x400
"""`NPY_ARRAY_WRITEABLE`."""


def found(find: Callable[..., Layout], *arguments: Any) -> Layout | None:
    """What `find` gives for the arguments, None if that is not possible."""
    if sys.implementation.name != "cpython" or _WORD != 8:
        return None
    try:
        return find(*arguments)
    except Exception:  # private parts of a library are not there, or otherwise
        return None


def word(address: int) -> int:
    """The word there."""
    return ctypes.c_size_t.from_address(address).value


def _half(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def _words(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_ssize_t * count).from_address(address))


def place_of(value: int, x: object) -> int:
    """Where an object keeps a word, in bytes from its beginning. Raises ValueError unless it keeps it exactly once."""
    (place,) = (place for place in range(_HEAD, type(x).__basicsize__, _WORD) if word(id(x) + place) == value)
    return place


def _check(known: object, wanted: object) -> None:
    if known != wanted:
        raise ValueError


def _check_element(of: Any) -> None:
    """Whether an element type of NumPy's keeps kind, byte order and number where native code reads them."""
    kind, _, order, _ = (ctypes.c_char * 4).from_address(id(of) + _HEAD + 8)
    _check((kind.decode(), order.decode(), _half(id(of) + _HEAD + 12)), (of.kind, of.byteorder, of.num))


def of_numpy() -> Layout:
    """`PyArrayObject_fields`, on which compiled extensions rely, too."""
    data, ndim, shape, strides, element, flags = places = tuple(_HEAD + place for place in (0, 8, 16, 24, 40, 48))
    for x in (np.zeros((4, 7), np.int16)[1:, ::2], np.zeros(9, ">f4")):
        for writeable in (True, False):
            x.flags.writeable = writeable
            _check((word(id(x) + data), _half(id(x) + ndim), word(id(x) + element)), (x.ctypes.data, x.ndim, id(x.dtype)))
            _check([_words(word(id(x) + place), x.ndim) for place in (shape, strides)], [x.shape, x.strides])
            _check(bool(_half(id(x) + flags) & _WRITEABLE), writeable)
        _check_element(x.dtype)
    return Layout(NUMPY, places)


def of_torch(torch: Any, kind: Any) -> Layout:
    """DLPack's functions, which do not say whether a tensor is lazily negated (`z.conj().imag` is such a one): its set of dispatch keys does."""
    api = capsule_pointer(kind.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    _check(_half(api), 1)  # the major version
    read, current = word(api + 40), word(api + 48)
    _check(0 in (read, current), False)
    probes = [torch.zeros(3), torch._neg_view(torch.zeros(3)), torch.zeros(2, 2, dtype=torch.int8)]
    keys = [torch._C._dispatch_keys(probe).raw_repr() for probe in probes]
    _check(keys[0] == keys[1], False)
    behind = place_of(probes[0]._cdata, probes[0])
    inside = next(place for place in range(0, 512, _WORD) if word(probes[0]._cdata + place) == keys[0])
    for probe, wanted in zip(probes, keys, strict=True):
        _check((word(id(probe) + behind), word(probe._cdata + inside)), (probe._cdata, wanted))
    return Layout(DLPACK, (read, current, behind, inside))


def of_cupy(cupy: Any) -> Layout:
    """Found with arrays in memory that is nowhere, on devices that need not be there."""
    streams = sys.modules["cupy_backends.cuda.stream"].__pyx_capi__["get_stream_ptr"]
    current = capsule_pointer(streams, b"intptr_t (int)")
    probes = []
    for shape, strides, of, device in (((3, 5), (40, 8), "int64", 5), ((7,), (-6,), "int16", 9)):
        memory = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(1 << 32, 1 << 20, None, device), 1024 * device)
        probes.append((cupy.ndarray(shape, of, memory, strides), memory, device))
    x, memory, device = probes[0]
    data, element, address = place_of(id(memory), x), place_of(id(x.dtype), x), place_of(memory.ptr, memory)
    number = next(place for place in range(_HEAD, type(memory).__basicsize__, 4) if _half(id(memory) + place) == device)
    extents = next(place for place in range(_HEAD, type(x).__basicsize__ - 5 * _WORD, _WORD) if _vectors(x, place) == [x.shape, x.strides])
    for x, memory, device in probes:
        kept = word(id(x) + data), word(id(x) + element), word(id(memory) + address), _half(id(memory) + number)
        _check(kept, (id(memory), id(x.dtype), memory.ptr, device))
        _check(_vectors(x, extents), [x.shape, x.strides])
        _check_element(x.dtype)
    return Layout(CUPY, (data, address, number, extents, element, current))


def _vectors(x: Any, place: int) -> list[tuple[int, ...]]:
    """Two vectors of C++, one behind the other, with a word for each dimension; nothing if there are none."""
    kept = []
    for at in (place, place + 3 * _WORD):
        begin, end, room = (word(id(x) + at + _WORD * number) for number in range(3))
        if begin == 0 or end - begin != x.ndim * _WORD or room < end:
            return []
        kept.append(_words(begin, x.ndim))
    return kept
