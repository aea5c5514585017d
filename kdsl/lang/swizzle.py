"""Swizzled layouts of shared memory: how the rows of a tile lie, so that threads, copies by tensor maps and matrix products meet no bank conflicts.

A row is as long as the span (32, 64 or 128 bytes). Within it, the chunks of 16 bytes are exchanged: chunk c of row r lies at chunk
`c ^ (r // (128 // span) % (span // 16))`. The pattern repeats after 8 rows, so an array that is laid out so begins at a multiple of that many bytes.
That is what tensor maps write and what descriptors of matrices read (PTX ISA, "Tensor Swizzling Modes", "Shared Memory Matrix Layout").
"""

from __future__ import annotations

from typing import Final

SPANS: Final = (32, 64, 128)
"""Bytes of a row, by which the layouts are named."""
CHUNK: Final = 16
"""Bytes that stay together."""
ROWS: Final = 8
"""Rows after which the pattern repeats."""
_LINE: Final = 128
"""Bytes that shared memory gives at once: all its banks."""


def rows_per_line(span: int) -> int:
    """Rows that have the same exchange."""
    return _LINE // span


def chunks(span: int) -> int:
    """Chunks of a row, a power of two."""
    return span // CHUNK


def pattern_bytes(span: int) -> int:
    """Bytes after which the pattern repeats."""
    return ROWS * span


def swizzled(span: int, row: int, byte: int) -> int:
    """Where byte `byte` of row `row` lies, in bytes from the start of the array; `span` of 0 is no swizzle of rows of 16 bytes."""
    if not span:
        return row * CHUNK + byte
    return row * span + (byte ^ (row // rows_per_line(span) % chunks(span) * CHUNK))
