"""Which driver understands which PTX (PTX ISA, "Release history"): the toolkit that brought a version, and the first driver branch that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Release:
    """Where a PTX version came from."""

    toolkit: str
    """CUDA toolkit."""
    driver: int
    """First driver branch; any later one serves."""


RELEASES: Final[dict[tuple[int, int], Release]] = {
    (7, 0): Release("11.0", 450),
    (7, 1): Release("11.1", 455),
    (7, 2): Release("11.2", 460),
    (7, 3): Release("11.3", 465),
    (7, 4): Release("11.4", 470),
    (7, 5): Release("11.5", 495),
    (7, 6): Release("11.6", 510),
    (7, 7): Release("11.7", 515),
    (7, 8): Release("11.8", 520),
    (8, 0): Release("12.0", 525),
    (8, 1): Release("12.1", 530),
    (8, 2): Release("12.2", 535),
    (8, 3): Release("12.3", 545),
    (8, 4): Release("12.4", 550),
    (8, 5): Release("12.5", 555),
    (8, 6): Release("12.7", 565),
    (8, 7): Release("12.8", 570),
    (8, 8): Release("12.9", 575),
    (9, 0): Release("13.0", 580),
}
"""By PTX version."""
