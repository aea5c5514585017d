"""Our arrays for other libraries, without a copy: `Array.__dlpack__` and `Array.__cuda_array_interface__`.

The structures of DLPack are in `dlpack.py`. The functions that free them are native: libraries call them from any thread, and at the end of the program,
when Python does not run any more; then they do nothing.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from kdsl.runtime import dlpack
from kdsl.runtime.dlpack import Managed, Versioned
from kdsl.runtime.gpu import LEGACY, CudaDevice, CudaStream
from kdsl.runtime.native import native
from kdsl.runtime.sanitizer import shadow

if TYPE_CHECKING:
    from kdsl.runtime.array import Array

_DELETE: Final = """
define void @delete(ptr %managed) {
  %initialised = call i32 inttoptr (i64 {Py_IsInitialized} to ptr)()
  %over = icmp eq i32 %initialised, 0
  br i1 %over, label %end, label %release
release:
  %at = getelementptr i8, ptr %managed, i64 {context}
  %holder = load ptr, ptr %at
  %state = call i32 inttoptr (i64 {PyGILState_Ensure} to ptr)()
  call void inttoptr (i64 {Py_DecRef} to ptr)(ptr %holder)
  call void inttoptr (i64 {PyGILState_Release} to ptr)(i32 %state)
  br label %end
end:
  ret void
}
"""
"""The deleter of a managed tensor, whose context is the object that holds everything."""
_DROP: Final = """
define void @drop(ptr %capsule) {
  %name = call ptr inttoptr (i64 {PyCapsule_GetName} to ptr)(ptr %capsule)
  %first = load i8, ptr %name
  %used = icmp eq i8 %first, 117
  br i1 %used, label %end, label %release
release:
  %holder = call ptr inttoptr (i64 {PyCapsule_GetContext} to ptr)(ptr %capsule)
  call void inttoptr (i64 {Py_DecRef} to ptr)(ptr %holder)
  br label %end
end:
  ret void
}
"""
"""The destructor of a capsule: what nobody has used (the name would begin with a `u`) it frees itself."""

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_set_context = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(("PyCapsule_SetContext", ctypes.pythonapi))
_keep = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))


class _Holder:
    """What a consumer holds: the array, and the structures that describe it."""

    __slots__ = ("__weakref__", "array", "managed", "parts")

    def __init__(self, array: Array, managed: Any, parts: tuple[Any, ...]) -> None:
        self.array, self.managed, self.parts = array, managed, parts


@functools.cache
def _function(source: str, entry: str, context: int = 0) -> int:
    """The address of a function that stays for ever: a consumer may call it after everything of ours has gone."""
    code = native(source.replace("{context}", str(context)), entry)
    _keep(code)
    return int(code.address)


def device_pair(array: Array) -> tuple[int, int]:
    """Kind and number of its device, as DLPack names them."""
    return (dlpack.CUDA, array.device.index) if isinstance(array.device, CudaDevice) else (dlpack.CPU, 0)


def capsule(
    array: Array, stream: object, max_version: tuple[int, int] | None, dl_device: tuple[int, int] | None, copy: bool | None
) -> object:  # fmt: skip
    """`Array.__dlpack__`. Raises BufferError for what cannot be shared."""
    code = dlpack.type_code(array.dtype)
    if code is None:
        raise BufferError(f"DLPack knows no structs; this is an array of {array.dtype}")
    pair = device_pair(array)
    if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != pair:
        raise BufferError(f"the array is on {array.device} and is not copied to another device; copy it first: a.numpy()")
    if copy:
        raise BufferError("the array is shared, and not copied; copy what is made of it")
    versioned = max_version is not None and max_version[0] >= dlpack.VERSION[0]
    if array.memory.readonly and not versioned:
        raise BufferError("the array is read-only, which DLPack can say from version 1.0 on; the other library asks for less")
    home = array.memory.alive()
    _order(array, stream)
    shadow.lent(array)
    rank, extents = array.ndim, ctypes.c_int64 * array.ndim
    shape, strides = extents(*array.shape), extents(*array.strides)
    managed: Any = Versioned() if versioned else Managed()
    tensor = managed.tensor
    tensor.data = array.address or None
    tensor.device.kind, tensor.device.number = pair
    tensor.ndim = rank
    tensor.type.code, tensor.type.bits, tensor.type.lanes = *code, 1
    tensor.shape, tensor.strides = shape, strides
    holder = _Holder(array, managed, (shape, strides, home))
    managed.context = id(holder)
    if versioned:
        managed.major, managed.minor = dlpack.VERSION
        managed.flags = dlpack.READ_ONLY if array.memory.readonly else 0
    managed.deleter = _function(_DELETE, "delete", (Versioned if versioned else Managed).context.offset)
    made = _new(ctypes.addressof(managed), dlpack.VERSIONED_NAME if versioned else dlpack.PLAIN_NAME, _function(_DROP, "drop"))
    _keep(holder)  # released by the deleter, or with a capsule that nobody has used
    _set_context(made, id(holder))
    if array.memory.lent is None:
        array.memory.lent = WeakSet()
    array.memory.lent.add(holder)
    return made


def _order(array: Array, stream: Any) -> None:
    """Let the consumer's stream wait for everything that uses the array (array API standard, `__dlpack__`)."""
    if not isinstance(array.device, CudaDevice):
        if stream not in (None, -1):
            raise BufferError(f"arrays on the CPU have no stream; stream is None, not {stream!r}")
        return
    if isinstance(stream, bool) or not isinstance(stream, int | None) or (stream is not None and (stream < -1 or stream == 0)):
        raise BufferError(f"stream is None, -1, 1, 2 or the driver's handle of a stream of {array.device}, not {stream!r}")
    if stream == -1:
        return
    home = array.memory.gather()
    if stream not in (None, LEGACY):  # that one waits for the default stream by itself
        array.device.attach()
        array.device.wrapped(stream).wait_for(home)


def cuda_interface(array: Array) -> dict[str, Any]:
    """`Array.__cuda_array_interface__`, version 3 of Numba's documentation. Raises AttributeError where there is none."""
    if not isinstance(array.device, CudaDevice):
        raise AttributeError(f"an array on {array.device} has no __cuda_array_interface__")
    if array.dtype.kind == "struct" or array.dtype.numpy.kind == "V":
        raise AttributeError(f"the CUDA array interface has no name for {array.dtype}; use DLPack")
    home = array.memory.gather()
    assert isinstance(home, CudaStream)
    item = array.dtype.itemsize
    return {
        "shape": array.shape,
        "typestr": array.dtype.numpy.str,
        "data": (array.address, array.memory.readonly),
        "strides": None if array.contiguous else tuple(step * item for step in array.strides),
        "version": 3,
        "stream": home.number,
    }
