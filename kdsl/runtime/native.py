"""A few native instructions of the runtime's own, from LLVM IR: where Python would be too slow, or may not run."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any, Final

from kdsl.runtime.lock import compiling

NO_ARGUMENTS: Final = 0x4
"""Calling convention of a built-in function: `PyObject *f(PyObject *self, PyObject *nothing)` (`METH_NOARGS`)."""
POSITIONAL: Final = 0x80
"""Calling convention: `PyObject *f(PyObject *self, PyObject *const *arguments, Py_ssize_t count)` (`METH_FASTCALL`)."""


def native(source: str, entry: str) -> Any:
    """The function `entry` of a module of LLVM IR that calls nothing by name, compiled and loaded in some milliseconds: its `address`, as long as the object
    lives. `{PyLong_FromLong}` and the like stand for the addresses of functions and objects of Python's C interface, as decimal numbers."""
    import llvmlite.binding as llvm  # only where it is needed

    from kdsl.backend.cpu.compile import CpuObject
    from kdsl.backend.cpu.jit import load
    from kdsl.backend.llvm.module import initialise

    text = re.sub(r"{(_?Py\w+)}", lambda found: str(_address(found[1])), source)
    with compiling:
        initialise()
        module = llvm.parse_assembly(text)
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic", codemodel="small")
        return load(CpuObject(machine.emit_object(module), entry, 0))


def _address(name: str) -> int:
    return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))


class _Method(ctypes.Structure):
    """`PyMethodDef`: what Python knows of a built-in function, as long as there is one."""

    _fields_ = (("name", ctypes.c_char_p), ("address", ctypes.c_void_p), ("convention", ctypes.c_int), ("doc", ctypes.c_char_p))


_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(("PyCFunction_NewEx", ctypes.pythonapi))


class Builtin:
    """Built-in functions of Python of one native code: calling one takes a tenth of what a call through `ctypes` does. Never freed: they may outlive it."""

    def __init__(self, source: str, entry: str, convention: int) -> None:
        self._code = native(source, entry)
        self._method = _Method(entry.encode(), self._code.address, convention, None)
        _kept.append(self)

    def __call__(self, owner: object) -> Callable[..., Any]:
        """The function whose `self` is that object."""
        made: Callable[..., Any] = _new(ctypes.addressof(self._method), owner, None)
        return made


_kept: Final[list[Builtin]] = []
