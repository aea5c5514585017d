"""What the contract says of single numbers, and indices such as `k % n`: what is proved, and what must not be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_checks import checked
from text import kernel_of

import kdsl
from kdsl import DisjointSlice, Slice, elements, f32, i32, kernel, thread_index
from kdsl.testing import devices

PARAMETERS = "y: SliceMut[f32], x: Slice[f32], z: Slice[f32, D2], n: i32, m: u32, k: i64"


def left(index: str, requires: str = "'len(y) >= 1'", body: str = "") -> list[str]:
    """The checks that are left of reading or writing at an index."""
    return checked(kernel_of(f"{body or 'v = 1.0'}\n{index}", PARAMETERS, f"grid=1, block=32, requires=({requires},)"))


@pytest.mark.parametrize(
    ("index", "requires"),
    [
        ("y[0] = x[k % len(x)]", "'len(y) >= 1', 'len(x) >= 1'"),
        ("y[0] = x[-k % len(x)]", "'len(y) >= 1', 'len(x) >= 1'"),
        ("y[0] = z[k % z.shape[0], (k * k) % z.shape[1]]", "'len(y) >= 1', 'z.shape[0] >= 2', '1 <= z.shape[1]'"),
        ("y[k % len(x)] = 1.0", "'len(y) >= len(x)', 'len(x) >= 1'"),
        ("y[n] = 1.0", "'0 <= n', 'n < 8', 'len(y) == 8'"),
        ("y[8 - m] = 1.0", "'m >= 1 and m <= 8', 'len(y) == 8'"),
        ("y[k % n] = 1.0", "'n > 0', '8 >= n', 'len(y) == 8'"),
        ("y[k % m] = 1.0", "'m >= 1', '8 >= m', 'len(y) == 8'"),
        ("y[k + 3] = 1.0", "'k >= -3', 'k <= 4', 'len(y) == 8'"),
    ],
)
def test_what_is_proved(index: str, requires: str) -> None:
    assert left(index, requires) == []


@pytest.mark.parametrize(
    ("index", "requires"),
    [
        ("y[0] = x[k % len(x)]", "'len(y) >= 1'"),  # without elements, k % 0 is 0
        ("y[0] = x[k % len(x)]", "'len(y) >= 1', 'len(x) >= 0'"),
        ("y[0] = x[k % len(x) + 1]", "'len(y) >= 1', 'len(x) >= 2'"),
        ("y[0] = x[k % len(y)]", "'len(y) >= 1'"),
        ("y[0] = x[k % len(y)]", "'len(y) >= 1', 'len(y) >= len(x)'"),
        ("y[0] = z[k % z.shape[1], 0]", "'len(y) >= 1', 'z.shape[0] >= 2', 'z.shape[1] >= 2'"),
        ("y[0] = x[k % n]", "'len(y) >= 1', 'len(x) >= 1', 'n >= 1'"),
        ("y[n] = 1.0", "'0 <= n', 'n <= 8', 'len(y) == 8'"),
        ("y[n] = 1.0", "'0 <= n or k == 0', 'n < 8', 'len(y) == 8'"),
        ("y[n] = 1.0", "'n < 8', 'len(y) == 8'"),
        ("y[k % n] = 1.0", "'n >= 0', '8 >= n', 'len(y) == 0'"),
        ("y[k % n] = 1.0", "'n >= -4', '8 >= n', 'len(y) == 8'"),  # by a negative number what is left is negative
        ("y[n + 1] = 1.0", "'n >= -1', 'n < 8', 'len(y) == 8'"),
    ],
)
def test_one_too_many(index: str, requires: str) -> None:
    assert left(index, requires) != []


@pytest.mark.parametrize(
    ("requires", "expected"), [("'n >= 1'", []), ("'n >= 0'", ["tile", "tile"]), ("'n >= 2 * k'", ["tile", "tile"]), ("'0 < n'", [])]
)
def test_a_stage_of_as_many_as_the_launch_says(requires: str, expected: list[str]) -> None:
    body = "tile = shared_array((n, 4), f32)\nfor s in range(k):\n    tile[s % n, s % 4] = 1.0\n    y[0] = tile[(s + 1) % n, 0]"
    assert checked(kernel_of(body, PARAMETERS, f"grid=1, block=32, requires=('len(y) >= 1', {requires})")) == expected


@pytest.mark.parametrize("requires", ["'n > 5', 'n < 3'", "'n > 5000000000'", "'m < 0'"])
def test_a_contract_that_no_launch_keeps_compiles(requires: str) -> None:
    left("y[n // 2 + m] = f32(n % 3)", f"'len(y) == 8', {requires}")


@kernel(grid=elements("y"), requires=("len(x) >= 1", "-2 <= shift", "shift <= 2"))
def rotated(y: DisjointSlice[f32], x: Slice[f32], shift: i32) -> None:
    """x from `shift` on, periodically."""
    i = thread_index()
    if i in y:
        y[i] = x[(i + shift) % len(x)]


@pytest.mark.parametrize("device", devices(), ids=str)
@pytest.mark.parametrize("shift", [-2, 0, 2])
def test_a_period(device: Any, shift: int) -> None:
    x = np.arange(7, dtype=np.float32)
    y = device.full(100, np.nan, f32)
    rotated(y, device.array(x), shift)
    np.testing.assert_array_equal(y.numpy(), x[(np.arange(100) + shift) % 7])
    with pytest.raises(kdsl.LaunchError):
        rotated(y, device.array(x), 3)
    with pytest.raises(kdsl.LaunchError):
        rotated(y, device.zeros(0, f32), 0)
    assert checked(rotated.ir()) == []
