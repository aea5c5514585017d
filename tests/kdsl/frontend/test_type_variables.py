"""Type variables in a body stand for the type that a launch, or a call, gives them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest
from text import define

import kdsl
from kdsl import SliceMut, f32, f64, function, i32, kernel, local_array, shared_array
from kdsl.testing import devices

T = TypeVar("T", f32, f64, i32)
U = TypeVar("U")


@function
def doubled(v: U) -> U:
    one: U = 1
    return U(2) * v + one


@kernel(grid=1, block=1)
def told(y: SliceMut[T]) -> None:
    few = local_array(2, T)
    few[0] = T(2.5)
    tile = shared_array(2, T)
    tile[0] = 4
    total: T = 0
    for _ in range(3):
        total += few[0] + tile[0]
    y[0] = total
    y[1] = 1 if T is i32 else 2
    y[2] = 1 if y.dtype == T else 2
    y[3] = doubled(y[0])


@pytest.mark.parametrize("device", devices(), ids=str)
@pytest.mark.parametrize(("of", "expected"), [(np.float32, [19.5, 2, 1, 40]), (np.float64, [19.5, 2, 1, 40]), (np.int32, [18, 1, 1, 37])])
def test_a_type_variable_is_its_type(device: Any, of: Any, expected: list[float]) -> None:
    y = device.array(np.zeros(4, of))
    told(y)
    np.testing.assert_array_equal(y.numpy(), np.array(expected, of))


def test_one_that_no_parameter_has_is_refused() -> None:
    made = define("from typing import TypeVar\nV = TypeVar('V')\n@kernel(grid=1)\ndef tested(y: SliceMut[f32]) -> None:\n    y[0] = V(3)\n")
    with pytest.raises(kdsl.KernelError, match="`V` is a type variable that no parameter here has") as caught:
        made["tested"].ir()
    assert "`x: Slice[V]`" in caught.value.hint
