"""Arrays in a device's memory: of one element type, of 1 to 5 dimensions with strides.

Elements are not accessed from the host; `numpy()` copies them there. Leaves out the arithmetic of shapes and strides (`layout.py`), and how memory is
allocated and freed (`memory.py`).
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Never

import numpy as np
import numpy.typing as npt

from kdsl.errors import DeviceError
from kdsl.lang.numbers import host_number
from kdsl.lang.structs import record
from kdsl.lang.types import DType
from kdsl.runtime import layout
from kdsl.runtime.capture import capture_on, forbid
from kdsl.runtime.memory import Memory
from kdsl.runtime.token import tokens

if TYPE_CHECKING:
    from kdsl.runtime.device import Device


class Array:
    """Elements in the memory of a device. Made by `device.array`, `empty`, `zeros`, `full`, `from_dlpack`, or from another one, whose memory it shares, by
    slicing, `reshape`, `transpose`, `T`, `broadcast_to`."""

    __slots__ = (
        "__weakref__", "address", "contiguous", "device", "dtype", "end", "flat", "memory", "ndim", "repeats", "shape", "size", "start", "strides",
        "token",
    )  # fmt: skip

    def __init__(
        self, memory: Memory, address: int, shape: int | tuple[int, ...], dtype: DType, strides: tuple[int, ...] | None = None
    ) -> None:
        item = dtype.itemsize
        extents: tuple[int, ...]
        steps: tuple[int, ...]
        if isinstance(shape, int):  # most arrays are such, and are made and sliced for each launch
            extents, steps, size, contiguous, start, end = (shape,), (1,), shape, True, address, address + shape * item
        else:
            extents, size = shape, layout.count(shape)
            steps = layout.row_major(shape) if strides is None else strides
            contiguous = layout.is_row_major(extents, steps)
            low, high = layout.span(extents, steps)
            start, end = address + low * item, address + (high + 1) * item
        self.memory = memory
        """The allocation, shared with slices."""
        self.device: Device = memory.device
        """Where it is."""
        self.address = address
        """Address of the first element in the device's memory."""
        self.shape = extents
        """Elements along each dimension."""
        self.strides = steps
        """Elements (not bytes) from one index of each dimension to the next; may be negative, or 0 where elements are repeated."""
        self.ndim = len(extents)
        """Number of dimensions."""
        self.size = size
        """Number of elements."""
        self.dtype = dtype
        """Element type; of structs the one that stands for all of this layout."""
        self.contiguous = contiguous
        """Whether the elements lie side by side in row-major order."""
        self.flat = contiguous and len(extents) == 1
        """Whether it has one dimension and its elements lie side by side."""
        self.repeats = 0 in steps and any(step == 0 and extent > 1 for extent, step in zip(extents, steps, strict=True))
        """Whether indices that differ name one element."""
        self.start = start
        """Lowest address of an element."""
        self.end = end
        """Address behind the highest element."""
        self.token = next(tokens)
        """What stands for it in memories of launches, which must not keep the array: another array never has the same one."""

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, repeated ones counted."""
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Array:
        """The dimensions in reverse order: the same memory, no copy."""
        return self.transpose()

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, *shape: int | tuple[int, ...]) -> Array:
        """The same elements in another shape, one extent of which may be -1: the same memory, no copy. Raises ValueError if they are not contiguous."""
        found = layout.reshaped(self.shape, shape)
        if not self.contiguous:
            raise ValueError(
                f"an array of shape {self.shape} and strides {self.strides} is not contiguous and cannot be reshaped in place; "
                "copy it first: device.array(a.numpy())"
            )
        return Array(self.memory, self.address, found, self.dtype)

    def transpose(self, *axes: int | tuple[int, ...]) -> Array:
        """The dimensions in the order `axes`, reversed without any: the same memory, no copy. Raises ValueError."""
        given: Any = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
        order = [operator.index(axis) for axis in given] or list(reversed(range(self.ndim)))
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"transpose takes each dimension of 0 to {self.ndim - 1} once, not {axes}")
        shape, strides = (tuple(of[axis] for axis in order) for of in (self.shape, self.strides))
        return Array(self.memory, self.address, shape, self.dtype, strides)

    def broadcast_to(self, shape: int | tuple[int, ...]) -> Array:
        """The array repeated along new dimensions in front, and along those of extent 1: no copy, strides of 0. Kernels only read such an array."""
        wanted = layout.shape_of(shape)
        return Array(self.memory, self.address, wanted, self.dtype, layout.broadcast(self.shape, self.strides, wanted))

    def strided(self, shape: int | tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> Array:
        """The same memory with another shape and strides, beginning `offset` elements behind the first; all count elements, no copy. Raises ValueError if an
        element would lie outside of this array, which has to be contiguous."""
        extents = layout.shape_of(shape)
        if len(strides) != len(extents):
            raise ValueError(f"{len(strides)} strides for {len(extents)} dimensions")
        if not self.contiguous:
            raise ValueError(f"an array of shape {self.shape} and strides {self.strides} is not contiguous, and cannot be strided anew")
        low, high = layout.span(extents, strides)
        if 0 not in extents and not 0 <= offset + low <= offset + high < self.size:
            raise ValueError(
                f"shape {extents} with strides {tuple(strides)} from element {offset} on reaches elements {offset + low} to {offset + high}; "
                f"the array has {self.size}"
            )
        return Array(self.memory, self.address + offset * self.dtype.itemsize, extents, self.dtype, tuple(strides))

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the elements, made when everything that uses the array is done. Raises BoundsError if a check has failed on the device."""
        self.memory.alive()
        forbid(self.device, "a copy to the host")
        host = np.empty(self.shape if self.contiguous else (self.end - self.start) // self.dtype.itemsize, self.dtype.numpy)
        if self.contiguous:
            self.device._download(host.reshape(-1), self)
        else:  # all that it spans, of which its elements are picked
            self.device._download(host, Array(self.memory, self.start, host.size, self.dtype))
        self.device.failures.check()
        if self.contiguous:
            return host
        item = self.dtype.itemsize
        first = host[(self.address - self.start) // item :]
        return np.lib.stride_tricks.as_strided(first, self.shape, [stride * item for stride in self.strides]).copy()

    def copy_from(self, source: npt.NDArray[Any] | Array) -> None:
        """Overwrite all elements with those of `source`, of the same shape and element type; it may lie on another device, or overlap.

        Raises ValueError if this array is not contiguous.
        """
        self.memory.alive()
        self._whole("copied to")
        if not isinstance(source, Array):
            host = self.device._host_array(source)
            self._match(host.shape, str(host.dtype), host.dtype == self.dtype.numpy)
            forbid(self.device, "a copy from the host")
            self.device._upload(self, host.reshape(-1))
            return
        source.memory.alive()
        self._match(source.shape, source.dtype.name, source.dtype is self.dtype)
        if not source.contiguous:
            forbid(self.device, "a copy of a strided array")
            self.device._upload(self, source.numpy().reshape(-1))
        elif source.device is self.device:
            capture = capture_on(self.device)
            if capture is not None:
                capture.copy(self, source)
            else:
                self.device._copy(self, source)
        else:
            forbid(self.device, "a copy from another device")
            self.device._upload(self, source.numpy().reshape(-1))

    def _match(self, shape: tuple[int, ...], dtype: str, same_type: bool) -> None:
        if shape == self.shape and same_type:
            return
        if len(shape) == self.ndim == 1:
            raise ValueError(f"cannot copy {shape[0]} elements of {dtype} to an array of {self.size} elements of {self.dtype}")
        raise ValueError(f"cannot copy {dtype} of shape {shape} to an array of {self.dtype} of shape {self.shape}")

    def _whole(self, what: str) -> None:
        if self.memory.readonly:
            raise ValueError(f"the array is read-only in the library that it comes from, and cannot be {what}; pass a copy there")
        if not self.contiguous:
            raise ValueError(
                f"an array of shape {self.shape} and strides {self.strides} is not contiguous and cannot be {what} from the host; "
                "write to it in a kernel, or to the array that it is a part of"
            )

    def fill(self, value: object) -> None:
        """Set every element, to a number or a struct. Raises TypeError or OverflowError if the element type cannot hold `value`."""
        self.memory.alive()
        self._whole("filled")
        number = record(self.dtype, value) if self.dtype.kind == "struct" else self.dtype.numpy.type(host_number(self.dtype, value))
        capture = capture_on(self.device)
        if capture is not None:
            capture.fill(self, number)
        else:
            self.device._fill(self, number)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """The array for another library, without a copy, as the array API standard has it: `torch.from_dlpack(array)` and the like call it.

        On a GPU `stream` (the driver's handle; None and 1 are the legacy default stream, 2 the per-thread one, -1 none) waits for everything that uses
        the array. The memory stays as long as the other library uses it. Raises BufferError for what cannot be shared, such as structs.
        """
        from kdsl.runtime import lend  # which builds on this module

        return lend.capsule(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Kind (1 the CPU, 2 a GPU of CUDA's) and number of its device."""
        from kdsl.runtime import lend

        return lend.device_pair(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array on a GPU for libraries without DLPack: the CUDA Array Interface, version 3. The array has to live as long as it is used."""
        from kdsl.runtime import lend

        return lend.cuda_interface(self)

    def free(self) -> None:
        """Give the memory back now rather than with the last reference. Slices share it: none of them can be used any more.

        Raises DeviceError if another library uses it (`__dlpack__`).
        """
        if self.memory.lent:
            raise DeviceError(
                f"this array on {self.device} is used by another library, and cannot be freed; drop what was made of it there"
            )
        capture = capture_on(self.device)
        if capture is not None:
            capture.free(self.memory)
        self.memory.free()

    def __getitem__(self, part: object) -> Array:
        """A part: the same memory, no copy. For each dimension a slice with any step, or an int, which leaves the dimension out; `...` for those between."""
        if isinstance(part, slice) and self.flat and part.step is None:  # the usual one, made quickly
            start, stop, _ = part.indices(self.size)
            return Array(self.memory, self.address + start * self.dtype.itemsize, max(stop - start, 0), self.dtype)
        parts = layout.parts_of(part, self.ndim)
        if not any(isinstance(item, slice) for item in parts):
            raise TypeError(
                "elements of a device array are not accessible from the host; copy it with .numpy(), or take a slice such as a[2:5]"
            )
        offset, shape, strides = layout.sliced(self.shape, self.strides, parts)
        return Array(self.memory, self.address + offset * self.dtype.itemsize, shape, self.dtype, strides)

    def __setitem__(self, part: object, value: object) -> Never:
        raise TypeError("elements of a device array cannot be assigned from the host; use a[start:stop].copy_from(...) or .fill(...)")

    __iter__ = None

    def __array__(self, *_: object, **__: object) -> Never:
        raise TypeError("a device array is not converted to NumPy's silently; copy it with .numpy()")

    def __repr__(self) -> str:
        freed = ", freed" if self.memory.stream is None else ""
        what = f"{self.size} {self.dtype}" if self.ndim == 1 else f"{' x '.join(map(str, self.shape))} {self.dtype}"
        return f"<array of {what} on {self.device.name}{freed}>"
