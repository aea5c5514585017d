"""In which order the tiles of matrix products on a GPU are computed: some tiles down, then the next column of them, so that their rows of A and columns of B
stay in the level-2 cache.
"""

from typing import Any

from kdsl import block_idx, function, u32


@function
def place(tile: u32, down: u32, across: u32, heads: u32, group: u32) -> tuple[u32, u32, u32, u32]:
    """The matrix (two numbers) of a tile, and its row and column among the `down` x `across` of that matrix, `group` tiles down at a time."""
    matrix = tile // (down * across)
    among = tile - matrix * (down * across)
    first = among // (group * across) * group
    height = min(down - first, group)
    inside = among - first * across
    row, column = first + inside % height, inside // height
    p = matrix // heads
    return p, matrix - p * heads, row, column


@function
def place_of_block(c: Any, rows: u32, columns: u32, group: u32) -> tuple[u32, u32, u32, u32]:
    """The same for the tile of this block, where each has one of `rows` x `columns` elements of C."""
    across, down = u32((c.shape[3] + columns - 1) // columns), u32((c.shape[2] + rows - 1) // rows)
    return place(u32(block_idx.x), down, across, u32(c.shape[1]), group)
