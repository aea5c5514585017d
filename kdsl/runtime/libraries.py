"""Libraries whose arrays a launch recognises again: what of such an array decides the checks, and on which stream its library puts its work.

Both are known twice: as Python's sources, and as places in memory that native code reads (`places.py`, `native_state.py`); where a library keeps things
otherwise, the sources serve. Arrays of all other libraries are taken through DLPack at each launch. No library is imported here: an array of it exists only
after somebody else has done so.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from kdsl.runtime import places
from kdsl.runtime.native_state import Layout
from kdsl.runtime.places import word

HOST: Final = -1
"""In place of a stream: the array is on the CPU."""


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


def _numpy(kind: type) -> Library | None:
    if kind is not np.ndarray:
        return None
    layout = places.found(places.of_numpy)
    address = "{x}.ctypes.data" if layout is None else f"word(id({{x}}) + {layout.places[0]})"  # NumPy's own way takes microseconds
    state = f"{address}, {{x}}.shape, {{x}}.strides, {{x}}.dtype, {{x}}.flags.writeable"
    return Library("numpy", state, str(HOST), _itself, {"word": word}, layout)


def _torch(kind: type) -> Library | None:
    torch: Any = sys.modules["torch"]
    if kind not in (torch.Tensor, torch.nn.Parameter):  # subclasses may be anything, also without memory
        return None
    current = getattr(torch._C, "_cuda_getCurrentRawStream", None) or _torch_stream
    state = "{x}.data_ptr(), {x}.shape, {x}.stride(), {x}.dtype, {x}.is_neg()"
    stream = f"{HOST} if (gpu := {{x}}.get_device()) < 0 else torch_stream(gpu)"
    return Library("torch", state, stream, _detached, {"torch_stream": current}, places.found(places.of_torch, torch, kind))


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
    return Library("cupy", state, source, _itself, {"cupy_stream": current}, places.found(places.of_cupy, cupy))


_FINDERS: Final = {"numpy": _numpy, "torch": _torch, "cupy": _cupy}
_found: Final[dict[type, Library | None]] = {}


def library_of(kind: type) -> Library | None:
    """The library of arrays of a class, None for what is not known so well."""
    if kind not in _found:
        find = _FINDERS.get(kind.__module__.partition(".")[0])
        _found[kind] = find(kind) if find is not None else None
    return _found[kind]
