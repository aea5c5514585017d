"""Reductions and prefix sums over a block, written in the language itself, so that every target computes the same bits.

They are right for every block size, also where the last warp is not full. All threads of the block must call them together, as for `sync_threads()`, and
none may have returned before. What is not here: the same over a warp (`kdsl.lang.intrinsics`).
"""

from kdsl.collectives.block import block_max, block_min, block_prefix_sum, block_sum

__all__ = ["block_max", "block_min", "block_prefix_sum", "block_sum"]
