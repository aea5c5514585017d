"""What kernels have printed: taken from the device at a synchronisation, put into words, and written to the standard output of Python.

The numbers lie in a buffer of the device (`kdsl.ir.abi`); which text belongs to them stands with the checks of the kernel, under the number of the line.
Lines of a thread come in its order, those of different threads in the order of their arrival.
"""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from kdsl.ir.abi import PRINT_BYTES
from kdsl.ir.nodes import Site
from kdsl.lang.types import DType


class Output:
    """The output of the kernels of one device."""

    def __init__(self, take: Callable[[], tuple[bytes, int]], find: Callable[[int, int], Site | None]) -> None:
        """`take` waits for the device and empties its buffer: what is there, and how many bytes threads have asked for. `find` gives the site
        of a kernel's number and a line's number."""
        self._take = take
        self._find = find
        self._expected = False
        self._lock = threading.Lock()

    def expect(self) -> None:
        """A kernel that prints is about to run: from now on every synchronisation looks."""
        self._expected = True

    def flush(self) -> None:
        """Write what has been printed since the last time."""
        if not self._expected:
            return
        with self._lock:
            data, wanted = self._take()
        if wanted:
            sys.stdout.write("".join(_lines(data, wanted, self._find)))


def _lines(data: bytes, wanted: int, find: Callable[[int, int], Site | None]) -> list[str]:
    texts, at = [], 0
    while at + 8 <= len(data):
        kernel, number = struct.unpack_from("<II", data, at)
        site = find(kernel, number)
        if site is None:  # the line did not fit, or an unknown kernel's words: nothing can be read behind it
            break
        size = 8 + 8 * sum(not isinstance(part, str) for part in site.format)
        if at + size > len(data):
            break
        texts.append(_text(site, data, at + 8))
        at += size
    if wanted > at:
        texts.append(f"(kernels printed {wanted - at:,} bytes more than the {PRINT_BYTES:,} that are kept between two synchronisations)\n")
    return texts


def _text(site: Site, data: bytes, at: int) -> str:
    parts = []
    for part in site.format:
        if isinstance(part, str):
            parts.append(part)
            continue
        of, spec = part
        value = _number(of, data[at : at + 8])
        parts.append(format((float if of.is_float else int)(value), spec) if spec else str(value))
        at += 8
    return "".join(parts)


def _number(of: DType, word: bytes) -> Any:
    """A number as Python prints it: of floats the shortest text that means the same number of the type."""
    if of.is_bool:
        return bool(word[0])
    return np.frombuffer(word[: of.itemsize], of.numpy)[0]
