"""The sanitizer for a part of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kdsl.runtime import sanitizer
from kdsl.runtime.sanitizer import Finding


@contextmanager
def sanitized(*, numbers: bool = False) -> Iterator[list[Finding]]:
    """Watch the kernels that are launched for the first time inside, on the CPU; the list holds behind it what was found in them.

    Arrays that were made before count as written. `numbers` also looks for NaNs and infinities.
    """
    found: list[Finding] = []
    before = sanitizer.session()
    sanitizer.stop()
    own = sanitizer.start(numbers=numbers)
    try:
        yield found
    finally:
        sanitizer.stop()
        found += own.take().findings
        if before is not None:
            sanitizer.resume(before)
