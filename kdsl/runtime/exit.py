"""The end of the program: a failed check that no synchronisation has reported is reported then, and the exit status is 1.

An exception in an `atexit` function does not change the exit status, and leaving at once (`os._exit`) would skip what others have registered. So the message is
printed in `atexit`, and the status is set by C's own exit handler, which runs when Python is done.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
from collections.abc import Callable

_reporters: list[Callable[[], Exception | None]] = []


def at_exit(reporter: Callable[[], Exception | None]) -> None:
    """Ask `reporter` at the end of the program for a failure that nobody has seen."""
    _reporters.append(reporter)


def _report() -> None:
    failed = False
    for reporter in _reporters:
        error = reporter()
        if error is not None:
            failed = True
            kind = type(error)
            print(f"{kind.__module__}.{kind.__qualname__}: {error}\n(found at the end of the program)", file=sys.stderr, flush=True)
    if failed:
        _exit_with_failure()


def _exit_with_failure() -> None:
    """Let the process end with status 1, after all other clean-up of Python.

    `__cxa_atexit(function, argument, module)` (Itanium C++ ABI, 3.3.6.3) calls `function(argument)` when the process exits, last registered first:
    so C's output buffers are flushed, then `_exit(1)` ends the process. Where the C library lacks it the message has to do.
    """
    library = ctypes.CDLL(None)
    register = getattr(library, "__cxa_atexit", None)
    if register is None:
        return
    register.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    register.restype = ctypes.c_int
    register(ctypes.cast(library._exit, ctypes.c_void_p), 1, None)
    register(ctypes.cast(library.fflush, ctypes.c_void_p), None, None)


atexit.register(_report)
