"""The kernels that copy matrices with rows and columns exchanged, on every device, against NumPy bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import f32
from staleynet.kernels.convert import Heads, turn, turn_heads, turn_small
from staleynet.ops import matmul_operands
from staleynet.ops.matmul_operands import Matrix, turned_copy


@pytest.fixture(params=kdsl.testing.devices(), ids=str)
def device(request: pytest.FixtureRequest) -> kdsl.Device:
    found: kdsl.Device = request.param
    return found


@pytest.mark.parametrize("make", [turn, turn_small])
@pytest.mark.parametrize("shape", [(1, 1, 4, 4), (2, 3, 72, 132), (1, 2, 132, 64), (1, 1, 68, 300)], ids=str)
def test_a_copy_is_the_transpose(device: kdsl.Device, shape: tuple[int, int, int, int], make: Callable[..., kdsl.Kernel]) -> None:
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    p, q, rows, columns = shape
    y = device.array(np.full((p, q, columns, rows), np.nan, np.float32))
    make(early=device.target == "sm_90")(y, device.array(x))
    np.testing.assert_array_equal(y.numpy().view(np.uint32), x.swapaxes(2, 3).view(np.uint32))


@pytest.mark.parametrize(("columns", "steps", "part"), [(64, 256, 128), (68, 300, 160), (132, 180, 128)])
def test_the_first_steps_of_parts_are_turned_and_rounded(device: kdsl.Device, columns: int, steps: int, part: int) -> None:
    """64 of each of two; what lies behind stays, and all counters are 0."""
    if device.target not in ("cpu", "sm_90"):
        pytest.skip("launches begin early")
    x = np.random.default_rng(2).standard_normal((1, 1, steps, columns), dtype=np.float32)
    y, progress = device.array(np.full((1, 1, columns, steps), np.nan, np.float32)), device.array(np.full(500, 7, np.uint32))
    turn_heads()(y, device.array(x), progress, Heads(part=part, head=64, blocks=2 * -(-columns // 64)))
    bits = x.view(np.uint32)[0, 0].T
    wanted = np.full((columns, steps), np.nan, np.float32)
    for first in (0, part):
        near = (bits[:, first : first + 64].astype(np.uint64) + 0xFFF + (bits[:, first : first + 64] >> 13 & 1)) & 0xFFFFE000
        wanted[:, first : first + 64] = near.astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(y.numpy()[0, 0].view(np.uint32), wanted.view(np.uint32))
    assert not progress.numpy().any()


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["large", "small"])
@pytest.mark.parametrize(("rows", "columns", "gap"), [(40, 24, 0), (40, 24, 4), (39, 24, 0), (40, 23, 1)])
def test_copies_of_operands(device: kdsl.Device, monkeypatch: pytest.MonkeyPatch, rows: int, columns: int, gap: int, small: int) -> None:
    """Also of those that have no whole vectors of four, which go another way."""
    monkeypatch.setattr(matmul_operands, "SMALL", small)
    x = np.random.default_rng(1).standard_normal((columns, rows + gap), dtype=np.float32)
    operand = Matrix(device.array(x.ravel()), (1, 1, rows, columns), (0, 0, 1, rows + gap))
    copy = turned_copy(operand)
    assert copy.in_rows
    assert copy.base.dtype == f32
    np.testing.assert_array_equal(copy.array.numpy()[0, 0], x[:, :rows].T)
