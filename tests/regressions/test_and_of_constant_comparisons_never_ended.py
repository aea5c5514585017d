"""The truth of `a and (constant comparison)` was noted as made of itself, and the search for what it proves did not end: "nested too deeply"."""

import numpy as np
import pytest

import kdsl
from kdsl import SliceMut, f32, i16, i32, kernel, local_array, thread_index


@kernel(grid=1, block=4)
def chain_of_constants(y: SliceMut[i32]) -> None:
    """The chain never holds."""
    i = thread_index()
    if y[i] > 1 and (f32("-inf") > i16(6) == i32(16)):
        y[i] = 100
    else:
        y[i] += 1


@kernel(grid=1, block=4)
def constant_index(y: SliceMut[i32]) -> None:
    """The index is a constant of a type, and so are both of its bounds."""
    i = thread_index()
    a = local_array(3, i32)
    for n in range(3):
        a[n] = i32(n)
    if y[i] > 1 and i16(2) in a:
        y[i] = 100
    else:
        y[i] += 1


@pytest.mark.parametrize(("tried", "expected"), [(chain_of_constants, [1, 2, 3, 4]), (constant_index, [1, 2, 100, 100])])
def test_the_program_compiles_and_runs(tried: kdsl.Kernel, expected: list[int]) -> None:
    device = kdsl.device("cpu")
    y = device.array(np.arange(4, dtype=np.int32))
    tried(y)
    assert y.numpy().tolist() == expected
