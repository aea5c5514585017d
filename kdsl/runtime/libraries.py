"""Libraries whose arrays a launch recognises again: what of such an array decides the checks, and on which stream its library puts its work.

Arrays of all others are taken through DLPack at each launch. No library is imported here: an array of it exists only after somebody else has done so.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

HOST: Final = -1
"""In place of a stream: the array is on the CPU."""


@dataclass(frozen=True, eq=False)
class Library:
    """What is asked of the arrays of one class."""

    name: str
    """Of the library: arrays of one library lie on one current stream."""
    state: Callable[[Any], Any]
    """Address, shape, strides, element type and all else that may be another one in the same object, or in another one at the same place; hashable."""
    stream: Callable[[Any], int]
    """The driver's handle of the library's current stream on the array's GPU, 0 or 1 for the legacy default stream; `HOST` on the CPU."""
    shared: Callable[[Any], Any]
    """What DLPack is asked of."""


_word: Final = ctypes.c_size_t.from_address
_DATA: Final = object.__basicsize__
"""Where an array of NumPy's keeps its address: first in `PyArrayObject_fields`, which compiled extensions rely on. Its own ways take microseconds."""


def _numpy_state(x: Any) -> tuple[Any, ...]:
    return _word(id(x) + _DATA).value, x.shape, x.strides, x.dtype, x.flags.writeable


def _slow_numpy_state(x: Any) -> tuple[Any, ...]:
    return x.__array_interface__["data"], x.shape, x.strides, x.dtype


def _torch_state(x: Any) -> tuple[Any, ...]:
    return x.data_ptr(), x.shape, x.stride(), x.dtype, x.is_neg()


def _cupy_state(x: Any) -> tuple[Any, ...]:
    return x.data.ptr, x.shape, x.strides, x.dtype


def _itself(x: Any) -> Any:
    return x


def _numpy(kind: type) -> Library | None:
    if kind is not np.ndarray:
        return None
    probe = np.zeros(2, np.uint8)[1:]
    as_known = sys.implementation.name == "cpython" and _numpy_state(probe)[0] == probe.ctypes.data
    return Library("numpy", _numpy_state if as_known else _slow_numpy_state, lambda x: HOST, _itself)


def _torch(kind: type) -> Library | None:
    torch: Any = sys.modules["torch"]
    if kind not in (torch.Tensor, torch.nn.Parameter):  # subclasses may be anything, also without memory
        return None
    current: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", None) or _torch_stream

    def stream(x: Any) -> int:
        return current(x.get_device()) if x.is_cuda else HOST

    return Library("torch", _torch_state, stream, _detached)


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

    def stream(x: Any) -> int:
        return int(current(x.data.device_id).ptr)

    def without_device(x: Any) -> int:  # of an older release
        with x.device:
            return int(current().ptr)

    try:
        current(0)
    except TypeError:
        stream = without_device
    return Library("cupy", _cupy_state, stream, _itself)


_FINDERS: Final = {"numpy": _numpy, "torch": _torch, "cupy": _cupy}
_found: Final[dict[type, Library | None]] = {}


def library_of(kind: type) -> Library | None:
    """The library of arrays of a class, None for what is not known so well."""
    if kind not in _found:
        find = _FINDERS.get(kind.__module__.partition(".")[0])
        _found[kind] = find(kind) if find is not None else None
    return _found[kind]
