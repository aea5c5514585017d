"""What the arrays of a kernel may take, the same on every target: a kernel that is tested on a CPU also fits a GPU."""

from __future__ import annotations

from typing import Final

STATIC_SHARED_BYTES: Final = 48 * 1024
"""Shared memory that a block can declare statically; what takes more lies in dynamic shared memory (CUDA programming guide, "Shared Memory")."""
SHARED_BYTES: Final = 227 * 1024
"""Shared memory that a block can have on the GPU that has most (CUDA programming guide, "Technical Specifications per Compute Capability"). Each target has
its own limit below it (`kdsl.backend.nvptx.occupancy`)."""
CONSTANT_BYTES: Final = 64 * 1024
"""Constant memory of a module (same table)."""
LOCAL_BYTES: Final = 512 * 1024
"""Local memory of a thread (same table)."""
ALIGNMENT: Final = 16
"""Bytes at a multiple of which an array begins: the widest access of a thread."""
LARGEST_ALIGNMENT: Final = 1024
"""Most that an array can ask for: what copies by tensor maps and descriptors of matrices want (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions")."""


def footprint(size: int, itemsize: int) -> int:
    """Bytes that an array takes; each begins at a multiple of 16."""
    return -(-size * itemsize // ALIGNMENT) * ALIGNMENT
