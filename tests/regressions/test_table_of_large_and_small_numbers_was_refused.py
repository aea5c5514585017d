"""`constant_array([1, 2**63], u64)` was refused: of whole numbers below and above 2**63 NumPy makes floats. Found by the fuzzer."""

import numpy as np
import pytest

import kdsl
from kdsl import DisjointSlice, constant_array, elements, kernel, thread_index, u64

NUMBERS = [[1, 2**63], [2**64 - 1, 0], [2**53 + 1, 2**63 + 1]]
TABLE = constant_array(NUMBERS, u64)


@kernel(grid=elements("y"))
def read(y: DisjointSlice[u64]) -> None:
    """Copy the table."""
    i = thread_index()
    if i in y:
        y[i] = TABLE[i // 2, i % 2]


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_its_numbers_are_exact(device: kdsl.Device) -> None:
    y = device.zeros(6, u64)
    read(y)
    np.testing.assert_array_equal(y.numpy(), np.array(NUMBERS, np.uint64).ravel())


def test_floats_are_refused_all_the_same() -> None:
    for wrong in ([1, 2.0], [2**63, 0.5]):
        with pytest.raises(TypeError, match="a whole number"):
            constant_array(wrong, u64)
    with pytest.raises(OverflowError):
        constant_array([1, 2**64], u64)
