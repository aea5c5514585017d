"""The product by `mma` in blocks that go from tile to tile: fewer blocks than tiles, tiles with fewer stages than the ring, all ways in which results leave."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import bf16, f32
from staleynet.kernels import matmul_mma
from staleynet.kernels.matmul_hopper import Work
from staleynet.kernels.matmul_mma import Schedule

SMALL = Schedule(32, 16, 64, 2, 1, 1)
WIDE = Schedule(64, 96, 64, 3, 2, 2)
"""Columns of a warp that are no power of two, and with k across pieces of 32 columns."""
NUMPY: dict[Any, Any] = {f32: np.dtype(np.float32), bf16: np.dtype(ml_dtypes.bfloat16)}


@pytest.fixture(params=kdsl.testing.devices(), ids=str)
def device(request: pytest.FixtureRequest) -> kdsl.Device:
    found: kdsl.Device = request.param
    return found


def placed(device: kdsl.Device, x: np.ndarray) -> Any:
    """The matrices with rows that begin at multiples of 16 bytes."""
    *outer, columns = x.shape
    room = np.full((*outer, -(-columns // 8) * 8), np.nan, x.dtype)
    room[..., :columns] = x
    return device.array(room)[:, :, :, :columns]


def check(
    device: kdsl.Device, schedule: Schedule, size: tuple[int, int, int], *, blocks: int, each: int, result: Any = bf16,
    across: tuple[bool, bool] = (False, False), matrices: int = 1, accumulate: int = 0, edges: bool = True,
) -> None:  # fmt: skip
    m, n, k = size
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((matrices, 1, *shape)).astype(NUMPY[bf16]) for shape in ((m, k), (k, n)))
    before = random.standard_normal((matrices, 1, m, n)).astype(NUMPY[result])
    c = placed(device, before if accumulate else np.full_like(before, np.nan))
    kernel = matmul_mma.product(
        bf16, result, schedule, a_across=across[0], b_across=across[1], each=each, edges=edges, batch=matrices > 1,
    )  # fmt: skip
    left, right = placed(device, a.swapaxes(2, 3) if across[0] else a), placed(device, b if across[1] else b.swapaxes(2, 3))
    kernel(c, left, right, Work(blocks=blocks, alpha=0.5, accumulate=accumulate))
    x, y, old = (z.astype(np.float64) for z in (a, b, before))
    exact = 0.5 * (x @ y) + accumulate * old
    scale = 0.5 * (np.abs(x) @ np.abs(y)) + np.abs(old)
    allowed = 3e-6 * scale + (2.0**-8 * np.abs(exact) if result is bf16 else 0.0)
    got = c.numpy().astype(np.float64)
    assert np.all(np.abs(got - exact) <= allowed)  # fails for a NaN


@pytest.mark.parametrize("across", list(itertools.product((False, True), repeat=2)), ids=str)
def test_fewer_blocks_than_tiles(device: kdsl.Device, across: tuple[bool, bool]) -> None:
    check(device, SMALL, (64, 32, 96), blocks=3, each=8, across=across, edges=False)
    check(device, SMALL, (70, 50, 72), blocks=3, each=1, across=across)
    check(device, WIDE, (130, 200, 136), blocks=2, each=8, across=across)


@pytest.mark.parametrize("depth", [8, 32, 40], ids=str)
def test_tiles_with_fewer_stages_than_the_ring(device: kdsl.Device, depth: int) -> None:
    """Copies for several tiles are under way at the same time."""
    check(device, Schedule(32, 16, 64, 4, 1, 1), (160, 32, depth), blocks=1, each=2, matrices=2)
    check(device, Schedule(32, 16, 64, 4, 1, 1), (160, 32, depth), blocks=3, each=2)


@pytest.mark.parametrize("accumulate", [0, 1])
@pytest.mark.parametrize(
    ("result", "each", "columns"), [(bf16, 8, 200), (bf16, 2, 198), (bf16, 1, 197), (f32, 4, 200), (f32, 2, 198), (f32, 1, 197)], ids=str
)
def test_all_ways_in_which_results_leave(device: kdsl.Device, result: Any, each: int, columns: int, accumulate: int) -> None:
    check(device, WIDE, (130, columns, 40), blocks=4, each=each, result=result, matrices=2, accumulate=accumulate)
