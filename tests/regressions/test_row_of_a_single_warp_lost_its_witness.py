"""In small blocks two of `thread_index()`, `block_index()`, `row_index()` are one value, which was a witness of the kind that was named last.

So an access was refused ("not unique", "two kinds") because another of these functions stood above it.
"""

import numpy as np

import kdsl
from kdsl import DisjointSlice, block_idx, block_index, f32, i64, is_first_lane, kernel, row_index, thread_index


@kernel(grid=3, block=32)
def rows_and_blocks(y: DisjointSlice[i64], z: DisjointSlice[f32]) -> None:
    """Both indices, in this order."""
    block = block_index()
    if is_first_lane():
        y[row_index()] = block + 1
        z[row_index()] = 0.5


@kernel(grid=3, block=32)
def rows_before_blocks(y: DisjointSlice[i64]) -> None:
    """The other order: the index was one kind of witness first, and another later."""
    if is_first_lane():
        y[row_index()] = 1
        y[row_index()] += block_index()
        y[row_index()] += 1


@kernel(grid=3, block=1)
def one_thread(y: DisjointSlice[i64]) -> None:
    """A block is a thread."""
    i = thread_index()
    y[i] = block_index() + block_idx.x
    y[i] += 1


def test_either_guard_serves() -> None:
    device = kdsl.device("cpu")
    y, z = device.zeros(3, i64), device.zeros(3, f32)
    rows_and_blocks(y, z)
    assert y.numpy().tolist() == [1, 2, 3]
    np.testing.assert_array_equal(z.numpy(), np.full(3, 0.5, np.float32))
    rows_before_blocks(y)
    assert y.numpy().tolist() == [2, 3, 4]
    one_thread(y)
    assert y.numpy().tolist() == [1, 3, 5]
