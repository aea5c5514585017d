"""The lock that everything holds while it compiles, and that a fork waits for.

A child has only the thread that forked: a lock that another one held, LLVM's own included, would stay locked in it for ever, and its first launch hang.
One lock for all kernels costs nothing, since LLVM compiles one at a time.
"""

from __future__ import annotations

import os
import threading
from typing import Final

compiling: Final = threading.RLock()
"""Held while a kernel is compiled; reentrant, so that a signal handler may launch."""

os.register_at_fork(before=compiling.acquire, after_in_parent=compiling.release, after_in_child=compiling.release)
