"""The kernel that adds parts along k, on every device, against NumPy bit for bit: numbers lie as a warpgroup's products leave them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import bf16, f16, f32
from staleynet.kernels.matmul_hopper import Work
from staleynet.kernels.matmul_parts import GROUP, NUMBERS, Schedule, sum_of_parts


@pytest.fixture(params=kdsl.testing.devices(), ids=str)
def device(request: pytest.FixtureRequest) -> kdsl.Device:
    found: kdsl.Device = request.param
    return found


def places(schedule: Schedule, m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of every number of (tile, slot, number): tiles go down, eight of them at a time, and sum i of a thread of `wgmma` stands in row
    16 warp + lane // 4 + 8 (i // 2 % 2) and column 8 (i // 4) + 2 (lane % 4) + i % 2 of the 64 rows of its warpgroup (PTX ISA, wgmma)."""
    down, across = -(-m // schedule.rows), -(-n // schedule.columns)
    tile, slot, number = np.meshgrid(np.arange(down * across), np.arange(schedule.slots), np.arange(NUMBERS), indexing="ij")
    thread, i = number // 4, number % 4
    assert down <= GROUP
    fours = schedule.columns // 8
    row = tile % down * schedule.rows + slot // fours * 64 + thread // 32 * 16 + thread % 32 // 4 + 8 * (i // 2)
    column = tile // down * schedule.columns + slot % fours * 8 + 2 * (thread % 4) + i % 2
    return row, column


@pytest.mark.parametrize(
    ("result", "shape", "rows", "parts", "accumulate"),
    [(bf16, (200, 150), 128, 5, False), (f32, (70, 33), 64, 16, True), (f16, (64, 129), 64, 2, True), (bf16, (1, 1), 128, 3, False)],
    ids=str,
)
def test_the_bits_are_those_of_numpy(
    device: kdsl.Device, result: Any, shape: tuple[int, int], rows: int, parts: int, accumulate: bool
) -> None:
    m, n = shape
    random = np.random.default_rng(parts)
    schedule = Schedule(rows, 128, 4)
    row, column = places(schedule, m, n)
    inside = (row < m) & (column < n)
    sums = random.standard_normal((parts, *row.shape)).astype(np.float32)
    sums[:, ~inside] = np.nan
    before = random.standard_normal(shape).astype(result.numpy)
    c = device.array((before if accumulate else np.full(shape, np.nan, result.numpy)).ravel())
    bias = random.standard_normal(n).astype(np.float32)
    kernel = sum_of_parts(result, schedule, parts, bias=not accumulate, pairs=n % 2 == 0)
    work = Work(blocks=1, alpha=0.75, accumulate=int(accumulate))
    kernel(c.reshape(1, 1, m, n), device.array(sums), device.array(bias), work)
    total = sums[0]
    for part in sums[1:]:
        total = total + part
    expected = np.full(shape, np.nan, np.float32)
    expected[row[inside], column[inside]] = np.float32(0.75) * total[inside]
    expected = (expected + before.astype(np.float32) if accumulate else expected + bias).astype(result.numpy)
    np.testing.assert_array_equal(c.numpy().reshape(shape).view(np.uint8), expected.view(np.uint8))
