"""A number that a kernel captured from a closure could change before a launch, and the launch went on with the old one. The sign of a captured zero
could change anywhere.
"""

import pytest

import kdsl
from kdsl import SliceMut, elements, f32, function, kernel, thread_index


def test_a_closure_that_changed_is_named() -> None:
    factor = 2.0

    @kernel(grid=elements("y"))
    def fill(y: SliceMut[f32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = factor

    y = kdsl.device("cpu").zeros(3, f32)
    fill(y)
    assert y.numpy().tolist() == [2.0, 2.0, 2.0]
    factor = 3.0
    with pytest.raises(kdsl.LaunchError, match=r"factor was 2\.0 .* is 3\.0 now"):
        fill(y)
    factor = 2.0
    fill(y)


def test_a_closure_of_a_called_function_counts_too() -> None:
    zero = 0.0

    @function
    def shifted(x: f32) -> f32:
        return x + zero

    @kernel(grid=elements("y"))
    def shift(y: SliceMut[f32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = shifted(y[i])

    y = kdsl.device("cpu").zeros(3, f32)
    shift(y)
    zero = -0.0
    with pytest.raises(kdsl.LaunchError, match="zero"):
        shift(y)
