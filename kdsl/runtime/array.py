"""Arrays in a device's memory: one-dimensional, contiguous, of one element type.

Elements are not accessed from the host; `numpy()` copies them there. Leaves out shapes, which travel beside the array, and how memory is
allocated and freed (`memory.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never

import numpy as np
import numpy.typing as npt

from kdsl.lang.numbers import host_number
from kdsl.lang.types import DType
from kdsl.runtime.capture import capture_on, forbid
from kdsl.runtime.memory import Memory

if TYPE_CHECKING:
    from kdsl.runtime.device import Device


class Array:
    """Elements in the memory of a device. Made by `device.array`, `empty`, `zeros`, `full`, or by slicing another one."""

    __slots__ = ("__weakref__", "address", "device", "dtype", "end", "memory", "size")

    def __init__(self, memory: Memory, address: int, size: int, dtype: DType) -> None:
        self.memory = memory
        """The allocation, shared with slices."""
        self.device: Device = memory.device
        """Where it is."""
        self.address = address
        """Address of the first element in the device's memory."""
        self.size = size
        """Number of elements."""
        self.dtype = dtype
        """Element type."""
        self.end = address + size * dtype.itemsize
        """Address behind the last element."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.end - self.address

    def __len__(self) -> int:
        return self.size

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the elements, made when everything that uses the array is done. Raises BoundsError if a check has failed on the device."""
        self.memory.alive()
        forbid(self.device, "a copy to the host")
        host = np.empty(self.size, self.dtype.numpy)
        self.device._download(host, self)
        self.device.failures.check()
        return host

    def copy_from(self, source: npt.NDArray[Any] | Array) -> None:
        """Overwrite all elements with those of `source`, of the same length and element type; it may lie on another device, or overlap."""
        self.memory.alive()
        if not isinstance(source, Array):
            host = self.device._host_array(source)
            self._match(host.size, str(host.dtype), host.dtype == self.dtype.numpy)
            forbid(self.device, "a copy from the host")
            self.device._upload(self, host)
            return
        source.memory.alive()
        self._match(source.size, source.dtype.name, source.dtype is self.dtype)
        if source.device is self.device:
            capture = capture_on(self.device)
            if capture is not None:
                capture.copy(self, source)
            else:
                self.device._copy(self, source)
        else:
            forbid(self.device, "a copy from another device")
            self.device._upload(self, source.numpy())

    def _match(self, size: int, dtype: str, same_type: bool) -> None:
        if size != self.size or not same_type:
            raise ValueError(f"cannot copy {size} elements of {dtype} to an array of {self.size} elements of {self.dtype}")

    def fill(self, value: float) -> None:
        """Set every element. Raises TypeError or OverflowError if the element type cannot hold `value`."""
        self.memory.alive()
        number = self.dtype.numpy.type(host_number(self.dtype, value))
        capture = capture_on(self.device)
        if capture is not None:
            capture.fill(self, number)
        else:
            self.device._fill(self, number)

    def free(self) -> None:
        """Give the memory back now rather than with the last reference. Slices share it: none of them can be used any more."""
        capture = capture_on(self.device)
        if capture is not None:
            capture.free(self.memory)
        self.memory.free()

    def __getitem__(self, part: slice) -> Array:
        """A slice: the same memory, no copy. Bounds are cut as Python's; the step must be 1."""
        if not isinstance(part, slice):
            raise TypeError(
                "elements of a device array are not accessible from the host; copy it with .numpy(), or take a slice such as a[2:5]"
            )
        start, stop, step = part.indices(self.size)
        if step != 1:
            raise ValueError(f"a slice of a device array has step 1, not {step}: its elements lie side by side")
        size = max(stop - start, 0)
        return Array(self.memory, self.address + start * self.dtype.itemsize, size, self.dtype)

    def __setitem__(self, part: object, value: object) -> Never:
        raise TypeError("elements of a device array cannot be assigned from the host; use a[start:stop].copy_from(...) or .fill(...)")

    __iter__ = None

    def __array__(self, *_: object, **__: object) -> Never:
        raise TypeError("a device array is not converted to NumPy's silently; copy it with .numpy()")

    def __repr__(self) -> str:
        freed = ", freed" if self.memory.stream is None else ""
        return f"<array of {self.size} {self.dtype} on {self.device.name}{freed}>"
