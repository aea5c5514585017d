"""What decides the checks of arrays, read by a few native instructions: where each lies, in which shape, strides and element type, and on which stream its
library works now.

Python takes some 0.4 microseconds to ask one array of another library; this takes a few hundredths. PyTorch fills in a `DLTensor` itself (DLPack's C exchange
API); NumPy, CuPy and arrays of ours are read where their objects keep it. Leaves out where that is (`places.py`), and what is done for arrays of other
classes, or in forms that are not known here (`kdsl.launch.foreign`).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kdsl.runtime.layout import MOST_DIMENSIONS
from kdsl.runtime.native import POSITIONAL, Builtin

OURS: Final = 0
"""Reader of an array of ours. Place: its token, an int."""
NUMPY: Final = 1
"""Reader of NumPy's arrays. Places: address, number of dimensions, pointers to the extents, the strides and the element type, flags."""
CUPY: Final = 2
"""Reader of CuPy's arrays. Places: pointer to the memory, in that the address and the device; the vectors of extents and, behind it, of strides; pointer to
the element type. Then the address of a function from a device to its current stream, -1 with an exception."""
DLPACK: Final = 3
"""Reader of PyTorch's tensors. Addresses of DLPack's `dltensor_from_py_object_no_sync` and `current_work_stream`; places of the pointer to what stands behind
the object, and in that of the word that tells lazily negated tensors from others."""


@dataclass(frozen=True)
class Layout:
    """How the arrays of one class are read."""

    reader: int
    """`NUMPY`, `CUPY`, `DLPACK` or `OURS`."""
    places: tuple[int, ...]
    """As the reader says: bytes from the beginning of an object, or addresses."""


_MOST_ROWS: Final = 16
_WORDS: Final = 5 + 2 * MOST_DIMENSIONS
"""Words that are made of an array at most: the class, three of the place, the element type, extents and strides."""
_ROW: Final = struct.Struct("=QQ6Q")
"""The class, the reader, its places. Behind the rows are zeros."""
_HEAD: Final = struct.Struct("=QQQ")
"""For a function: what is called, as a Python object, for what it cannot read; the address of the rows; how many arguments come before the arrays. If one
does, it has to be None, and arrays of ours may be there only if the library's current stream is the legacy default stream."""

_SOURCE: Final = """
%Tensor = type { i64, i32, i32, i32, i32, ptr, ptr, i64 }

; An element type of NumPy's as a number, -1 if it takes more to tell it from others
define i64 @element(ptr %type) {
  %at = getelementptr i8, ptr %type, i64 {element}
  %word = load i64, ptr %at
  %number = ashr i64 %word, 32
  %user = icmp slt i64 %number, 0
  %over = sub i64 %number, 17
  %flexible = icmp ult i64 %over, 6
  %other = or i1 %user, %flexible
  %known = and i64 %word, -4278190081
  %found = select i1 %other, i64 -1, i64 %known
  ret i64 %found
}

define i1 @read(ptr %x, ptr %row, ptr %to) {
  %reader.at = getelementptr i64, ptr %row, i64 1
  %reader = load i64, ptr %reader.at
  %a.at = getelementptr i64, ptr %row, i64 2
  %a = load i64, ptr %a.at
  %b.at = getelementptr i64, ptr %row, i64 3
  %b = load i64, ptr %b.at
  %c.at = getelementptr i64, ptr %row, i64 4
  %c = load i64, ptr %c.at
  %d.at = getelementptr i64, ptr %row, i64 5
  %d = load i64, ptr %d.at
  %e.at = getelementptr i64, ptr %row, i64 6
  %e = load i64, ptr %e.at
  %f.at = getelementptr i64, ptr %row, i64 7
  %f = load i64, ptr %f.at
  %data.at = getelementptr %Tensor, ptr %to, i32 0, i32 0
  %kind.at = getelementptr %Tensor, ptr %to, i32 0, i32 1
  %device.at = getelementptr %Tensor, ptr %to, i32 0, i32 2
  %ndim.at = getelementptr %Tensor, ptr %to, i32 0, i32 3
  %type.at = getelementptr %Tensor, ptr %to, i32 0, i32 4
  %shape.at = getelementptr %Tensor, ptr %to, i32 0, i32 5
  %strides.at = getelementptr %Tensor, ptr %to, i32 0, i32 6
  %more.at = getelementptr %Tensor, ptr %to, i32 0, i32 7
  %xa.at = getelementptr i8, ptr %x, i64 %a
  switch i64 %reader, label %no [ i64 0, label %ours i64 1, label %numpy i64 2, label %cupy i64 3, label %dlpack ]
no:
  ret i1 false
ours:
  %token = load ptr, ptr %xa.at
  %token.number = call i64 inttoptr (i64 {PyLong_AsLongLong} to ptr)(ptr %token)
  store %Tensor zeroinitializer, ptr %to
  store i64 %token.number, ptr %data.at
  ret i1 true
numpy:
  %numpy.data = load i64, ptr %xa.at
  store i64 %numpy.data, ptr %data.at
  store i32 1, ptr %kind.at
  store i32 0, ptr %device.at
  %xb.at = getelementptr i8, ptr %x, i64 %b
  %numpy.ndim = load i32, ptr %xb.at
  store i32 %numpy.ndim, ptr %ndim.at
  %xc.at = getelementptr i8, ptr %x, i64 %c
  %numpy.shape = load ptr, ptr %xc.at
  store ptr %numpy.shape, ptr %shape.at
  %xd.at = getelementptr i8, ptr %x, i64 %d
  %numpy.strides = load ptr, ptr %xd.at
  store ptr %numpy.strides, ptr %strides.at
  %xf.at = getelementptr i8, ptr %x, i64 %f
  %numpy.flags = load i32, ptr %xf.at
  %writeable = and i32 %numpy.flags, 1024
  store i32 %writeable, ptr %type.at
  br label %typed
cupy:
  %memory = load ptr, ptr %xa.at
  %address.at = getelementptr i8, ptr %memory, i64 %b
  %cupy.data = load i64, ptr %address.at
  store i64 %cupy.data, ptr %data.at
  store i32 2, ptr %kind.at
  %number.at = getelementptr i8, ptr %memory, i64 %c
  %cupy.device = load i32, ptr %number.at
  store i32 %cupy.device, ptr %device.at
  %extents.at = getelementptr i8, ptr %x, i64 %d
  %extents = load ptr, ptr %extents.at
  store ptr %extents, ptr %shape.at
  %end.at = getelementptr i8, ptr %extents.at, i64 8
  %end = load i64, ptr %end.at
  %begin = ptrtoint ptr %extents to i64
  %bytes = sub i64 %end, %begin
  %cupy.rank = lshr i64 %bytes, 3
  %cupy.ndim = trunc i64 %cupy.rank to i32
  store i32 %cupy.ndim, ptr %ndim.at
  %steps.at = getelementptr i8, ptr %extents.at, i64 24
  %steps = load ptr, ptr %steps.at
  store ptr %steps, ptr %strides.at
  store i32 0, ptr %type.at
  br label %typed
typed:
  %xe.at = getelementptr i8, ptr %x, i64 %e
  %type = load ptr, ptr %xe.at
  %element = call i64 @element(ptr %type)
  store i64 %element, ptr %more.at
  %is.known = icmp ne i64 %element, -1
  ret i1 %is.known
dlpack:
  %function = inttoptr i64 %a to ptr
  %status = call i32 %function(ptr %x, ptr %to)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %clear, label %filled
clear:
  call void inttoptr (i64 {PyErr_Clear} to ptr)()
  ret i1 false
filled:
  %offset = load i64, ptr %more.at
  %first = load i64, ptr %data.at
  %data = add i64 %first, %offset
  store i64 %data, ptr %data.at
  %behind.at = getelementptr i8, ptr %x, i64 %c
  %behind = load ptr, ptr %behind.at
  %keys.at = getelementptr i8, ptr %behind, i64 %d
  %keys = load i64, ptr %keys.at
  store i64 %keys, ptr %more.at
  %strides = load ptr, ptr %strides.at
  %has.strides = icmp ne ptr %strides, null
  ret i1 %has.strides
}

; The current stream of the library of a row on a tensor's device, -1 on the CPU; -2 if nobody knows
define i64 @stream(ptr %row, ptr %tensor) {
  %out = alloca i64
  %kind.at = getelementptr %Tensor, ptr %tensor, i32 0, i32 1
  %kind = load i32, ptr %kind.at
  %device.at = getelementptr %Tensor, ptr %tensor, i32 0, i32 2
  %device = load i32, ptr %device.at
  switch i32 %kind, label %unknown [ i32 1, label %host i32 2, label %gpu ]
host:
  ret i64 -1
unknown:
  ret i64 -2
gpu:
  %reader.at = getelementptr i64, ptr %row, i64 1
  %reader = load i64, ptr %reader.at
  %is.cupy = icmp eq i64 %reader, 2
  br i1 %is.cupy, label %cupy, label %dlpack
cupy:
  %f.at = getelementptr i64, ptr %row, i64 7
  %f = load ptr, ptr %f.at
  %handle = call i64 %f(i32 %device)
  %raised = icmp eq i64 %handle, -1
  br i1 %raised, label %clear, label %given
given:
  ret i64 %handle
dlpack:
  %b.at = getelementptr i64, ptr %row, i64 3
  %b = load ptr, ptr %b.at
  %status = call i32 %b(i32 %kind, i32 %device, ptr %out)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %clear, label %found
found:
  %current = load i64, ptr %out
  ret i64 %current
clear:
  call void inttoptr (i64 {PyErr_Clear} to ptr)()
  ret i64 -2
}

define ptr @kdsl_state(ptr %self, ptr %given, i64 %count) {
entry:
  %head = call ptr inttoptr (i64 {PyLong_AsVoidPtr} to ptr)(ptr %self)
  %rows.at = getelementptr i64, ptr %head, i64 1
  %rows = load ptr, ptr %rows.at
  %before.at = getelementptr i64, ptr %head, i64 2
  %before = load i64, ptr %before.at
  %default = icmp ne i64 %before, 0
  %tensor = alloca %Tensor
  %most = mul i64 %count, {words}
  %all = add i64 %most, 1
  %words = alloca i64, i64 %all
  %begin = getelementptr i64, ptr %words, i64 1
  br i1 %default, label %check, label %next
check:
  %stream.given = load ptr, ptr %given
  %free = icmp eq ptr %stream.given, inttoptr (i64 {_Py_NoneStruct} to ptr)
  br i1 %free, label %next, label %missed
next:
  %number = phi i64 [0, %entry], [1, %check], [%number.next, %more]
  %to = phi ptr [%begin, %entry], [%begin, %check], [%to.next, %more]
  %library = phi i64 [0, %entry], [0, %check], [%library.next, %more]
  %handle = phi i64 [-2, %entry], [-2, %check], [%handle.next, %more]
  %mixed = phi i1 [false, %entry], [false, %check], [%mixed.next, %more]
  %left = icmp ult i64 %number, %count
  br i1 %left, label %one, label %finish
one:
  %x.at = getelementptr ptr, ptr %given, i64 %number
  %x = load ptr, ptr %x.at
  %class.at = getelementptr i8, ptr %x, i64 {class}
  %class = load i64, ptr %class.at
  br label %look
look:
  %row = phi ptr [%rows, %one], [%row.next, %other]
  %row.class = load i64, ptr %row
  %same = icmp eq i64 %row.class, %class
  br i1 %same, label %known, label %different
different:
  %is.last = icmp eq i64 %row.class, 0
  br i1 %is.last, label %missed, label %other
other:
  %row.next = getelementptr i64, ptr %row, i64 8
  br label %look
known:
  %good = call i1 @read(ptr %x, ptr %row, ptr %tensor)
  br i1 %good, label %filled, label %missed
filled:
  %ndim.at = getelementptr %Tensor, ptr %tensor, i32 0, i32 3
  %ndim = load i32, ptr %ndim.at
  %high = icmp ugt i32 %ndim, {dimensions}
  br i1 %high, label %missed, label %fits
fits:
  %reader.at = getelementptr i64, ptr %row, i64 1
  %reader = load i64, ptr %reader.at
  %is.ours = icmp eq i64 %reader, 0
  %is.first = icmp eq i64 %library, 0
  %mixed.next = or i1 %mixed, %is.ours
  br i1 %is.ours, label %write, label %foreign
foreign:
  br i1 %is.first, label %ask, label %again
ask:
  %current = call i64 @stream(ptr %row, ptr %tensor)
  %nobody = icmp eq i64 %current, -2
  br i1 %nobody, label %missed, label %write
again:
  %of.library = icmp eq i64 %library, %reader
  br i1 %of.library, label %write, label %missed
write:
  %library.next = phi i64 [%library, %fits], [%reader, %ask], [%reader, %again]
  %handle.next = phi i64 [%handle, %fits], [%current, %ask], [%handle, %again]
  store i64 %class, ptr %to
  %data = load i64, ptr %tensor
  %to.1 = getelementptr i64, ptr %to, i64 1
  store i64 %data, ptr %to.1
  %w2.at = getelementptr i64, ptr %tensor, i64 1
  %w2 = load i64, ptr %w2.at
  %to.2 = getelementptr i64, ptr %to, i64 2
  store i64 %w2, ptr %to.2
  %w3.at = getelementptr i64, ptr %tensor, i64 2
  %w3 = load i64, ptr %w3.at
  %to.3 = getelementptr i64, ptr %to, i64 3
  store i64 %w3, ptr %to.3
  %w4.at = getelementptr %Tensor, ptr %tensor, i32 0, i32 7
  %w4 = load i64, ptr %w4.at
  %to.4 = getelementptr i64, ptr %to, i64 4
  store i64 %w4, ptr %to.4
  %shape.at = getelementptr %Tensor, ptr %tensor, i32 0, i32 5
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr %Tensor, ptr %tensor, i32 0, i32 6
  %strides = load ptr, ptr %strides.at
  %rank = zext i32 %ndim to i64
  %to.5 = getelementptr i64, ptr %to, i64 5
  br label %axes
axes:
  %axis = phi i64 [0, %write], [%axis.next, %copy]
  %at = phi ptr [%to.5, %write], [%at.next, %copy]
  %is.axis = icmp ult i64 %axis, %rank
  br i1 %is.axis, label %copy, label %more
copy:
  %extent.at = getelementptr i64, ptr %shape, i64 %axis
  %extent = load i64, ptr %extent.at
  store i64 %extent, ptr %at
  %stride.at = getelementptr i64, ptr %strides, i64 %axis
  %stride = load i64, ptr %stride.at
  %at.1 = getelementptr i64, ptr %at, i64 1
  store i64 %stride, ptr %at.1
  %at.next = getelementptr i64, ptr %at, i64 2
  %axis.next = add i64 %axis, 1
  br label %axes
more:
  %to.next = phi ptr [%at, %axes]
  %number.next = add i64 %number, 1
  br label %next
finish:
  %nothing = icmp eq i64 %library, 0
  br i1 %nothing, label %missed, label %order
order:
  %is.other = icmp sgt i64 %handle, 1
  %two = and i1 %mixed, %is.other
  %has.to.wait = and i1 %default, %two
  br i1 %has.to.wait, label %missed, label %give
give:
  store i64 %handle, ptr %words
  %from = ptrtoint ptr %words to i64
  %until = ptrtoint ptr %to to i64
  %size = sub i64 %until, %from
  %bytes = call ptr inttoptr (i64 {PyBytes_FromStringAndSize} to ptr)(ptr %words, i64 %size)
  ret ptr %bytes
missed:
  %callable = load ptr, ptr %head
  %result = call ptr inttoptr (i64 {PyObject_Vectorcall} to ptr)(ptr %callable, ptr %given, i64 %count, ptr null)
  ret ptr %result
}
"""


class Table:
    """The classes that are known, and functions that read arrays of them."""

    def __init__(self) -> None:
        head = object.__basicsize__  # what all objects have, whose last word is the class
        source = _SOURCE.replace("{class}", str(head - 8)).replace("{element}", str(head + 8))
        source = source.replace("{dimensions}", str(MOST_DIMENSIONS)).replace("{words}", str(_WORDS))
        self._builtin = Builtin(source, "kdsl_state", POSITIONAL)
        self._rows = (ctypes.c_char * ((_MOST_ROWS + 1) * _ROW.size))()
        self._classes: list[type] = []
        self._kept: list[object] = []

    def reader(self, missed: Callable[..., Any], *, default: bool) -> Callable[..., Any]:
        """The function from arrays of one library, and some of ours, to bytes that are the same only for what decides the same checks. The first 8 are the
        library's current stream as the driver numbers it, -1 on the CPU. If `default`, None comes before the arrays, and they are read only if the launch
        can run on the device's default stream, or all of it on the library's.

        What `missed` gives for the same arguments is given where an array cannot be read.
        """
        head = ctypes.create_string_buffer(_HEAD.pack(id(missed), ctypes.addressof(self._rows), default))
        self._kept += [missed, head]
        return self._builtin(ctypes.addressof(head))

    def learn(self, kind: type, find: Callable[[type], Layout | None]) -> bool:
        """Read arrays of a class from now on, if that is possible; whether this is new."""
        if kind in self._classes or len(self._classes) == _MOST_ROWS:
            return False
        layout = find(kind)
        if layout is None:
            return False
        at = len(self._classes) * _ROW.size
        self._classes.append(kind)  # which keeps it: another class may not take its place in memory
        _ROW.pack_into(self._rows, at, id(kind), layout.reader, *layout.places, *[0] * (6 - len(layout.places)))
        return True
