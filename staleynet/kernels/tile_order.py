"""In which order the tiles of matrix products on a GPU are computed: some tiles down, then the next column of them, so that their rows of A and columns of B
stay in the level-2 cache.
"""

from typing import Any

from kdsl import block_idx, function, i64, struct, u32


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
def place_of(c: Any, rows: u32, columns: u32, group: u32, tile: u32) -> tuple[u32, u32, u32, u32]:
    """The same for a number of a tile of `rows` x `columns` elements of C."""
    across, down = u32((c.shape[3] + columns - 1) // columns), u32((c.shape[2] + rows - 1) // rows)
    return place(tile, down, across, u32(c.shape[1]), group)


@function
def place_of_block(c: Any, rows: u32, columns: u32, group: u32) -> tuple[u32, u32, u32, u32]:
    """The same for the tile of this block, where each has one."""
    return place_of(c, rows, columns, group, u32(block_idx.x))


@struct
class Order:
    """The tiles of a batch of matrices, for blocks that go from one to the next."""

    down: u32
    """Tiles of a matrix along its rows."""
    across: u32
    """Those along its columns."""
    heads: u32
    """Matrices along the second axis of the batch."""
    group: u32
    """Tiles down before the next column of them."""
    count: i64
    """All tiles."""


@function
def order_of(batch: i64, heads: i64, m: i64, n: i64, rows: u32, columns: u32, group: u32) -> Order:
    """The order of tiles of `rows` x `columns` of `batch` x `heads` matrices of m x n."""
    down, across = u32((m + rows - 1) // rows), u32((n + columns - 1) // columns)
    return Order(down, across, u32(heads), group, i64(across * down * u32(batch) * u32(heads)))


@function
def placed(order: Order, tile: i64) -> tuple[u32, u32, u32, u32]:
    """The matrix (two numbers) of a tile, and its row and column among those of that matrix."""
    return place(u32(tile), order.down, order.across, order.heads, order.group)
