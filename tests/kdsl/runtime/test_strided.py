"""`Array.strided`: the same memory with another shape and strides."""

from __future__ import annotations

import numpy as np
import pytest

import kdsl
from kdsl import f32


def test_it_is_a_view() -> None:
    device = kdsl.device("cpu")
    base = device.array(np.arange(24, dtype=np.float32))
    view = base.strided((2, 3, 2), (12, 2, 1), 4)
    expected = np.lib.stride_tricks.as_strided(np.arange(24, dtype=np.float32)[4:], (2, 3, 2), (48, 8, 4))
    np.testing.assert_array_equal(view.numpy(), expected)
    base.fill(5.0)
    assert (view.numpy() == 5).all()


def test_empty_extents_and_repeated_elements() -> None:
    base = kdsl.device("cpu").array(np.arange(3, dtype=np.float32))
    assert base.strided((0, 100), (100, 1)).size == 0
    assert base.strided((2, 3), (0, 1)).numpy().tolist() == [[0, 1, 2], [0, 1, 2]]
    assert base.strided(3, (-1,), 2).numpy().tolist() == [2, 1, 0]


def test_what_lies_outside_is_refused() -> None:
    base = kdsl.device("cpu").zeros(10, f32)
    for shape, strides, offset in (((3, 4), (4, 1), 0), ((11,), (1,), 0), ((5,), (1,), 6), ((3,), (-1,), 1)):
        with pytest.raises(ValueError, match="reaches elements"):
            base.strided(shape, strides, offset)
    with pytest.raises(ValueError, match="2 strides for 1 dimensions"):
        base.strided((3,), (1, 1))
    with pytest.raises(ValueError, match="not contiguous"):
        base.strided((5,), (2,)).strided((2,), (1,))
