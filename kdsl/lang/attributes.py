"""What a kernel asks of its launches beyond a grid of blocks: clusters, blocks that are all resident, an early start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PORTABLE_CLUSTER: Final = 8
"""Blocks of a cluster that every GPU with clusters takes (CUDA programming guide, "Thread Block Clusters")."""
MOST_BLOCKS_OF_CLUSTER: Final = 16
"""Blocks of a cluster at most, on GPUs that take so many: an H100 or H200 does (CUDA's tuning guide for Hopper, "Thread Block Clusters")."""


@dataclass(frozen=True)
class Attributes:
    """The attributes of a kernel."""

    cluster: tuple[int, int, int] | None = None
    """Blocks of a cluster along x, y and z, None without clusters."""
    cooperative: bool = False
    """Whether all blocks are resident at the same time, so that they can wait for each other."""
    programmatic: bool = False
    """Whether it may begin before what its stream holds has ended."""

    @property
    def cluster_size(self) -> int:
        """Blocks of a cluster, 1 without clusters."""
        x, y, z = self.cluster or (1, 1, 1)
        return x * y * z

    def __str__(self) -> str:
        words = [f"cluster {self.cluster}" if self.cluster else "", "cooperative" * self.cooperative, "programmatic" * self.programmatic]
        return ", ".join(word for word in words if word)


PLAIN: Final = Attributes()
"""Of a kernel that asks for nothing."""
