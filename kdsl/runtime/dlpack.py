"""DLPack's capsules: the C structures, and what a capsule of another library says (DLPack 1.0, `dlpack.h` and "Python Specification for DLPack").

Leaves out whose memory becomes an array (`foreign.py`), and the way from here to other libraries (`lend.py`).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kdsl.lang.types import BF16, BOOL, DTYPES, DType
from kdsl.runtime import layout

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""Kinds of devices (DLDeviceType); memory of the last two is reached by the host and by all GPUs, and belongs to the one that is named."""
OTHER_DEVICES: Final = {
    4: "OpenCL", 7: "Vulkan", 8: "Metal", 9: "VPI", 10: "ROCm", 11: "ROCm host memory", 12: "an extension", 14: "oneAPI", 15: "WebGPU", 16: "Hexagon",
}  # fmt: skip
"""Kinds that kdsl does not run on."""
VERSION: Final = (1, 0)
"""The version of the structures below: another minor number changes nothing of them."""
READ_ONLY, IS_COPIED = 1, 2
"""Flags of versioned capsules."""
PLAIN_NAME, VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_USED: Final = {PLAIN_NAME: b"used_dltensor", VERSIONED_NAME: b"used_dltensor_versioned"}
"""The names of capsules whose contents somebody has taken. Capsules keep the pointers, so these objects stay."""

_SIGNED, _UNSIGNED, _FLOAT, _OPAQUE, _BFLOAT, _COMPLEX, _BOOL = range(7)
_KINDS: Final = {"signed": _SIGNED, "unsigned": _UNSIGNED, "float": _FLOAT}


def type_code(of: DType) -> tuple[int, int] | None:
    """Code and bits of an element type, None for a struct."""
    if of is BOOL:
        return _BOOL, 8
    if of is BF16:
        return _BFLOAT, 16
    return (_KINDS[of.kind], of.bits) if of.kind in _KINDS else None


_TYPES: Final = {type_code(of): of for of in DTYPES.values()}


class Device(ctypes.Structure):
    """DLDevice."""

    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class Type(ctypes.Structure):
    """DLDataType."""

    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Tensor(ctypes.Structure):
    """DLTensor: strides count elements, and are NULL for row-major order."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("type", Type), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )  # fmt: skip


_python: Any = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _python))
_Deleter: Final = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)  # keeps the interpreter's lock: not every deleter asks for it


@dataclass(frozen=True)
class Place:
    """Memory of another library, and the elements in it."""

    kind: int
    """The kind of device."""
    number: int
    """The device among those of its kind."""
    address: int
    """Of the first element."""
    shape: tuple[int, ...]
    """Elements along each dimension."""
    strides: tuple[int, ...]
    """Elements from one index of each dimension to the next."""
    dtype: DType
    """Element type."""
    readonly: bool
    """Whether it may not be written."""


class Owner:
    """What keeps memory of another library: its deleter is called once, when this goes or before, in whichever thread."""

    __slots__ = ("_deleter", "_pointers")

    def __init__(self, pointer: int, deleter: int | None) -> None:
        self._pointers = [pointer]
        self._deleter = _Deleter(deleter) if deleter else None

    def release(self) -> None:
        """Call the deleter, unless that has been done."""
        try:
            pointer = self._pointers.pop()  # one step of the interpreter: no two threads get it
        except IndexError:
            return
        if self._deleter is not None:
            self._deleter(pointer)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not finalizing():  # at the end of the program the producer's code may be gone
            self.release()


def take(capsule: object) -> tuple[Place, Owner]:
    """What a capsule holds, which is ours from now on.

    Raises TypeError or ValueError for what is no array of kdsl's; then the capsule is as it was, and frees what it holds itself.
    """
    name = next((name for name in (VERSIONED_NAME, PLAIN_NAME) if _is_valid(capsule, name)), None)
    if name is None:
        raise TypeError(f"__dlpack__ gives a capsule that nobody has used, not {capsule!r}")
    pointer = capsule_pointer(capsule, name)
    managed: Any = (Versioned if name == VERSIONED_NAME else Managed).from_address(pointer)
    readonly = False
    if name == VERSIONED_NAME:
        if managed.major != VERSION[0]:
            raise TypeError(f"the array comes as DLPack {managed.major}.{managed.minor}; kdsl knows {VERSION[0]}.x")
        readonly = bool(managed.flags & READ_ONLY)
    place = _place(managed.tensor, readonly)
    owner = Owner(pointer, managed.deleter)
    _rename(capsule, _USED[name])
    return place, owner


def _place(tensor: Any, readonly: bool) -> Place:
    rank = tensor.ndim
    check_rank(rank, tuple(tensor.shape[:rank]) if 0 < rank <= 64 else ())
    shape = layout.shape_of(tuple(tensor.shape[:rank]))
    strides = tuple(tensor.strides[:rank]) if tensor.strides else layout.row_major(shape)
    return Place(
        tensor.device.kind, tensor.device.number, (tensor.data or 0) + tensor.byte_offset, shape, strides, _element(tensor.type), readonly
    )  # fmt: skip


def check_rank(rank: int, shape: tuple[int, ...]) -> None:
    """Raise ValueError for a number of dimensions that arrays do not have."""
    if not 1 <= rank <= layout.MOST_DIMENSIONS:
        hint = "make it one of one element, such as x.reshape(1)" if rank == 0 else "reshape it, or pass a part"
        raise ValueError(f"an array has 1 to {layout.MOST_DIMENSIONS} dimensions, this one has {rank}, its shape is {shape}; {hint}")


def _element(of: Any) -> DType:
    found = _TYPES.get((of.code, of.bits)) if of.lanes == 1 else None
    if found is not None:
        return found
    names = {_SIGNED: "int", _UNSIGNED: "uint", _FLOAT: "float", _OPAQUE: "opaque", _BFLOAT: "bfloat", _COMPLEX: "complex", _BOOL: "bool"}
    name = f"{names.get(of.code, f'code {of.code}, bits ')}{of.bits}" + (f" x {of.lanes}" if of.lanes != 1 else "")
    hint = "; view it as real numbers, with a dimension of 2 more" if of.code == _COMPLEX else ""
    raise TypeError(f"there is no element type for DLPack's {name}; use one of {', '.join(DTYPES)}{hint}")
