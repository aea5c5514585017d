"""Devices: the base of both kinds, and the choice of one.

`device()` gives the first GPU if one works, else the CPU. Leaves out the devices themselves (`host.py`, `gpu.py`).
"""

from __future__ import annotations

import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from kdsl.errors import DeviceError
from kdsl.lang.limits import SHARED_BYTES
from kdsl.lang.types import DType, DTypeLike, dtype
from kdsl.runtime import layout
from kdsl.runtime.array import Array
from kdsl.runtime.capture import Step, capture_on, forbid
from kdsl.runtime.memory import Memory
from kdsl.runtime.record import FailureRecord
from kdsl.runtime.stream import Event, Stream

if TYPE_CHECKING:
    from kdsl.runtime.graph import Executable


class Device(ABC):
    """Where arrays live and kernels run. There is one object per device; compare with `is`."""

    name: str
    """`cpu`, `cuda:0`, ..."""
    target: str
    """What code for it is compiled for: `cpu`, or `sm_90` for compute capability 9.0."""
    default_stream: Stream
    """The stream of every launch that does not choose another, and of all copies."""
    failures: FailureRecord
    """The record of a failed check."""
    shared_limit: int = SHARED_BYTES
    """Bytes of shared memory that a block can have."""

    # ------------------------------------------------------------------------------------------------------------------------- arrays

    def array(self, values: npt.NDArray[Any]) -> Array:
        """Copy a NumPy array of 1 to 5 dimensions to the device, in row-major order.

        Raises TypeError for anything else and for element types that the language lacks, ValueError for other ranks.
        """
        host = self._host_array(values)
        forbid(self, "a copy from the host")
        made = self._make(host.shape, dtype(host.dtype), zeroed=False)
        self._upload(made, host.reshape(-1))
        return made

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
        """An array of a shape, or of so many elements, with undefined values."""
        return self._make(shape, _element_type(dtype), zeroed=False)

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
        """An array of zeros."""
        capture = capture_on(self)
        made = self._make(shape, _element_type(dtype), zeroed=capture is None)
        if capture is not None:  # each launch of the graph finds zeros
            capture.fill(made, np.zeros(1, made.dtype.numpy)[0])
        return made

    def full(self, shape: int | tuple[int, ...], value: object, dtype: DTypeLike) -> Array:
        """An array of which each element is `value`, a number or a struct. Raises TypeError or OverflowError if the element type cannot hold it."""
        made = self.empty(shape, dtype)
        made.fill(value)
        return made

    def _make(self, shape: int | tuple[int, ...], element: DType, *, zeroed: bool) -> Array:
        extents, element = layout.shape_of(shape), element.canonical
        memory = self._allocate(layout.count(extents) * element.itemsize, zeroed=zeroed)
        return Array(memory, memory.address, extents, element)

    @staticmethod
    def _host_array(values: object) -> npt.NDArray[Any]:
        """`values` in row-major order, if it has a shape and an element type that a device array can have."""
        if not isinstance(values, np.ndarray):
            raise TypeError(f"a NumPy array is wanted, not {type(values).__name__}; convert it with numpy.asarray(...)")
        if not 1 <= values.ndim <= layout.MOST_DIMENSIONS:
            raise ValueError(
                f"device arrays have 1 to {layout.MOST_DIMENSIONS} dimensions, this one has shape {values.shape}; "
                "pass .reshape(-1) and keep the shape beside it"
            )
        dtype(values.dtype)
        return np.ascontiguousarray(values)

    @abstractmethod
    def _allocate(self, nbytes: int, *, zeroed: bool) -> Memory: ...

    @abstractmethod
    def _upload(self, to: Array, host: npt.NDArray[Any]) -> None:
        """Copy from the host; `host` may be changed when it returns."""

    @abstractmethod
    def _download(self, host: npt.NDArray[Any], source: Array) -> None:
        """Copy to the host, behind everything that uses `source`; it has arrived when it returns."""

    @abstractmethod
    def _copy(self, to: Array, source: Array) -> None:
        """Copy between two arrays of this device that may overlap."""

    @abstractmethod
    def _fill(self, to: Array, value: Any) -> None:
        """Set every element to `value`, a NumPy scalar of the element type."""

    # ------------------------------------------------------------------------------------------------------------------------ streams

    def synchronize(self) -> None:
        """Wait until everything on the device is done. Raises BoundsError if a check has failed."""
        forbid(self, "waiting for the device")
        self._synchronize()
        self.failures.check()

    @abstractmethod
    def _synchronize(self) -> None:
        """Wait until everything on the device is done."""

    @abstractmethod
    def stream(self, of: object = None) -> Stream:
        """A new stream; or `of`, one of another library, or its handle as an int, for launches with `kernel.on`. It is used, and never destroyed.

        Raises TypeError for what is no stream of the device.
        """

    @abstractmethod
    def event(self) -> Event:
        """A new event."""

    @abstractmethod
    def _executable(self, steps: Sequence[Step]) -> Executable:
        """The steps of a graph, ready to run."""

    def __repr__(self) -> str:
        return f"<device {self}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.name,))


def _element_type(of: DTypeLike) -> DType:
    return dtype(of)


# ---------------------------------------------------------------------------------------------------------------------------- choosing one

_devices: Final[dict[str, Device]] = {}
_lock: Final = threading.RLock()


def device(name: str | None = None) -> Device:
    """The device called `name`: `cpu`, `cuda` (the first GPU), `cuda:1`; `auto` or None is the first GPU if one works, else the CPU.

    The environment variable KDSL_DEVICE replaces the default, which is decided when it is first asked for. Raises DeviceError for one that is unknown or
    absent.
    """
    wanted = "auto" if name is None else name
    if not isinstance(wanted, str):
        raise DeviceError(f"a device is named by a string such as cpu or cuda:0, not {name!r}; {_available()}")
    found = _devices.get(wanted)
    return found if found is not None else _find(wanted)


def _find(wanted: str) -> Device:
    if wanted == "auto":  # decided once: every launch without arrays asks
        chosen = os.environ.get("KDSL_DEVICE") or "auto"
        return _devices.setdefault("auto", _automatic() if chosen == "auto" else _find(chosen))
    kind, colon, number = wanted.partition(":")
    if kind not in ("cpu", "cuda") or (kind == "cpu" and colon) or (colon and not (number.isascii() and number.isdigit())):
        raise DeviceError(f"there is no device {wanted!r}; {_available()}")
    full_name = "cpu" if kind == "cpu" else f"cuda:{int(number or 0)}"
    with _lock:
        if full_name not in _devices:
            _devices[full_name] = _open(full_name)
        return _devices[full_name]


def _open(name: str) -> Device:
    if name == "cpu":
        from kdsl.runtime.host import CpuDevice

        return CpuDevice()
    from kdsl.runtime import cuda  # only now: the CPU alone does without cuda-python

    index = int(name.removeprefix("cuda:"))
    try:
        count = cuda.device_count()
    except DeviceError as error:
        raise DeviceError(f"there is no device {name}: {error}; {_available()}") from error
    if index >= count:
        raise DeviceError(f"there is no device {name}; {_available()}")
    from kdsl.runtime.gpu import CudaDevice

    return CudaDevice(index)


def _automatic() -> Device:
    from kdsl.runtime import cuda

    if not cuda.has_driver():
        return _find("cpu")
    try:
        return _find("cuda:0") if cuda.device_count() else _find("cpu")
    except DeviceError as error:
        warnings.warn(f"the CPU is used, because the GPU does not work: {error}", RuntimeWarning, stacklevel=4)
        return _find("cpu")


def gpu_count() -> int:
    """How many GPUs there are; 0 if there is no driver, or one that does not work."""
    from kdsl.runtime import cuda

    if not cuda.has_driver():
        return 0
    try:
        return cuda.device_count()
    except DeviceError:
        return 0


def _available() -> str:
    """What there is, for messages."""
    return f"there is {', '.join(['cpu', *(f'cuda:{index}' for index in range(gpu_count()))])}"
