"""Asynchronous copies on every device: what arrives, what becomes 0, what is left out and recorded, what a launch refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from written import numbers, poison, written

import kdsl
from kdsl import (
    D2,
    BoundsError,
    LaunchError,
    Slice,
    SliceMut,
    bf16,
    commit_copies,
    copy_async,
    elements,
    f32,
    function,
    i32,
    kernel,
    shared_array,
    sync_threads,
    thread_idx,
    u8,
    u32,
    unroll,
    wait_all_copies,
    wait_copies,
)
from kdsl.ir import nodes
from kdsl.lang.types import DTYPES, F32, DType
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
SIZES = [(of, size) for of in DTYPES.values() for size in (4, 8, 16) if size >= of.itemsize]


def values(count: int, of: DType, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 2, count).astype(np.bool_) if of.is_bool else numbers(count, of, seed)


@DEVICES
@pytest.mark.parametrize(("of", "size"), SIZES, ids=lambda v: str(v))
def test_every_type_in_every_size(device: Any, of: DType, size: int) -> None:
    """40 threads copy their chunks to places in another order, read through a barrier by other threads."""
    count = size // of.itemsize
    element = of.name
    tested = written(
        f"x: Slice[{element}], y: SliceMut[{element}]",
        f"""s = shared_array((40, {count}), {element})
t = thread_idx.x
copy_async(s, (t * 7 % 40, 0), x, t * {count}, {count})
commit_copies()
wait_copies(0)
sync_threads()
for i in unroll({count}):
    y[t * {count} + i] = s[(t + 3) % 40, i]""",
        40,
    )
    x = values(40 * count, of, size)
    y = device.array(poison(40 * count, of) if not of.is_bool else np.zeros(40 * count, np.bool_))
    tested(device.array(x), y)
    rows = np.empty_like(x).reshape(40, count)
    rows[np.arange(40) * 7 % 40] = x.reshape(40, count)
    assert y.numpy().tobytes() == np.roll(rows, -3, axis=0).tobytes()


@DEVICES
@pytest.mark.parametrize(("of", "count"), [("f32", 1), ("f32", 4), ("bf16", 8), ("u8", 16), ("f64", 2), ("i16", 2)])
def test_elements_from_valid_on_become_zero_and_are_not_read(device: Any, of: str, count: int) -> None:
    """`valid` from below 0 to beyond the count; where it ends, the array ends, too."""
    tested = written(
        f"x: Slice[{of}], y: SliceMut[{of}], valid: Slice[i32]",
        f"""s = shared_array((64, {count}), {of})
t = thread_idx.x
for i in unroll({count}):
    s[t, i] = 3
copy_async(s, (t, 0), x, t * {count}, {count}, valid=valid[t])
wait_all_copies()
for i in unroll({count}):
    y[t * {count} + i] = s[t, i]""",
        64,
    )
    element = DTYPES[of]
    x = numbers(64 * count, element, 1)
    valid = np.random.default_rng(2).integers(-2, count + 3, 64).astype(np.int32)
    valid[-1] = count - 1
    y = device.array(poison(64 * count, element))
    tested(device.array(x)[: 64 * count - 1], y, device.array(valid))
    expected = np.where(np.arange(count) < valid[:, None], x.reshape(64, count), np.zeros(1, element.numpy))
    assert y.numpy().tobytes() == expected.tobytes()
    device.synchronize()


@kernel(grid=1, block=32)
def of_rows(y: SliceMut[f32, D2], x: Slice[f32, D2]) -> None:
    """A tile of 16 x 8 of x from its row 2 and column 4 on; what lies outside is 0."""
    s = shared_array((16, 8), f32)
    t = thread_idx.x
    row, column = t // 2, t % 2 * 4
    copy_async(s, (row, column), x, (2 + row, 4 + column), 4, valid=x.shape[1] - 4 - column if 2 + row < x.shape[0] else 0)
    commit_copies()
    wait_copies(0)
    sync_threads()
    for i in unroll(4):
        y[row, column + i] = s[row, column + i]


@DEVICES
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (17, 9), (18, 12), (40, 40), (2, 4)])
def test_a_tile_at_the_edge_of_a_matrix(device: Any, shape: tuple[int, int]) -> None:
    rows, columns = shape
    x = numbers(rows * columns, F32, 3).reshape(shape)
    padded = np.full((rows, -(-columns // 4) * 4), np.nan, np.float32)
    padded[:, :columns] = x
    y = device.array(np.full((16, 8), np.nan, np.float32))
    of_rows(y, device.array(padded)[:, :columns])
    expected = np.zeros((16, 8), np.float32)
    part = x[2:18, 4:12]
    expected[: part.shape[0], : part.shape[1]] = part
    assert np.array_equal(y.numpy(), expected)


@function
def all_or_nothing(s: SliceMut[f32], x: Slice[f32], t: Any) -> None:
    copy_async(s, t * 2, x, t * 2, 2, valid=t % 3 == 0)


@kernel(grid=elements("y"), block=64)
def of_some(y: SliceMut[f32], x: Slice[f32]) -> None:
    s = shared_array(128, f32)
    t = thread_idx.x
    if t == 5:
        return
    all_or_nothing(s, x, t)
    wait_all_copies()
    if t in y:
        y[t] = s[t * 2 + 1]


@DEVICES
def test_a_bool_says_all_or_nothing_and_threads_may_have_returned(device: Any) -> None:
    x = numbers(128, F32, 4)
    y = device.array(np.full(61, np.nan, np.float32))
    of_some(y, device.array(x))
    t = np.arange(61)
    expected = np.where(t % 3 == 0, x[1:122:2], np.float32(0))
    expected[5] = np.nan
    np.testing.assert_array_equal(y.numpy(), expected)


@kernel(grid=1, block=32)
def ring(y: SliceMut[i32], x: Slice[i32]) -> None:
    """Four stages, three of them under way; every thread its own column."""
    s = shared_array((4, 32), i32)
    t = thread_idx.x
    for stage in unroll(3):
        copy_async(s, (stage, t), x, stage * 32 + t, 1)
        commit_copies()
    total = 0
    for step in range(len(x) // 32):
        if step + 3 < len(x) // 32:
            copy_async(s, ((step + 3) % 4, t), x, (step + 3) * 32 + t, 1)
        commit_copies()
        wait_copies(3)
        total = total * 3 + s[step % 4, t]
    y[t] = total


@DEVICES
@pytest.mark.parametrize("steps", [3, 4, 7, 100])
def test_a_ring_of_stages(device: Any, steps: int) -> None:
    x = np.random.default_rng(steps).integers(-9, 9, (steps, 32)).astype(np.int32)
    y = device.array(np.full(32, -1, np.int32))
    ring(y, device.array(x.reshape(-1)))
    expected = np.zeros(32, np.int32)
    for row in x:
        expected = expected * np.int32(3) + row
    np.testing.assert_array_equal(y.numpy(), expected)


@kernel(grid=1, block=1)
def counted(y: SliceMut[i32], x: Slice[i32]) -> None:
    """One thread: what it has copied says how often a barrier comes, which on the CPU is decided for the whole block."""
    s = shared_array(1, i32)
    copy_async(s, 0, x, 0, 1)
    wait_all_copies()
    total = i32(0)
    for _step in range(s[0]):
        sync_threads()
        total += 1
    y[0] = total


@DEVICES
def test_control_may_depend_on_what_was_copied(device: Any) -> None:
    y = device.array(np.full(1, -1, np.int32))
    for count in (3, 5, 2):
        counted(y, device.array(np.array([count], np.int32)))
        assert y.numpy()[0] == count


# ------------------------------------------------------------------------------------------------------------------------------ checks


@kernel(grid=1, block=32)
def shifted(y: SliceMut[f32], x: Slice[f32], by: i32, to: i32) -> None:
    s = shared_array(132, f32)
    t = thread_idx.x
    for i in unroll(4):
        s[4 * t + i] = -1.0
    sync_threads()
    copy_async(s, 4 * t + to, x, 4 * t + by, 4)
    wait_all_copies()
    sync_threads()
    for i in unroll(4):
        y[4 * t + i] = s[4 * t + i]


@DEVICES
@pytest.mark.parametrize(
    ("by", "to", "message", "index", "extent"),
    [
        (8, 0, "copy outside array x", 135, 132),
        (-4, 0, "copy outside array x", -4, 132),
        (0, 12, "copy outside array s", 135, 132),
        (0, -4, "copy outside array s", -4, 132),
        (2, 0, "copy_async() of 16 bytes begins at a multiple of 4 elements of `x`", None, None),
        (0, 3, "copy_async() of 16 bytes begins at a multiple of 4 elements of `s`", None, None),
    ],
)
def test_what_fails_is_left_out_and_recorded(device: Any, by: int, to: int, message: str, index: int | None, extent: int | None) -> None:
    x = numbers(132, F32, 5)
    y = device.array(np.full(128, np.nan, np.float32))
    shifted(y, device.array(x), by, to)
    with pytest.raises(BoundsError) as caught:
        device.synchronize()
    assert message in str(caught.value)
    if index is not None:
        first = max(index - 3, 0) if index >= 0 else index
        assert caught.value.extent == extent
        assert caught.value.index is not None
        assert caught.value.index < 0 if index < 0 else caught.value.index >= first
        assert "It was left out" in str(caught.value)
    expected = np.full(128, -1, np.float32)
    for t in range(32):
        source, target = 4 * t + by, 4 * t + to
        if 0 <= source <= 128 and 0 <= target <= 124 and source % 4 == 0 and target % 4 == 0:
            expected[target : target + 4] = x[source : source + 4]
    np.testing.assert_array_equal(y.numpy(), expected)


def trusted() -> Any:
    @kernel(grid=1, block=32)
    def tested(y: SliceMut[f32], x: Slice[f32], by: i32) -> None:
        s = shared_array(256, f32)
        copy_async(s.unchecked, 4 * thread_idx.x + by, x.unchecked, 4 * thread_idx.x + by, 4)
        wait_all_copies()
        y[thread_idx.x] = s[(4 * thread_idx.x + by + 2) % 256]

    return tested


@DEVICES
def test_unchecked_copies_are_checked_in_checked_builds(device: Any) -> None:
    x = numbers(132, F32, 6)
    y = device.array(np.full(32, np.nan, np.float32))
    trusted()(y, device.array(x), 4)
    np.testing.assert_array_equal(y.numpy(), x[6::4])
    kdsl.checked(True)
    try:
        trusted()(y, device.array(x), 8)
    finally:
        kdsl.checked(False)
    with pytest.raises(BoundsError, match=r"copy outside array x: index 135 is out of bounds for 132 elements"):
        device.synchronize()


def test_what_is_proved_is_not_checked() -> None:
    @kernel(grid=elements("x"), block=32, requires=("p // 8 * 8 == p", "len(x) >= 0"))
    def proved(y: SliceMut[bf16], x: Slice[bf16], p: u32) -> None:
        s = shared_array((2, 32, 16), bf16)
        t = thread_idx.x
        start = t * 8 + p
        for k in range(0, 100, 16):
            if start + 8 <= len(x):
                copy_async(s, (k // 16 % 2, t, (t % 2 ^ k % 2) * 8), x, start, 8)
        for k in range(8, 80, 8):
            copy_async(s, (0, t, k % 16 // 8 * 8), x.unchecked, k * 3, 8)
        y[0] = s[0, 0, 0]

    assert not [op for op in nodes.walk(proved.ir().body) if isinstance(op, nodes.Assertion)]


# -------------------------------------------------------------------------------------------------------------------- at the launch


@DEVICES
def test_a_launch_refuses_an_array_that_is_not_aligned_enough(device: Any) -> None:
    y = device.zeros(128, f32)
    x = device.zeros(256, f32)
    shifted(y, x[4:132], 0, 0)
    with pytest.raises(
        LaunchError, match=r"moves 16 bytes of x at once, so its first element lies at a multiple of 16 bytes; that of the argument lies 4"
    ):
        shifted(y, x[1:129], 0, 0)
    shifted(y[1:1], x[1:1], 0, 0)  # an empty one has no first element
    with pytest.raises(BoundsError):
        device.synchronize()


@DEVICES
def test_a_launch_refuses_rows_that_are_not_aligned_enough(device: Any) -> None:
    y = device.zeros((16, 8), f32)
    with pytest.raises(LaunchError, match=r"the strides of the argument, \(5, 1\), are no multiples of 4 elements"):
        of_rows(y, device.zeros((7, 5), f32))
    with pytest.raises(LaunchError, match=r"the elements of a row lie side by side; the argument has a stride of 2"):
        of_rows(y, device.zeros((7, 16), f32)[:, ::2])
    with pytest.raises(LaunchError, match=r"lies 8 behind one"):
        of_rows(y, device.zeros((7, 16), f32)[:, 2:])
    of_rows(y, device.zeros((1, 5), f32))
    of_rows(y, device.zeros((7, 5), f32)[4:5])
    of_rows(y, device.zeros((7, 16), f32)[::2, 4:9])
    device.synchronize()


def test_the_alignment_belongs_to_the_kernel() -> None:
    @kernel(grid=1, block=32)
    def two(y: SliceMut[u8], x: Slice[u8], z: Slice[u8]) -> None:
        s = shared_array(1024, u8)
        copy_async(s, 16 * thread_idx.x, x, 0, 16)
        copy_async(s, 16 * thread_idx.x, x, 0, 4)
        copy_async(s, 16 * thread_idx.x, z, 0, 8)
        y[0] = s[0]

    assert [(p.name, p.alignment) for p in two.ir().parameters] == [("y", 1), ("x", 16), ("z", 8)]
    assert "check_alignment" in two.launcher_source
