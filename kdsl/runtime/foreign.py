"""Arrays of other libraries as ours, without a copy: through DLPack, or `__cuda_array_interface__`, or as NumPy's.

Such an array keeps the other library's memory. What of other libraries runs before and after is said in docs/interop.md. Leaves out DLPack's structures
(`dlpack.py`), and launches that are given such arrays (`kdsl.launch.foreign`).
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from kdsl.errors import DeviceError
from kdsl.lang.types import dtype
from kdsl.runtime import cuda, dlpack, layout
from kdsl.runtime.array import Array
from kdsl.runtime.device import Device, device
from kdsl.runtime.dlpack import Place
from kdsl.runtime.gpu import LEGACY, CudaDevice, CudaMemory, CudaStream
from kdsl.runtime.memory import CpuMemory, Memory
from kdsl.runtime.sanitizer import session, shadow
from kdsl.runtime.stream import Stream

UNORDERED: Final = -1
"""In place of a stream: the producer need not let anything wait."""


class ForeignCpuMemory(CpuMemory):
    """Memory of this process that another library has allocated. As of ours, `free` only marks it."""

    def __init__(self, device: Device, address: int, nbytes: int, owner: object, *, readonly: bool) -> None:
        Memory.__init__(self, device, address, nbytes)
        self.bytes = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address)) if nbytes else np.empty(0, np.uint8)
        self.readonly = readonly
        self._owner = owner


class ForeignCudaMemory(CudaMemory):
    """Memory of a GPU that another library has allocated. It goes back when nothing of ours uses it any more."""

    def __init__(self, device: CudaDevice, address: int, nbytes: int, owner: object, *, readonly: bool, waits: bool) -> None:
        super().__init__(device, address, nbytes)
        self.readonly = readonly
        self._owner = owner
        self._waits = waits

    def _give_back(self) -> None:
        """The other library may use the memory again at once, in an order that is its own: unless CUDA keeps it behind our streams, wait for them."""
        if self.stream is None:
            return
        home = self.gather()
        self.stream = None
        if self._waits:
            home._synchronize()
        self._owner = None


def from_dlpack(x: object, /) -> Array:
    """An array that shares the memory of `x`, without a copy: of anything with `__dlpack__` (PyTorch, CuPy, NumPy, JAX ...) or, without that, with
    `__cuda_array_interface__`, on the CPU or a GPU of CUDA's, of 1 to 5 dimensions. It keeps the memory; whoever writes, all see it.

    What `x`'s library has put on its current stream is done before anything that the device's default stream gets from now on. Memory that is
    read-only there is refused as an argument that a kernel may write to.

    Raises TypeError for what is no such array or has elements that the language lacks, ValueError for a shape or a place that arrays do not have,
    DeviceError for a device that is not there; what `x` itself raises passes.
    """
    return x if isinstance(x, Array) else adopt(x)


def is_foreign(x: object) -> bool:
    """Whether something may be an array of another library."""
    kind = type(x)
    return isinstance(x, np.ndarray) or hasattr(kind, "__dlpack__") or hasattr(kind, "__cuda_array_interface__")


def adopt(x: Any, stream: Stream | None = None, *, ordered: bool = True, behind: bool = False) -> Array:
    """`from_dlpack` for use on a stream, the device's default one if not given; with `ordered=False` it waits for nothing. `behind` says that the other
    library does not use the memory again before what is on the stream now is done."""
    if isinstance(x, np.ndarray):
        return _array(*_from_numpy(x), behind=True)
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        if hasattr(x, "is_neg") and x.is_neg():  # PyTorch's own `__dlpack__` hands such memory over as it is
            raise ValueError("a tensor with the negative bit holds numbers that stand for their negatives; pass x.resolve_neg()")
        kind, number = x.__dlpack_device__()
        on = device_of(int(kind), int(number))
        place, owner = dlpack.take(
            _capsule(x, (_number(stream or on.default_stream) if ordered else UNORDERED) if on.name != "cpu" else None)
        )
        return _array(place, owner, behind=behind)
    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is None:
        raise TypeError(f"an array has __dlpack__ and __dlpack_device__, or __cuda_array_interface__; {type(x).__name__} has neither")
    place = _from_interface(interface)
    array = _array(place, x, behind=behind)
    if ordered and interface.get("stream") is not None:
        assert isinstance(array.device, CudaDevice)
        (stream or array.device.default_stream).wait_for(array.device.wrapped(interface["stream"] or LEGACY))
    return array


def device_of(kind: int, number: int) -> Device:
    """The device that DLPack names so. Raises DeviceError if kdsl does not have it."""
    if kind in (dlpack.CPU, dlpack.CUDA_HOST):
        return device("cpu")
    if kind in (dlpack.CUDA, dlpack.CUDA_MANAGED):
        return device(f"cuda:{number}")
    raise DeviceError(f"the array is on a device of {dlpack.OTHER_DEVICES.get(kind, f'kind {kind}')}; kdsl has the CPU and GPUs of CUDA's")


def _number(stream: Stream) -> int:
    assert isinstance(stream, CudaStream)
    return stream.number


def _capsule(x: Any, stream: int | None) -> object:
    try:
        return x.__dlpack__(stream=stream, max_version=dlpack.VERSION)
    except TypeError:  # of a library that is older than versions
        return x.__dlpack__(stream=stream)


def _array(place: Place, owner: object, *, behind: bool) -> Array:
    of, on = place.dtype.canonical, device_of(place.kind, place.number)
    size = layout.count(place.shape)
    if size > layout.MOST_ELEMENTS:
        raise ValueError(f"an array has at most {layout.MOST_ELEMENTS} elements, this one has shape {place.shape}")
    if size and not place.address:
        raise ValueError(f"the array of shape {place.shape} has no memory; was its storage freed?")
    if size and place.address % of.alignment:
        raise ValueError(
            f"elements of {of} lie at multiples of {of.alignment} bytes; the first one lies {place.address % of.alignment} behind one; pass a copy"
        )
    low, high = layout.span(place.shape, place.strides)
    start, nbytes = place.address + low * of.itemsize, (high + 1 - low) * of.itemsize
    memory: Memory
    if isinstance(on, CudaDevice):
        memory = ForeignCudaMemory(on, start, nbytes, owner, readonly=place.readonly, waits=not behind)
    else:
        memory = ForeignCpuMemory(on, start, nbytes, owner, readonly=place.readonly)
        if session() is not None and nbytes and shadow.shadow_at(start) is None:  # it may be ours, on its way back
            shadow.watch(memory, written=True)
    return Array(memory, place.address, place.shape, of, place.strides)


def _from_numpy(x: Any) -> tuple[Place, object]:
    """Of NumPy's own arrays more is known than DLPack says: structs, bf16."""
    of = dtype(x.dtype)
    return Place(dlpack.CPU, 0, x.ctypes.data, *_shape(x.shape, x.strides, of.itemsize), of, not x.flags.writeable), x


def _from_interface(interface: dict[str, Any]) -> Place:
    """From the CUDA Array Interface, version 2 or 3 (Numba's documentation)."""
    if interface.get("mask") is not None:
        raise TypeError("an array with a mask is not taken; pass its data")
    of = dtype(np.dtype(interface["typestr"]))
    address, readonly = interface["data"]
    shape = tuple(interface["shape"])
    found, strides = _shape(shape, interface.get("strides"), of.itemsize)
    number = 0
    if address:  # the interface does not say on which GPU
        pointer = cuda.driver().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        device("cuda")
        number = int(cuda.call("cuPointerGetAttribute", pointer, address))
    return Place(dlpack.CUDA, number, address or 0, found, strides, of, bool(readonly))


def _shape(shape: tuple[int, ...], nbytes: tuple[int, ...] | None, itemsize: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides in elements, from strides in bytes."""
    dlpack.check_rank(len(shape), shape)
    plain = layout.row_major(shape)
    if nbytes is None or 0 in shape:
        return shape, plain
    strides = []
    for extent, step, usual in zip(shape, nbytes, plain, strict=True):
        if extent > 1 and step % itemsize:
            raise ValueError(
                f"strides are whole elements; this array has strides of {nbytes} bytes, its elements have {itemsize}; pass a copy"
            )
        strides.append(step // itemsize if extent > 1 else usual)
    return shape, tuple(strides)
