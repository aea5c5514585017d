"""What the arrays of a kernel may take, the same on every target: a kernel that is tested on a CPU also fits a GPU."""

from __future__ import annotations

from typing import Final

SHARED_BYTES: Final = 48 * 1024
"""Shared memory that a block can declare statically (CUDA programming guide, "Technical Specifications per Compute Capability")."""
LOCAL_BYTES: Final = 512 * 1024
"""Local memory of a thread (same table)."""
_ALIGNMENT: Final = 16


def footprint(size: int, itemsize: int) -> int:
    """Bytes that an array takes; each begins at a multiple of 16."""
    return -(-size * itemsize // _ALIGNMENT) * _ALIGNMENT
