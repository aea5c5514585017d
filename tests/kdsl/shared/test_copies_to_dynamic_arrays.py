"""Copies, `ldmatrix`, `stmatrix` and addresses of shared arrays whose extents the launch decides: checked against what it decided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusal import refused

from kdsl import (
    D2,
    BoundsError,
    Slice,
    SliceMut,
    barrier_arrive_expect,
    barrier_init,
    barrier_wait,
    bulk_load,
    bulk_store,
    commit_stores,
    copy_async,
    f16,
    f32,
    fence_barrier_init,
    i32,
    i64,
    is_first_thread,
    kernel,
    lane_index,
    ldmatrix,
    shared_address,
    shared_array,
    shared_barriers,
    stmatrix,
    sync_threads,
    thread_idx,
    u32,
    unroll,
    wait_all_copies,
    wait_stores,
)
from kdsl.testing import devices
from kdsl.testing.ptx import assemble, filecheck

on_all = pytest.mark.parametrize("device", devices(), ids=str)


@kernel(grid=1, block=64)
def copied(y: SliceMut[f32, D2], x: Slice[f32, D2], columns: i32, from_column: i32) -> None:
    """Copy rows by four elements at once into an array of `columns`, and back one by one."""
    tile = shared_array((x.shape[0], columns), f32)
    t, parts = thread_idx.x, x.shape[1] // 4
    for i in range(t, x.shape[0] * parts, 64):
        copy_async(tile, (i // parts, from_column + i % parts * 4), x, (i // parts, i % parts * 4), 4)
    wait_all_copies()
    sync_threads()
    for i in range(t, y.shape[0] * y.shape[1], 64):
        y[i // y.shape[1], i % y.shape[1]] = tile[i // y.shape[1], i % y.shape[1]]


@on_all
@pytest.mark.parametrize("shape", [(1, 4), (17, 32), (33, 36)])
def test_rows_are_copied(device: Any, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    y = device.array(np.full(shape, np.nan, np.float32))
    copied(y, device.array(x), shape[1], 0)
    np.testing.assert_array_equal(y.numpy(), x)


@on_all
def test_copies_outside_are_left_out(device: Any) -> None:
    x = device.array(np.ones((3, 8), np.float32))
    y = device.zeros((3, 4), f32)
    copied(y, x, 8, 4)
    with pytest.raises(BoundsError, match=r"tile.*dimension 1.*index 11 is out of bounds for 8|index 11 .*8"):
        device.synchronize()
    copied(y, x, 8, -4)
    with pytest.raises(BoundsError, match="index -4"):
        device.synchronize()


@on_all
@pytest.mark.parametrize(
    ("columns", "start", "message"), [(10, 0, "rows have a multiple of 4 elements"), (12, 2, "begins at a multiple of 4")]
)
def test_copies_that_are_not_aligned_are_left_out(device: Any, columns: int, start: int, message: str) -> None:
    copied(device.zeros((3, 4), f32), device.array(np.ones((3, 8), np.float32)), columns, start)
    with pytest.raises(BoundsError, match=message):
        device.synchronize()


@kernel(grid=1, block=64)
def in_a_row(y: SliceMut[f32], x: Slice[f32], n: i32) -> None:
    """A guard up to the extent proves that a copy is inside."""
    tile = shared_array(n, f32)
    i = 4 * thread_idx.x
    if i + 4 <= n and i + 4 <= len(x):
        copy_async(tile, i, x, i, 4)
    wait_all_copies()
    sync_threads()
    if thread_idx.x < n and thread_idx.x < len(y):
        y[thread_idx.x] = tile[thread_idx.x]


@on_all
def test_a_guard_proves_a_copy(device: Any) -> None:
    kept = in_a_row.ir()
    assert not [site for site in kept.sites if site.kind == "copy"]
    y, x = device.zeros(10, f32), np.arange(23, dtype=np.float32)
    in_a_row(y, device.array(x), 20)
    np.testing.assert_array_equal(y.numpy(), x[:10])


@kernel(grid=1, block=32)
def matrices(y: SliceMut[u32], x: Slice[f16, D2], rows: i32, chunks: i32) -> None:
    """Registers of four matrices, transposed, from an array of `rows` x 8 `chunks`."""
    tile = shared_array((rows, 8 * chunks), f16)
    t = lane_index()
    for i in range(t, x.shape[0] * x.shape[1], 32):
        tile[i // x.shape[1], i % x.shape[1]] = x[i // x.shape[1], i % x.shape[1]]
    sync_threads()
    r = ldmatrix(tile, (t % 16, t // 16 * 8), transpose=True)
    for i in unroll(4):
        y[4 * t + i] = r[i]


def registers(x: Any) -> Any:
    """What the lanes hold of the four matrices of 8 x 8, transposed (PTX ISA, "ldmatrix"): two elements of column lane // 4."""
    lane = np.arange(32)
    held = []
    for part in (x[:8, :8], x[8:16, :8], x[:8, 8:16], x[8:16, 8:16]):
        low, high = (part[2 * (lane % 4) + i, lane // 4].view(np.uint16).astype(np.uint32) for i in (0, 1))
        held.append(low | high << 16)
    return np.stack(held, 1).reshape(-1)


@on_all
def test_matrices_are_loaded(device: Any) -> None:
    x = np.random.default_rng(2).standard_normal((17, 24)).astype(np.float16)
    y = device.array(np.full(128, 77, np.uint32))
    matrices(y, device.array(x), 17, 3)
    np.testing.assert_array_equal(y.numpy(), registers(x))
    matrices(y, device.array(x[:15]), 15, 3)  # row 15 is outside
    with pytest.raises(BoundsError, match="index 15"):
        device.synchronize()
    np.testing.assert_array_equal(y.numpy(), 0)


def test_rows_of_whole_chunks_need_no_check() -> None:
    assert [site.kind for site in matrices.ir().sites if site.kind == "assert"] == []
    filecheck(matrices.ptx("sm_80"), "CHECK: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16")
    assemble(matrices.ptx("sm_80"), "sm_80")
    filecheck(copied.ptx("sm_80"), "CHECK: cp.async.cg.shared.global [")
    assemble(copied.ptx("sm_80"), "sm_80")


@kernel(grid=1, block=32)
def there_and_back(y: SliceMut[f16, D2], x: Slice[f16, D2], n: i64) -> None:
    """A matrix of 16 x 16 through `ldmatrix` and `stmatrix`."""
    tile = shared_array((2, 16, n), f16)
    t = lane_index()
    for i in range(t, 256, 32):
        tile[0, i // 16, i % 16] = x[i // 16, i % 16]
    sync_threads()
    stmatrix(tile, (1, t % 16, t // 16 * 8), ldmatrix(tile, (0, t % 16, t // 16 * 8)))
    sync_threads()
    for i in range(t, 256, 32):
        y[i // 16, i % 16] = tile[1, i // 16, i % 16]


@pytest.mark.parametrize("device", [d for d in devices() if getattr(d, "capability", (9, 0)) >= (9, 0)], ids=str)
def test_matrices_are_stored(device: Any) -> None:
    x = np.random.default_rng(3).standard_normal((16, 16)).astype(np.float16)
    y = device.array(np.full((16, 16), np.nan, np.float16))
    there_and_back(y, device.array(x), 24)
    np.testing.assert_array_equal(y.numpy(), x)
    assemble(there_and_back.ptx("sm_90"), "sm_90")


@kernel(grid=1, block=32)
def run(x: Slice[f32], y: SliceMut[f32], n: i32, count: i32) -> None:
    """Bulk copies of `count` elements through an array of n."""
    tile = shared_array((2, n), f32)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        fence_barrier_init()
        barrier_arrive_expect(full, 0, u32(4 * count))
        bulk_load(tile, (1, 0), x, 0, count, full, 0)
        barrier_wait(full, 0, 0, timeout=20_000_000)
        bulk_store(y, 0, tile, (1, 0), count)
        commit_stores()
        wait_stores(0)


@kernel(grid=1, block=32)
def addressed(y: SliceMut[u32], n: i32) -> None:
    """An address of an element."""
    tile = shared_array(n, f32)
    tile[0] = 1.0
    y[0] = shared_address(tile, n - 1)


def test_runs_and_addresses_assemble() -> None:
    filecheck(run.ptx("sm_90"), "CHECK: cp.async.bulk.shared::cluster.global.mbarrier\nCHECK: cp.async.bulk.global.shared::cta")
    assemble(run.ptx("sm_90"), "sm_90")
    assert len([site for site in run.ir().sites if "inside" in site.name]) == 2
    assemble(addressed.ptx("sm_80"), "sm_80")


@pytest.mark.parametrize("device", [d for d in devices() if getattr(d, "capability", (0, 0)) >= (9, 0)], ids=str)
def test_runs_are_copied(device: Any) -> None:
    x = np.arange(64, dtype=np.float32)
    y = device.zeros(64, f32)
    run(device.array(x), y, 40, 32)
    np.testing.assert_array_equal(y.numpy()[:32], x[:32])
    run(device.array(x), y, 40, 44)
    with pytest.raises(BoundsError, match="inside"):
        device.synchronize()


def test_what_the_compiler_knows_is_refused() -> None:
    @kernel(grid=1, block=32)
    def leaves(y: SliceMut[f32], x: Slice[f32], n: i32) -> None:
        tile = shared_array((n, 6), f32)
        copy_async(tile, (0, 4), x, 0, 4)
        y[0] = tile[0, 0]

    @kernel(grid=1, block=32)
    def odd(y: SliceMut[f32], x: Slice[f32], n: i32) -> None:
        tile = shared_array((n, 6), f32)
        copy_async(tile, (0, 0), x, 0, 4)
        y[0] = tile[0, 0]

    @kernel(grid=1, block=32)
    def doubles(y: SliceMut[f32], n: i32) -> None:
        tile = shared_array((n, 8), i64)
        r = ldmatrix(tile, (lane_index() % 8, 0), 1)
        y[0] = f32(r[0])

    refused(leaves, "leaves `tile`, whose last extent is 6", at="(0, 4)", hint="begin at 2")
    refused(odd, "whose rows have 24 bytes", at="(0, 0)", hint="multiple of 4")
    refused(doubles, "which hold no i64", at="tile", hint="1, 2 or 4 bytes")
