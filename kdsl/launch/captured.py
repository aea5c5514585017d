"""Whether what a kernel names from outside stands for what it stood for when the kernel was decorated. Every launch asks, in native code: a kernel may name
twenty helpers and constants, and Python takes 40 nanoseconds for each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final

from kdsl.runtime.native import NO_ARGUMENTS, Builtin

_SOURCE: Final = """
define ptr @kdsl_changed(ptr %self, ptr %nothing) {
entry:
  %count = call i64 inttoptr (i64 {PyTuple_Size} to ptr)(ptr %self)
  br label %next
next:
  %number = phi i64 [0, %entry], [%number.next, %compare]
  %left = icmp slt i64 %number, %count
  br i1 %left, label %one, label %end
one:
  %item = call ptr inttoptr (i64 {PyTuple_GetItem} to ptr)(ptr %self, i64 %number)
  %where = call ptr inttoptr (i64 {PyTuple_GetItem} to ptr)(ptr %item, i64 0)
  %name = call ptr inttoptr (i64 {PyTuple_GetItem} to ptr)(ptr %item, i64 1)
  %frozen = call ptr inttoptr (i64 {PyTuple_GetItem} to ptr)(ptr %item, i64 2)
  %is.cell = icmp eq ptr %name, inttoptr (i64 {_Py_NoneStruct} to ptr)
  br i1 %is.cell, label %cell, label %names
names:
  %named = call ptr inttoptr (i64 {PyDict_GetItemWithError} to ptr)(ptr %where, ptr %name)
  br label %compare
cell:
  %content = call ptr inttoptr (i64 {PyCell_Get} to ptr)(ptr %where)
  call void inttoptr (i64 {Py_DecRef} to ptr)(ptr %content)
  br label %compare
compare:
  %now = phi ptr [%named, %names], [%content, %cell]
  %same = icmp eq ptr %now, %frozen
  %number.next = add i64 %number, 1
  br i1 %same, label %next, label %end
end:
  %changed = phi i64 [0, %next], [1, %compare]
  %result = call ptr inttoptr (i64 {PyBool_FromLong} to ptr)(i64 %changed)
  ret ptr %result
}
"""


@functools.cache
def _builtin() -> Builtin:
    return Builtin(_SOURCE, "kdsl_changed", NO_ARGUMENTS)


def changed(captured: Iterable[tuple[tuple[Any, Any], Any]]) -> Callable[[], bool]:
    """The function that tells whether a name stands for another object than it did. `captured` holds pairs: where it lives (a dictionary and the name in it,
    or a cell and None), and what it stood for."""
    return _builtin()(tuple((*place, frozen) for place, frozen in captured))
