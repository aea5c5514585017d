"""In a block of one warp `row_index()` is the number of the block; once `block_index()` was used as well, `if is_first_lane():` no longer made it a witness."""

import numpy as np

import kdsl
from kdsl import DisjointSlice, block_index, f32, i64, is_first_lane, kernel, row_index


@kernel(grid=3, block=32)
def rows_and_blocks(y: DisjointSlice[i64], z: DisjointSlice[f32]) -> None:
    """Both indices, in this order."""
    block = block_index()
    if is_first_lane():
        y[row_index()] = block + 1
        z[row_index()] = 0.5


def test_either_guard_serves() -> None:
    device = kdsl.device("cpu")
    y, z = device.zeros(3, i64), device.zeros(3, f32)
    rows_and_blocks(y, z)
    assert y.numpy().tolist() == [1, 2, 3]
    np.testing.assert_array_equal(z.numpy(), np.full(3, 0.5, np.float32))
