"""A kernel of which nothing is left (`pass`, or a body that the compiler sees not to run) ended with a ValueError inside the CPU target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import Const, DisjointSlice, Slice, elements, f32, kernel, thread_index
from kdsl.testing import devices
from kdsl.testing.ptx import assemble


@kernel(grid=elements("y"))
def nothing(y: DisjointSlice[f32]) -> None:
    pass


@kernel(grid=elements("y"))
def switched_off(x: Slice[f32], y: DisjointSlice[f32], ON: Const[bool]) -> None:
    """A debugging aid that is off in most launches."""
    if ON:
        i = thread_index()
        if i in y:
            y[i] = x[i]


@kernel(grid=elements("y"))
def never(x: Slice[f32], y: DisjointSlice[f32]) -> None:
    i = thread_index()
    if i in y and x is None:
        y[i] = 1.0


@pytest.mark.parametrize("device", devices(), ids=str)
@pytest.mark.parametrize("checked", [False, True])
def test_nothing_is_done(device: Any, checked: bool) -> None:
    kdsl.checked(checked)
    try:
        x, y = device.full(40, 1.0, f32), device.full(40, 7.0, f32)
        nothing(y)
        switched_off(x, y, False)
        never(x, y)
        device.synchronize()
        np.testing.assert_array_equal(y.numpy(), 7)
        switched_off(x, y, True)
        np.testing.assert_array_equal(y.numpy(), 1)
    finally:
        kdsl.checked(False)


@pytest.mark.parametrize("of", [nothing, never], ids=lambda of: of.name)
def test_it_assembles(of: Any) -> None:
    assemble(of.ptx("sm_90"), "sm_90")
