"""`ldmatrix` and `stmatrix` on every device, against what the PTX ISA says of each lane; rows that are outside, lanes that do not count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operands import Matrix, capability
from written import poison, written

import kdsl
from kdsl import (
    BoundsError,
    Slice,
    SliceMut,
    bf16,
    f32,
    function,
    i32,
    i64,
    kernel,
    lane_index,
    ldmatrix,
    shared_array,
    sync_threads,
    u32,
    unroll,
)
from kdsl.ir import nodes
from kdsl.lang.types import DTYPES, U32
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
TYPES = ("bf16", "f16", "i16", "u8", "i8", "f32", "u32")
CASES = [
    (of, count, transpose)
    for of in TYPES
    for count in (1, 2, 4)
    for transpose in (False, True)
    if not transpose or DTYPES[of].itemsize == 2
]
EVERY_CASE = pytest.mark.parametrize(("of", "count", "transpose"), CASES)


def in_lanes(rows: Matrix, transpose: bool) -> Matrix:
    """Registers of the 32 lanes (rows) for matrices (count x 8 rows of 16 bytes)."""
    if transpose:
        rows = np.ascontiguousarray(rows.view(np.uint16).swapaxes(1, 2)).view(rows.dtype)
    return np.stack([matrix.view(np.uint32).reshape(32) for matrix in rows], axis=1)


def random_rows(count: int, of: str, seed: int) -> tuple[Matrix, Matrix]:
    """64 rows of 16 bytes, and which of them each lane names: lanes that name none say something far outside."""
    random = np.random.default_rng(seed)
    array = np.frombuffer(random.bytes(64 * 16), np.uint8).view(DTYPES[of].numpy).reshape(64, -1)
    named = random.permutation(64)[:32].astype(np.int64)
    named[8 * count :] = 10**9
    return array, named


@DEVICES
@EVERY_CASE
def test_each_lane_gets_its_part_of_each_matrix(device: Any, of: str, count: int, transpose: bool) -> None:
    array, named = random_rows(count, of, count)
    width = array.shape[1]
    kernel = written(
        f"y: SliceMut[u32], x: Slice[{of}], named: Slice[i64]",
        f"""s = shared_array((64, {width}), {of})
t = lane_index()
for i in unroll({2 * width}):
    s[t * 2 + i // {width}, i % {width}] = x[t * {2 * width} + i]
sync_threads()
r = ldmatrix(s, (named[t], 0), {count}, {transpose})
for i in unroll({count}):
    y[t * {count} + i] = r[i]""",
    )
    y = device.array(poison(32 * count, U32))
    kernel(y, device.array(array.reshape(-1)), device.array(named))
    expected = in_lanes(np.stack([array[named[8 * i : 8 * i + 8]] for i in range(count)]), transpose)
    np.testing.assert_array_equal(y.numpy().reshape(32, count), expected)


@DEVICES
@EVERY_CASE
def test_stores_are_the_inverse(device: Any, of: str, count: int, transpose: bool) -> None:
    if capability(device) < 90:
        pytest.skip(f"{device} has no stmatrix")
    array, named = random_rows(count, of, count + 9)
    width = array.shape[1]
    registers = in_lanes(np.stack([array[8 * i : 8 * i + 8] for i in range(count)]), transpose)
    given = ", ".join(f"x[t * {count} + {i}]" for i in range(count))
    kernel = written(
        f"y: SliceMut[{of}], x: Slice[u32], named: Slice[i64]",
        f"""s = shared_array((64, {width}), {of})
t = lane_index()
for i in unroll({2 * width}):
    s[t * 2 + i // {width}, i % {width}] = 5
sync_threads()
stmatrix(s, (named[t], 0), ({given},), {transpose})
sync_threads()
for i in unroll({2 * width}):
    y[t * {2 * width} + i] = s[t * 2 + i // {width}, i % {width}]""",
    )
    y = device.array(poison(64 * width, DTYPES[of]))
    kernel(y, device.array(registers.reshape(-1)), device.array(named))
    expected = np.full((64, width), 5, array.dtype)
    expected[named[: 8 * count]] = array[: 8 * count]
    assert y.numpy().tobytes() == expected.tobytes()


# ------------------------------------------------------------------------------------------------------------------------------ checks


@kernel(grid=1, block=64)
def checked(y: SliceMut[u32], rows: Slice[i32], columns: Slice[i32]) -> None:
    """The first warp and the second, each with rows of its own, of an array that counts its words."""
    s = shared_array((32, 8), u32)
    t = kdsl.thread_idx.x
    for i in unroll(4):
        s[t // 2, t % 2 * 4 + i] = u32(t // 2 * 8 + t % 2 * 4 + i + 1)
    sync_threads()
    r = ldmatrix(s, (rows[t], columns[t]), 2)
    y[t * 2] = r[0]
    y[t * 2 + 1] = r[1]


@DEVICES
@pytest.mark.parametrize(
    ("row", "column", "message"),
    [
        (32, 0, "read outside array s: index 32 of dimension 0 is out of bounds for 32 elements"),
        (-1, 0, "read outside array s: index -1 of dimension 0"),
        (3, 8, "read outside array s: index 11 of dimension 1 is out of bounds for 8 elements"),
        (3, 2, "ldmatrix() of 16 bytes begins at a multiple of 4 elements of `s`"),
    ],
)
def test_a_row_that_is_outside_leaves_the_whole_warp_without(device: Any, row: int, column: int, message: str) -> None:
    rows, columns = np.arange(64, dtype=np.int32) % 16, np.zeros(64, np.int32)
    rows[48:] = 999  # lanes 16 to 31 of the second warp name no row of two matrices
    rows[5], columns[5] = row, column
    y = device.array(poison(128, U32))
    checked(y, device.array(rows), device.array(columns))
    with pytest.raises(BoundsError) as caught:
        device.synchronize()
    assert message in str(caught.value)
    assert caught.value.thread == (5, 0, 0)
    words = np.arange(1, 257, dtype=np.uint32).reshape(32, 8)
    good = in_lanes(np.stack([words[0:8, :4], words[8:16, :4]]), False)
    np.testing.assert_array_equal(y.numpy().reshape(2, 32, 2), [np.zeros_like(good), good])


@kernel(grid=1, block=32)
def storing(y: SliceMut[u32], by: i32) -> None:
    s = shared_array((16, 4), u32)
    t = lane_index()
    s[t // 2, t % 2] = u32(7)
    s[t // 2, t % 2 + 2] = u32(7)
    sync_threads()
    kdsl.stmatrix(s, (t % 8 + by, 0), (u32(t),))
    sync_threads()
    y[t] = s[t // 2, t % 2]


@DEVICES
def test_a_store_outside_is_left_out(device: Any) -> None:
    if capability(device) < 90:
        pytest.skip(f"{device} has no stmatrix")
    y = device.array(poison(32, U32))
    storing(y, 9)
    with pytest.raises(BoundsError, match=r"write outside array s: index 16 of dimension 0"):
        device.synchronize()
    np.testing.assert_array_equal(y.numpy(), 7)
    storing(y, 8)
    t = np.arange(32)
    np.testing.assert_array_equal(y.numpy(), np.where(t // 2 >= 8, (t // 2 - 8) * 4 + t % 2, 7))


@function
def rows_of(s: Slice[bf16], first: i64) -> tuple[u32, u32]:
    """Of an array that comes as a Slice."""
    return ldmatrix(s, (first + lane_index() % 8, 0), 2)


@kernel(grid=1, block=32)
def through_a_function(y: SliceMut[u32], n: i32) -> None:
    s = shared_array((8, 8), bf16)
    t = lane_index()
    s[t // 4, t % 4] = bf16(t)
    s[t // 4, t % 4 + 4] = bf16(2)
    sync_threads()
    total = (u32(0), u32(0))
    for _i in range(n):
        found = rows_of(s, 0)
        total = (total[0] + found[0], total[1] + found[1])
    y[t] = total[0] + total[1]


@DEVICES
def test_functions_and_loops(device: Any) -> None:
    y = device.array(poison(32, U32))
    through_a_function(y, 3)
    s = np.full((8, 8), 2, DTYPES["bf16"].numpy)
    s[:, :4] = np.arange(32).reshape(8, 4)
    np.testing.assert_array_equal(y.numpy(), s.view(np.uint32).reshape(32) * np.uint32(6))


@kernel(grid=1, block=32)
def in_swizzled_arrays(y: SliceMut[bf16], x: Slice[bf16]) -> None:
    """A tile of 16 x 64 through two arrays whose rows lie otherwise, transposed in parts of 16 x 16 on the way."""
    s, u = shared_array((3, 16, 64), bf16, swizzle=128), shared_array((2, 64, 32), bf16, swizzle=64)
    t = lane_index()
    for i in unroll(4):
        kdsl.copy_async(s, (2, t // 2, (t % 2 * 4 + i) * 8), x, t // 2 * 64 + (t % 2 * 4 + i) * 8, 8)
    kdsl.wait_all_copies()
    sync_threads()
    for part in unroll(4):
        r = ldmatrix(s, (2, t % 16, part * 16 + t // 16 * 8))
        kdsl.stmatrix(u, (1, part * 16 + t // 16 * 8 + t % 8, 16 + t // 8 % 2 * 8), r, transpose=True)
    sync_threads()
    for i in unroll(32):
        y[i * 32 + t] = u[1, (i * 32 + t) // 16, 16 + t % 16]


@DEVICES
def test_layouts_do_not_show(device: Any) -> None:
    if capability(device) < 90:
        pytest.skip(f"{device} has no stmatrix")
    x = np.arange(1024).astype(DTYPES["bf16"].numpy).reshape(16, 64)
    x[:, ::2] += 1
    y = device.array(np.full(1024, np.nan).astype(x.dtype))
    in_swizzled_arrays(y, device.array(x.reshape(-1)))
    np.testing.assert_array_equal(y.numpy().reshape(64, 16), x.T)


def test_what_is_proved_is_not_checked() -> None:
    @kernel(grid=1, block=128)
    def swizzled(y: SliceMut[f32], n: i32) -> None:
        s = shared_array((4, 64, 32), bf16)
        t = lane_index()
        s[t % 4, t, t] = bf16(1)
        sync_threads()
        total = u32(0)
        for step in range(n):
            row = kdsl.warp_index() // 2 * 32 + t % 16
            r = ldmatrix(s, (step % 4, row, (t // 16 ^ row // 2 % 4) * 8))
            total += r[0] + r[3]
        y[kdsl.thread_idx.x] = f32(total)

    assert not [op for op in nodes.walk(swizzled.ir().body) if isinstance(op, nodes.Assertion | nodes.Exchange)]
