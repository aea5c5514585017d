"""The kernels that copy matrices with rows and columns exchanged, on every device, against NumPy bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import f32
from staleynet.kernels.convert import turn, turn_small
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
