"""An array of a library that nobody knows: DLPack's structures, filled in by hand, on memory that a test owns."""

from __future__ import annotations

import ctypes
from typing import Any

from kdsl.runtime import dlpack

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


_used: set[Any] = set()
"""Producers whose memory somebody uses: libraries keep theirs until the deleter is called."""


class Producer:
    """Hands out capsules that describe `shape` elements at `address`; `deleted` counts the calls of the deleter, `streams` are those it was asked with."""

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        *,
        code: tuple[int, int, int] = (2, 32, 1),
        device: tuple[int, int] = (1, 0),
        flags: int = 0,
        offset: int = 0,
        versioned: bool = True,
        major: int = 1,
    ) -> None:
        self.deleted = 0
        self.streams: list[Any] = []
        self.capsules: list[Any] = []
        self._device, self._versioned = device, versioned
        self._extents = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = (ctypes.c_int64 * len(strides))(*strides) if strides is not None else None
        self._managed: Any = dlpack.Versioned() if versioned else dlpack.Managed()
        tensor = self._managed.tensor
        tensor.data, tensor.byte_offset, tensor.ndim = address or None, offset, len(shape)
        tensor.device.kind, tensor.device.number = device
        tensor.type.code, tensor.type.bits, tensor.type.lanes = code
        tensor.shape = self._extents
        if self._strides is not None:
            tensor.strides = self._strides
        if versioned:
            self._managed.major, self._managed.minor, self._managed.flags = major, 7, flags
        self._delete = _Deleter(self._count)
        self._managed.deleter = ctypes.cast(self._delete, ctypes.c_void_p)

    def _count(self, pointer: int) -> None:
        assert pointer == ctypes.addressof(self._managed)
        self.deleted += 1
        _used.discard(self)

    def __dlpack__(self, *, stream: Any = None, **more: Any) -> Any:
        if more and not self._versioned:
            raise TypeError("max_version is not known here")
        self.streams.append(stream)
        capsule = _new(ctypes.addressof(self._managed), b"dltensor_versioned" if self._versioned else b"dltensor", None)
        self.capsules.append(capsule)
        _used.add(self)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device
