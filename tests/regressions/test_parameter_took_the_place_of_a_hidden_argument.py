"""A parameter called like a hidden argument of every kernel (`kernel`, `grid_x`, `claim`, …) was read from that argument on the CPU: wrong numbers without
a word, and a failed check wrote to the address that such a parameter held.
"""

import numpy as np
import pytest

import kdsl
from kdsl import SliceMut, elements, f32, grid_dim, i64, kernel, thread_index


@kernel(grid=elements("y"))
def hidden_names(y: SliceMut[f32], claim: i64, record: i64, kernel: i64, grid_x: i64, grid_y: i64, grid_z: i64) -> None:
    i = thread_index()
    if i < 2:
        y[i] = f32(claim + 10 * record + 100 * kernel + 1000 * grid_x + 10000 * grid_y + 100000 * grid_z)
    else:
        y[2 * i] = f32(grid_dim.x)


def test_parameters_keep_their_values() -> None:
    device = kdsl.device("cpu")
    y = device.zeros(4, f32)
    hidden_names(y, 1, 2, 3, 4, 5, 6)
    with pytest.raises(kdsl.BoundsError, match="index 4"):
        device.synchronize()
    np.testing.assert_array_equal(y.numpy(), [654321, 654321, 0, 0])
