"""What `cached` says of the caches of a GPU where elements of device memory are read and written plainly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOW: Final[dict[str, str]] = {
    "normal": "", "streaming": ".cs", "level2": ".cg",
    "evict_first": ".L1::evict_first", "evict_last": ".L1::evict_last", "no_allocate": ".L1::no_allocate",
}  # fmt: skip
"""The words, each with what PTX calls it (PTX ISA, "Cache Operators" and "Cache Eviction Priority Hints"). What is not here: `.lu`, which is `.cs` in device
memory, and `.cv` and `.wt`, which are for memory of the host: `atomic_load` and `atomic_store` with scope "system" serve there."""
PREFETCHES: Final = (0, 64, 128, 256)
"""Bytes that the level-2 cache may fetch along with what is read."""


@dataclass(frozen=True)
class CacheHint:
    """How an access treats the caches; it changes no result."""

    how: str
    """One of `HOW`."""
    prefetch: int = 0
    """One of `PREFETCHES`; 0 in an access that writes."""

    def __str__(self) -> str:
        return f"cached {self.how}" + (f", {self.prefetch} bytes at least" if self.prefetch else "")
