"""A kernel whose body is `pass` was not compiled for the CPU: the widest of its no statements was asked for."""

from __future__ import annotations

from typing import Any

import pytest

import kdsl.testing
from kdsl import Slice, f32, kernel


@kernel(grid=1, block=32)
def nothing() -> None:
    """Do nothing."""


@kernel(grid=1, block=32)
def nothing_with(x: Slice[f32]) -> None:
    """Do nothing with an array."""


@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_kernels_that_do_nothing(device: Any) -> None:
    x = device.zeros(3, f32)
    for _ in range(3):
        nothing.on(device.stream())()
        nothing_with(x)
    device.synchronize()
    assert (x.numpy() == 0).all()
