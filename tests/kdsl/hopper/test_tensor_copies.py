"""Copies by tensor maps and of runs of bytes, on GPUs that have the copy engine."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from gpus import BF16, LIMIT, on_tensor_memory_gpus, poisoned, whole

import kdsl
from kdsl import (
    D2,
    D3,
    D4,
    D5,
    Const,
    Slice,
    SliceMut,
    TensorMap,
    barrier_arrive_expect,
    barrier_init,
    barrier_wait,
    bf16,
    bulk_load,
    bulk_store,
    commit_stores,
    f16,
    f32,
    f64,
    fence_async_proxy,
    fence_barrier_init,
    i8,
    i32,
    i64,
    is_first_thread,
    kernel,
    prefetch_map,
    shared_array,
    shared_barriers,
    sync_threads,
    tensor_map,
    thread_index,
    tma_load,
    tma_prefetch,
    tma_reduce,
    tma_store,
    u8,
    u32,
    u64,
    wait_stores,
)

T = TypeVar("T", f16, bf16, f32, f64, i8, u8, i32, u32, i64, u64)


@kernel(grid=1, block=32)
def box(a: TensorMap[T, D2], y: SliceMut[T, D2], row: i32, column: i32, ROWS: Const[int], WIDE: Const[int], SPAN: Const[int]) -> None:
    """One box of ROWS x WIDE elements, as threads see it in shared memory."""
    tile = shared_array((ROWS, WIDE), a.dtype, swizzle=SPAN)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        fence_barrier_init()
        barrier_arrive_expect(full, 0, tile.nbytes)
        tma_load(tile, (), a, (row, column), full, 0)
    sync_threads()
    barrier_wait(full, 0, 0, timeout=LIMIT)
    for i in range(thread_index(), ROWS * WIDE, 32):
        y[i // WIDE, i % WIDE] = tile[i // WIDE, i % WIDE]


def cut(a: npt.NDArray[Any], start: tuple[int, ...], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A box of an array, 0 outside of it."""
    found = np.zeros(shape, a.dtype)
    inside = [slice(max(s, 0), min(s + n, extent)) for s, n, extent in zip(start, shape, a.shape, strict=True)]
    if all(part.start < part.stop for part in inside):
        found[tuple(slice(part.start - s, part.stop - s) for part, s in zip(inside, start, strict=True))] = a[tuple(inside)]
    return found


PLACES = [(0, 0), (8, 32), (3, 4), (-2, -4), (35, 60), (39, 68), (40, 0), (-200, 0), (2**31 - 1, 0)]
"""The last coordinate is a multiple of 16 bytes."""


@on_tensor_memory_gpus
@pytest.mark.parametrize("place", PLACES)
def test_a_box_without_swizzle_and_zeros_outside(gpu: Any, place: tuple[int, int]) -> None:
    a = whole((40, 72), np.float32, 1, 1000) + 1
    y = gpu.array(poisoned((8, 32)))
    box(gpu.array(a), y, *place, 8, 32, 0)
    np.testing.assert_array_equal(y.numpy(), cut(a, place, (8, 32)))


@on_tensor_memory_gpus
@pytest.mark.parametrize("span", [32, 64, 128])
@pytest.mark.parametrize("of", [np.float32, BF16, np.int8], ids=str)
def test_a_swizzled_box_looks_the_same_to_threads(gpu: Any, span: int, of: Any) -> None:
    a = whole((40, 160), of, span, 100)
    wide = span // np.dtype(of).itemsize
    for place in ((0, 0), (9, 16), (33, 144)):
        y = gpu.array(poisoned((24, wide), np.int8).astype(of))
        box(gpu.array(a), y, *place, 24, wide, span)
        np.testing.assert_array_equal(y.numpy(), cut(a, place, (24, wide)))


@on_tensor_memory_gpus
@pytest.mark.parametrize("of", [np.float16, np.float64, np.uint8, np.int32, np.uint32, np.int64, np.uint64], ids=str)
def test_element_types(gpu: Any, of: Any) -> None:
    a = whole((9, 48), of, 3, 100)
    y = gpu.array(whole((4, 16), of, 4))
    column = 40 if a.itemsize > 1 else 32
    box(gpu.array(a), y, 7, column, 4, 16, 0)
    np.testing.assert_array_equal(y.numpy(), cut(a, (7, column), (4, 16)))


@on_tensor_memory_gpus
@pytest.mark.parametrize("place", [(0, 1), (3, 5), (-2, -3), (39, 71)])
def test_rows_that_begin_between_16_bytes_are_left_out_and_nobody_waits(gpu: Any, place: tuple[int, int]) -> None:
    """On the H200 the instruction would be an illegal one."""
    a = whole((40, 72), np.float32, 1, 1000) + 1
    y = gpu.array(poisoned((8, 32)))
    box(gpu.array(a), y, *place, 8, 32, 0)
    with pytest.raises(kdsl.BoundsError, match=r"tma_load\(\): the last coordinate is a multiple of 16 bytes"):
        gpu.synchronize()
    before = poisoned((40, 72))
    c = gpu.array(before)
    written_box(c, gpu.array(whole((8, 32), np.float32, 10, 1000)), *place, 0, 32, False)
    with pytest.raises(kdsl.BoundsError, match=r"tma_store\(\): the last coordinate is a multiple of 16 bytes"):
        gpu.synchronize()
    np.testing.assert_array_equal(c.numpy(), before)


@on_tensor_memory_gpus
def test_a_part_with_strides_and_a_map_made_by_hand(gpu: Any) -> None:
    a = whole((40, 72), np.float32, 5, 1000)
    y = gpu.array(poisoned((8, 32)))
    box(tensor_map(gpu.array(a)[4:36:2, 8:40], (8, 32), l2_promotion=0), y, 2, 0, 8, 32, 0)
    np.testing.assert_array_equal(y.numpy(), cut(a[4:36:2, 8:40], (2, 0), (8, 32)))


@on_tensor_memory_gpus
def test_numbers_are_rounded_to_tf32_on_the_way(gpu: Any) -> None:
    a = np.random.default_rng(6).standard_normal((8, 32)).astype(np.float32)
    y = gpu.array(poisoned((8, 32)))
    box(tensor_map(gpu.array(a), (8, 32), tf32=True), y, 0, 0, 8, 32, 0)
    got = y.numpy()
    assert not np.any(got.view(np.uint32) & 0x1FFF)
    assert np.all(np.abs(got - a) <= np.abs(a) * 2.0**-11)


@kernel(grid=1, block=32)
def line(a: TensorMap[f32], y: SliceMut[f32], start: i32) -> None:
    tile = shared_array(64, f32)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        fence_barrier_init()
        prefetch_map(a)
        tma_prefetch(a, (start,))
        barrier_arrive_expect(full, 0, tile.nbytes)
        tma_load(tile, (), a, start, full, 0)
    sync_threads()
    barrier_wait(full, 0, 0, timeout=LIMIT)
    t = thread_index()
    y[t] = tile[t]
    y[t + 32] = tile[t + 32]


@kernel(grid=1, block=32)
def volumes(a: TensorMap[f32, D3], b: TensorMap[f32, D4], y: SliceMut[f32, D2], x: i32) -> None:
    tiles = shared_array((2, 4, 8), f32)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        fence_barrier_init()
        barrier_arrive_expect(full, 0, tiles.nbytes)
        tma_load(tiles, 0, a, (x, 2, 4), full, 0)
        tma_load(tiles, 1, b, (x, 1, 2, 4), full, 0)
    sync_threads()
    barrier_wait(full, 0, 0, timeout=LIMIT)
    t = thread_index()
    y[0, t] = tiles[0, t // 8, t % 8]
    y[1, t] = tiles[1, t // 8, t % 8]


@on_tensor_memory_gpus
def test_one_three_and_four_dimensions(gpu: Any) -> None:
    a = whole((100,), np.float32, 7, 1000)
    for start in (0, 52, -12):
        y = gpu.array(poisoned((64,)))
        line(gpu.array(a), y, start)
        np.testing.assert_array_equal(y.numpy(), cut(a, (start,), (64,)))
    b, c = whole((3, 5, 12), np.float32, 8, 1000), whole((3, 2, 5, 12), np.float32, 9, 1000)
    for x in range(4):
        y = gpu.array(poisoned((2, 32)))
        volumes(gpu.array(b), gpu.array(c), y, x)
        np.testing.assert_array_equal(y.numpy()[0].reshape(1, 4, 8), cut(b, (x, 2, 4), (1, 4, 8)))
        np.testing.assert_array_equal(y.numpy()[1].reshape(1, 1, 4, 8), cut(c, (x, 1, 2, 4), (1, 1, 4, 8)))


@kernel(grid=1, block=32)
def loaded_of_five(a: TensorMap[f32, D5], y: SliceMut[f32, D4], i: i32, j: i32, k: i32, m: i32, n: i32) -> None:
    """One box of 1 x 2 x 3 x 4 x 8 elements."""
    tile = shared_array((2, 3, 4, 8), f32)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        fence_barrier_init()
        tma_prefetch(a, (i, j, k, m, n))
        barrier_arrive_expect(full, 0, tile.nbytes)
        tma_load(tile, (), a, (i, j, k, m, n), full, 0)
    sync_threads()
    barrier_wait(full, 0, 0, timeout=LIMIT)
    t = thread_index()
    for p in range(2):
        for q in range(3):
            y[p, q, t // 8, t % 8] = tile[p, q, t // 8, t % 8]


@kernel(grid=1, block=32)
def written_of_five(c: TensorMap[f32, D5], x: Slice[f32, D4], i: i32, j: i32, k: i32, m: i32, n: i32, ADD: Const[bool]) -> None:
    """Store or add a box of 1 x 2 x 3 x 4 x 8 elements."""
    tile = shared_array((2, 3, 4, 8), f32)
    t = thread_index()
    for p in range(2):
        for q in range(3):
            tile[p, q, t // 8, t % 8] = x[p, q, t // 8, t % 8]
    fence_async_proxy()
    sync_threads()
    if is_first_thread():
        if ADD:
            tma_reduce(c, (i, j, k, m, n), tile, ())
        else:
            tma_store(c, (i, j, k, m, n), tile, ())
        commit_stores()
        wait_stores(read=False)


OF_FIVE = [(0, 0, 0, 0, 0), (2, 1, 1, 2, 4), (1, 3, 4, 5, 12), (3, 0, 0, 0, 0), (0, 4, 5, 6, 16)]


@on_tensor_memory_gpus
@pytest.mark.parametrize("place", [*OF_FIVE, (-1, 0, 0, 0, 0), (0, -1, -2, -3, -4)])
def test_a_box_of_five_dimensions_is_read(gpu: Any, place: tuple[int, ...]) -> None:
    a = whole((3, 4, 5, 6, 16), np.float32, 20, 1000) + 1
    for given, host in ((gpu.array(a), a), (gpu.array(a).transpose(2, 0, 3, 1, 4), a.transpose(2, 0, 3, 1, 4))):
        y = gpu.array(poisoned((2, 3, 4, 8)))
        loaded_of_five(given, y, *place)
        np.testing.assert_array_equal(y.numpy(), cut(host, place, (1, 2, 3, 4, 8))[0])


@on_tensor_memory_gpus
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("place", OF_FIVE)
def test_a_box_of_five_dimensions_is_written_and_nothing_outside(gpu: Any, place: tuple[int, ...], add: bool) -> None:
    before, x = whole((3, 4, 5, 6, 16), np.float32, 21, 1000), whole((2, 3, 4, 8), np.float32, 22, 1000)
    c = gpu.array(before)
    written_of_five(c, gpu.array(x), *place, add)
    wanted = np.zeros((8, 8, 8, 12, 24), np.float32)
    wanted[:3, :4, :5, :6, :16] = before
    box_of = wanted[tuple(slice(p, p + extent) for p, extent in zip(place, (1, 2, 3, 4, 8), strict=True))]
    box_of[:] = box_of + x if add else x
    np.testing.assert_array_equal(c.numpy(), wanted[:3, :4, :5, :6, :16])


@kernel(grid=1, block=32)
def written_box(c: TensorMap[T, D2], x: Slice[T, D2], row: i32, column: i32, SPAN: Const[int], WIDE: Const[int], ADD: Const[bool]) -> None:
    """Store a tile of 8 x WIDE elements that threads have written."""
    tile = shared_array((8, WIDE), c.dtype, swizzle=SPAN)
    for i in range(thread_index(), 8 * WIDE, 32):
        tile[i // WIDE, i % WIDE] = x[i // WIDE, i % WIDE]
    fence_async_proxy()
    sync_threads()
    if is_first_thread():
        if ADD:
            tma_reduce(c, (row, column), tile, ())
        else:
            tma_store(c, (row, column), tile, ())
        commit_stores()
        wait_stores(read=False)


@on_tensor_memory_gpus
@pytest.mark.parametrize("span", [0, 128])
@pytest.mark.parametrize("place", [place for place in PLACES if min(place) >= 0])
def test_a_box_is_written_and_nothing_outside(gpu: Any, place: tuple[int, int], span: int) -> None:
    x = whole((8, 32), np.float32, 10, 1000)
    before = poisoned((40, 72))
    c = gpu.array(before)
    written_box(c, gpu.array(x), *place, span, 32, False)
    whole_map = np.pad(before, 300, constant_values=np.nan)
    if all(-300 <= p < 300 for p in place):
        whole_map[300 + place[0] : 308 + place[0], 300 + place[1] : 332 + place[1]] = x
    np.testing.assert_array_equal(c.numpy(), whole_map[300:-300, 300:-300])


@on_tensor_memory_gpus
@pytest.mark.parametrize("place", [(-2, -4), (-200, 0), (0, -4)])
def test_a_box_below_the_array_is_not_written(gpu: Any, place: tuple[int, int]) -> None:
    """On the H200 the instruction would be an illegal one."""
    before = poisoned((40, 72))
    c = gpu.array(before)
    written_box(c, gpu.array(whole((8, 32), np.float32, 10, 1000)), *place, 0, 32, False)
    with pytest.raises(kdsl.BoundsError, match=r"tma_store\(\): no coordinate is negative"):
        gpu.synchronize()
    np.testing.assert_array_equal(c.numpy(), before)


@on_tensor_memory_gpus
@pytest.mark.parametrize("of", [np.float32, np.int32, np.float16, BF16], ids=str)
def test_a_box_is_added(gpu: Any, of: Any) -> None:
    wide = 128 // np.dtype(of).itemsize
    x, c = whole((8, wide), of, 11), whole((20, 72), of, 12)
    on_gpu = gpu.array(c)
    for _ in range(2):
        written_box(on_gpu, gpu.array(x), 15, 8, 128, wide, True)
    c[15:20, 8 : 8 + wide] += 2 * x[:5, : 72 - 8]
    np.testing.assert_array_equal(on_gpu.numpy(), c)


# --------------------------------------------------------------------------------------------------------------------- runs of bytes


@kernel(grid=1, block=32)
def run(x: Slice[f32], y: SliceMut[f32], start: i32, count: i32, to: i32) -> None:
    """Copy elements of x to shared memory and from there to y."""
    tile = shared_array((4, 32), f32)
    full = shared_barriers(1)
    for i in range(4):
        tile[i, thread_index()] = -1
    fence_async_proxy()
    sync_threads()
    if is_first_thread():
        barrier_init(full, 0, 1)
        fence_barrier_init()
        barrier_arrive_expect(full, 0, 4 * u32(count))
        bulk_load(tile, (1, 4), x, start, count, full, 0)
        barrier_wait(full, 0, 0, timeout=LIMIT)
        bulk_store(y, to, tile, (1, 0), 64)
        commit_stores()
        wait_stores()


def bulk(gpu: Any, start: int, count: int, to: int = 4, length: int = 200) -> npt.NDArray[Any]:
    y = gpu.array(np.zeros(80, np.float32))
    run(gpu.array(np.arange(1, length + 1, dtype=np.float32)), y, start, count, to)
    result: npt.NDArray[Any] = y.numpy()
    return result


@on_tensor_memory_gpus
@pytest.mark.parametrize(("start", "count"), [(0, 4), (8, 32), (148, 52), (0, 0), (196, 4)])
def test_a_run_of_elements(gpu: Any, start: int, count: int) -> None:
    expected = np.zeros(80, np.float32)
    expected[4:68] = -1
    expected[8 : 8 + count] = np.arange(start + 1, start + count + 1)
    np.testing.assert_array_equal(bulk(gpu, start, count), expected)


@on_tensor_memory_gpus
@pytest.mark.parametrize(("start", "count"), [(-4, 8), (152, 52), (2, 4), (0, 6), (0, 96)])
def test_a_run_that_does_not_fit_is_left_out_and_nobody_waits(gpu: Any, start: int, count: int) -> None:
    with pytest.raises(kdsl.BoundsError, match="the elements of the copy are inside, and begin and end at multiples of 16 bytes"):
        bulk(gpu, start, count)
    assert bulk(gpu, 0, 4)[8] == 1


@on_tensor_memory_gpus
def test_a_run_that_would_leave_the_output_is_left_out(gpu: Any) -> None:
    with pytest.raises(kdsl.BoundsError, match="the elements of the copy are inside"):
        bulk(gpu, 0, 4, to=20)
    np.testing.assert_array_equal(bulk(gpu, 0, 4, to=16)[:16], 0)
