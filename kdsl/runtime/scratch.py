"""Scratch memory of the threads that run a kernel's blocks."""

from __future__ import annotations

import threading
from typing import Final

import numpy as np

from kdsl.lang.limits import LARGEST_ALIGNMENT


class _Scratch(threading.local):
    """Scratch memory of one thread, grown when a kernel needs more."""

    def __init__(self) -> None:
        self.size = -1
        self.address = 0
        self.memory = np.empty(0, np.uint8)

    def reserve(self, nbytes: int) -> int:
        """The address of at least `nbytes` bytes."""
        if self.size < nbytes:
            self.memory = np.empty(nbytes + LARGEST_ALIGNMENT, np.uint8)
            self.address = self.memory.ctypes.data + -self.memory.ctypes.data % LARGEST_ALIGNMENT
            self.size = nbytes
        return self.address


scratch: Final = _Scratch()
