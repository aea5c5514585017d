"""Shared arrays in swizzled layouts: threads see nothing of them, on every target; and where elements lie is what the layout says."""

from __future__ import annotations

from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import pytest

from kdsl import (
    D2,
    Const,
    Slice,
    SliceMut,
    bf16,
    f32,
    i8,
    kernel,
    shared_address,
    shared_array,
    sync_threads,
    thread_index,
    u32,
    unroll,
)
from kdsl.lang import swizzle
from kdsl.testing import devices

T = TypeVar("T", f32, bf16, i8)
every_device = pytest.mark.parametrize("device", devices(), ids=str)
every_gpu = pytest.mark.parametrize("device", [d for d in devices() if d.target != "cpu"], ids=str)
SPANS = (32, 64, 128)


@kernel(grid=1, block=64)
def turned(x: Slice[T, D2], y: SliceMut[T, D2], ROWS: Const[int], WIDE: Const[int], SPAN: Const[int]) -> None:
    """y is x with rows and columns in reverse order, through a shared array of two pieces."""
    tile = shared_array((2, ROWS, WIDE), x.dtype, swizzle=SPAN)
    for i in range(thread_index(), ROWS * WIDE, 64):
        tile[0, i // WIDE, i % WIDE] = x[i // WIDE, i % WIDE]
        tile[1, i // WIDE, i % WIDE] = x[i // WIDE, i % WIDE]
    sync_threads()
    for i in range(thread_index(), ROWS * WIDE, 64):
        y[i // WIDE, i % WIDE] = tile[i % 2, ROWS - 1 - i // WIDE, WIDE - 1 - i % WIDE]


@every_device
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("of", [np.float32, ml_dtypes.bfloat16, np.int8], ids=lambda of: np.dtype(of).name)
@pytest.mark.parametrize("rows", [1, 8, 17])
def test_elements_are_where_they_were_put(device: Any, span: int, of: Any, rows: int) -> None:
    wide = span // np.dtype(of).itemsize
    x = np.random.default_rng(span).integers(-100, 100, (rows, wide)).astype(of)
    y = device.array(np.full((rows, wide), 77, of))
    turned(device.array(x), y, rows, wide, span)
    np.testing.assert_array_equal(y.numpy(), x[::-1, ::-1])


@kernel(grid=1, block=32)
def addresses(y: SliceMut[u32, D2], SPAN: Const[int]) -> None:
    """Bytes from the start of a swizzled array to each chunk of 16 bytes of its rows."""
    tile = shared_array((32, SPAN), i8, swizzle=SPAN)
    t = thread_index()
    for chunk in unroll(SPAN // 16):
        y[t, chunk] = shared_address(tile, (t, 16 * chunk)) - shared_address(tile, (0, 0))


@every_gpu
@pytest.mark.parametrize("span", SPANS)
def test_chunks_lie_where_the_layout_says(device: Any, span: int) -> None:
    y = device.array(np.zeros((32, span // 16), np.uint32))
    addresses(y, span)
    expected = [[swizzle.swizzled(span, row, byte) for byte in range(0, span, 16)] for row in range(32)]
    np.testing.assert_array_equal(y.numpy(), expected)


@pytest.mark.parametrize("span", SPANS)
def test_eight_rows_of_a_chunk_meet_no_bank_twice(span: int) -> None:
    for first in range(0, 16, 8):
        for byte in range(0, span, 16):
            lines = {swizzled % 128 // 16 for row in range(first, first + 8) for swizzled in [swizzle.swizzled(span, row, byte)]}
            assert len(lines) == 8


def test_each_place_is_taken_once() -> None:
    for span in SPANS:
        places = {swizzle.swizzled(span, row, byte) for row in range(16) for byte in range(span)}
        assert places == set(range(16 * span))
