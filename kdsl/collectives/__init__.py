"""Functions of several threads, written in the language itself, so that every target computes the same bits.

Reductions and prefix sums over a block (`BLOCK`) are right for every block size, also where the last warp is not full. All threads of the block must call them
together, as for `sync_threads()`, and none may have returned before. Where numbers of a fragment lie (`FRAGMENTS`) each lane asks for itself. What is not
here: reductions over a warp (`kdsl.lang.intrinsics`).
"""

from collections.abc import Callable
from typing import Any, Final

from kdsl.collectives.block import block_max, block_min, block_prefix_sum, block_sum
from kdsl.collectives.fragments import mma_a_column, mma_a_row, mma_b_column, mma_b_row, mma_column, mma_row
from kdsl.collectives.scans import block_exclusive_max, block_exclusive_min, block_exclusive_sum, block_prefix_max, block_prefix_min

BLOCK: Final[dict[str, Callable[..., Any]]] = {
    "block_sum": block_sum,
    "block_max": block_max,
    "block_min": block_min,
    "block_prefix_sum": block_prefix_sum,
    "block_prefix_max": block_prefix_max,
    "block_prefix_min": block_prefix_min,
    "block_exclusive_sum": block_exclusive_sum,
    "block_exclusive_max": block_exclusive_max,
    "block_exclusive_min": block_exclusive_min,
}
FRAGMENTS: Final[dict[str, Callable[..., Any]]] = {
    "mma_row": mma_row,
    "mma_column": mma_column,
    "mma_a_row": mma_a_row,
    "mma_a_column": mma_a_column,
    "mma_b_row": mma_b_row,
    "mma_b_column": mma_b_column,
}

__all__ = [
    "BLOCK",
    "FRAGMENTS",
    "block_exclusive_max",
    "block_exclusive_min",
    "block_exclusive_sum",
    "block_max",
    "block_min",
    "block_prefix_max",
    "block_prefix_min",
    "block_prefix_sum",
    "block_sum",
    "mma_a_column",
    "mma_a_row",
    "mma_b_column",
    "mma_b_row",
    "mma_column",
    "mma_row",
]
