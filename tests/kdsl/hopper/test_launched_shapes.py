"""Boxes of tensor maps, swizzled layouts and operands of products whose extents the launch decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpus import BF16, LIMIT, on_hopper, on_tensor_memory_gpus, poisoned, whole
from refusal import refused
from test_products import sum_column, sum_row
from test_tensor_copies import cut

import kdsl
from kdsl import (
    D2,
    LaunchError,
    Slice,
    SliceMut,
    TensorMap,
    barrier_arrive,
    barrier_arrive_expect,
    barrier_init,
    barrier_wait,
    bf16,
    bulk_load,
    commit_stores,
    copy_async,
    f32,
    fence_async_proxy,
    fence_barrier_init,
    i32,
    is_first_lane,
    is_first_thread,
    kernel,
    local_array,
    shared_array,
    shared_barriers,
    sync_threads,
    thread_idx,
    thread_index,
    tile_index,
    tiles,
    tma_load,
    tma_store,
    unroll,
    wait_all_copies,
    wait_stores,
    warp_group_index,
    warp_index,
    wgmma,
    wgmma_commit,
    wgmma_fence,
    wgmma_wait,
)
from kdsl.ir.abi import layout
from kdsl.ir.nodes import Kernel
from kdsl.ir.nodes import TensorMap as Map
from kdsl.launch.shared import Boxes
from kdsl.testing import devices
from kdsl.testing.ptx import assemble, filecheck

on_all = pytest.mark.parametrize("device", devices(), ids=str)


@kernel(grid=1, block=64)
def boxes(y: TensorMap[f32, D2], x: TensorMap[f32, D2], row: i32, column: i32, rows: i32, columns: i32) -> None:
    """Two boxes below each other, from x to the upper left of y."""
    tile = shared_array((2, rows, columns), f32)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        fence_barrier_init()
        barrier_arrive_expect(full, 0, tile.nbytes)
        tma_load(tile, 0, x, (row, column), full, 0)
        tma_load(tile, 1, x, (row + rows, column), full, 0)
        barrier_wait(full, 0, 0, timeout=LIMIT)
        tma_store(y, (0, 0), tile, 0)
        tma_store(y, (rows, 0), tile, 1)
        commit_stores()
        wait_stores(read=False)


@on_tensor_memory_gpus
@pytest.mark.parametrize("shape", [(8, 4), (1, 32), (20, 64), (100, 256)], ids=str)
def test_boxes_of_any_shape(gpu: Any, shape: tuple[int, int]) -> None:
    x = whole((90, 200), np.float32, 1, 1000)
    y = gpu.array(poisoned((200, 256)))
    boxes(y, gpu.array(x), 3, 16, *shape)
    boxes(y, gpu.array(x), 3, 16, *shape)
    found = y.numpy()
    np.testing.assert_array_equal(found[: 2 * shape[0], : shape[1]], cut(x, (3, 16), (2 * shape[0], shape[1])))
    assert np.isnan(found[2 * shape[0] :]).all()
    assert np.isnan(found[:, shape[1] :]).all()


@on_tensor_memory_gpus
def test_boxes_that_cannot_be_are_refused(gpu: Any) -> None:
    x, y = gpu.zeros((90, 200), f32), gpu.zeros((200, 256), f32)
    for shape, why in (
        ((300, 4), "outside of 1 to 256"),
        ((0, 4), "outside of 1 to 256"),
        ((4, 6), "24 bytes"),
        ((1, 4), "multiples of 128"),
    ):
        with pytest.raises(LaunchError, match=f"boxes of shape \\(rows, columns\\) .*{why}"):
            boxes(y, x, 0, 0, *shape)
    other = kdsl.tensor_map(x, (8, 8))
    boxes(y, other, 0, 0, 8, 8)
    with pytest.raises(
        LaunchError, match=r"cut into boxes of 8 x 8, and the kernel copies boxes of 8 x 4; make it with tensor_map\(array, \(8, 4\)\)"
    ):
        boxes(y, other, 0, 0, 8, 4)


@on_tensor_memory_gpus
def test_a_graph_takes_another_shape(gpu: Any) -> None:
    x = whole((90, 200), np.float32, 2, 1000)
    y, given = gpu.array(poisoned((200, 256))), gpu.array(x)
    with kdsl.Graph(gpu) as graph:
        step = boxes(y, given, 0, 0, 8, 4)
    graph.launch()
    graph.update(step, rows=4, columns=32)
    graph.launch()
    np.testing.assert_array_equal(y.numpy()[:8, :32], cut(x, (0, 0), (8, 32)))
    with pytest.raises(LaunchError, match="24 bytes"):
        graph.update(step, columns=6)


def evaluated(of: Kernel, name: str, **values: int) -> Any:
    """How a launch with these values cuts the map for a parameter."""
    order = [slot.parameter.name if slot.parameter is not None else slot.name for slot in layout(of).slots]
    maps = [parameter for parameter in of.parameters if isinstance(parameter, Map)]
    return Boxes(of.name, layout(of), maps)(name, tuple(values.get(slot) for slot in order))


def test_the_launcher_evaluates_boxes() -> None:
    assert evaluated(boxes.ir(), "x", rows=8, columns=4) == ((8, 4), 0)
    for rows, columns, why in (
        (257, 4, "has an extent outside of 1 to 256"),
        (8, 6, "multiple of 16"),
        (1, 4, "begin at multiples of 128"),
    ):
        with pytest.raises(LaunchError, match=why):
            evaluated(boxes.ir(), "y", rows=rows, columns=columns)


def test_boxes_assemble() -> None:
    ptx = boxes.ptx("sm_90")
    filecheck(ptx, "CHECK: cp.async.bulk.tensor.2d.shared::cluster.global\nCHECK: cp.async.bulk.tensor.2d.global.shared::cta")
    assemble(ptx, "sm_90")
    checked = [site for site in boxes.ir().sites if "place exists" in site.name]
    assert checked == []


@kernel(grid=1, block=64)
def swizzled_rows(x: Slice[f32, D2], y: SliceMut[f32, D2], parts: i32) -> None:
    """Through a swizzled array, written in pieces and read one by one."""
    tile = shared_array((parts, 8, 32), f32, swizzle=128)
    for i in range(thread_idx.x, 8 * 8 * parts, 64):
        copy_async(tile, (i // 64, i // 8 % 8, 4 * (i % 8)), x, (i // 8, 4 * (i % 8)), 4)
    wait_all_copies()
    sync_threads()
    for i in range(thread_idx.x, 8 * 32 * parts, 64):
        y[i // 32, i % 32] = tile[i // 256, i // 32 % 8, i % 32]


@on_all
def test_an_index_names_the_same_element_in_a_swizzled_array(device: Any) -> None:
    x = np.random.default_rng(3).standard_normal((40, 32)).astype(np.float32)
    y = device.array(poisoned((40, 32)))
    swizzled_rows(device.array(x), y, 5)
    np.testing.assert_array_equal(y.numpy(), x)


@kernel(grid=1, block=32)
def swizzled_box(a: TensorMap[f32, D2], y: SliceMut[f32, D2], rows: i32) -> None:
    """A box of `rows` x 32, as threads see it."""
    tile = shared_array((rows, 32), f32, swizzle=128)
    full = shared_barriers(1)
    if is_first_thread():
        barrier_init(full, 0, 1)
        fence_barrier_init()
        barrier_arrive_expect(full, 0, tile.nbytes)
        tma_load(tile, (), a, (1, 4), full, 0)
    sync_threads()
    barrier_wait(full, 0, 0, timeout=LIMIT)
    for i in range(thread_index(), 32 * rows, 32):
        y[i // 32, i % 32] = tile[i // 32, i % 32]


@on_tensor_memory_gpus
@pytest.mark.parametrize("rows", [1, 8, 37, 256])
def test_a_swizzled_box(gpu: Any, rows: int) -> None:
    a = whole((300, 36), np.float32, 4, 1000)
    y = gpu.array(poisoned((rows, 32)))
    swizzled_box(gpu.array(a), y, rows)
    np.testing.assert_array_equal(y.numpy(), a[1 : rows + 1, 4:36])


@kernel(
    grid=tiles(rows="c.shape[0]", columns="c.shape[1]", tile=(128, 128)),
    block=384,
    requires=("a.shape[1] == b.shape[1]", "c.shape[0] == a.shape[0]", "c.shape[1] == b.shape[0]", "1 <= stages", "stages <= 6"),
    spills=False,
)
def ring(a: TensorMap[bf16, D2], b: TensorMap[bf16, D2], c: SliceMut[f32, D2], stages: i32) -> None:
    """C = A B^T, through as many stages as the launch says."""
    left = shared_array((stages, 128, 64), bf16, swizzle=128)
    right = shared_array((stages, 128, 64), bf16, swizzle=128)
    full = shared_barriers(6)
    empty = shared_barriers(6)
    if is_first_thread():
        for s in unroll(6):
            barrier_init(full, s, 1)
            barrier_init(empty, s, 2)
        fence_barrier_init()
    sync_threads()
    tile = tile_index()
    group = warp_group_index()
    steps = (a.shape[1] + 63) // 64
    if group == 2:
        if warp_index() == 8 and is_first_lane():
            for k in range(steps):
                s = k % stages
                barrier_wait(empty, s, k // stages + 1, timeout=LIMIT)
                barrier_arrive_expect(full, s, (left.nbytes + right.nbytes) // stages)
                tma_load(left, s, a, (tile.row, 64 * k), full, s)
                tma_load(right, s, b, (tile.column, 64 * k), full, s)
    else:
        sums = local_array(64, f32)
        for k in range(steps):
            s = k % stages
            barrier_wait(full, s, k // stages, timeout=LIMIT)
            wgmma_fence()
            for kk in unroll(0, 64, 16):
                wgmma(sums, left, (s, 64 * group, kk), right, (s, 0, kk))
            wgmma_commit()
            wgmma_wait(0)
            if thread_idx.x % 128 == 0:
                barrier_arrive(empty, s)
        row = tile.row + 64 * group
        for i in unroll(64):
            y, x = row + sum_row(i), tile.column + sum_column(i)
            if y < c.shape[0] and x < c.shape[1]:
                c[y, x] = sums[i]


@on_hopper
@pytest.mark.parametrize("stages", [1, 3, 6])
def test_as_many_stages_as_the_launch_says(gpu: Any, stages: int) -> None:
    a, b = whole((200, 520), BF16, 5), whole((136, 520), BF16, 6)
    c = gpu.array(poisoned((200, 136)))
    ring(gpu.array(a), gpu.array(b), c, stages)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float64) @ b.astype(np.float64).T)


def test_a_ring_needs_no_checks_and_assembles() -> None:
    assert [site.name for site in ring.ir().sites if site.kind == "assert" and "ends within" not in site.name] == []
    assert assemble(ring.ptx("sm_90a"), "sm_90a").spills == 0


@kernel(grid=1, block=128, requires=("1 <= half", "half <= 8"))
def pieces(a: Slice[bf16, D2], b: Slice[bf16, D2], c: SliceMut[f32, D2], half: i32) -> None:
    """C = A B^T of 64 x 16 and 8 x 16: A without swizzle in pieces of 8 of k, 64 + 8 `half` rows apart; B across, its k among 16 `half`."""
    left = shared_array((2, 64 + 8 * half, 8), bf16)
    right = shared_array((1, 16 * half, 8), bf16)
    t = thread_index()
    for i in range(t, 64 * 16, 128):
        left[i % 16 // 8, 8 * half + i // 16, i % 8] = a[i // 16, i % 16]
    for i in range(t, 8 * 16, 128):
        right[0, 16 * (half - 1) + i % 16, i // 16] = b[i // 16, i % 16]
    fence_async_proxy()
    sync_threads()
    sums = local_array(4, f32)
    wgmma_fence()
    wgmma(sums, left.unchecked, (0, 8 * half, 0), right.unchecked, (0, 16 * (half - 1), 0), accumulate=False, transpose_b=True)
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(4):
        c[sum_row(i), sum_column(i)] = sums[i]


@kernel(grid=1, block=128, requires=("1 <= deep", "deep <= 8"))
def wide_across(a: Slice[bf16, D2], b: Slice[bf16, D2], c: SliceMut[f32, D2], deep: i32) -> None:
    """C = A^T B of 16 `deep` x 64 and 16 `deep` x 128 with swizzle 128, k across both."""
    left = shared_array((1, 16 * deep, 64), bf16, swizzle=128)
    right = shared_array((2, 16 * deep, 64), bf16, swizzle=128)
    t = thread_index()
    for i in range(t, 16 * 64 * deep, 128):
        left[0, i // 64, i % 64] = a[i // 64, i % 64]
    for i in range(t, 16 * 128 * deep, 128):
        right[i % 128 // 64, i // 128, i % 64] = b[i // 128, i % 128]
    fence_async_proxy()
    sync_threads()
    sums = local_array(64, f32)
    for i in unroll(64):
        sums[i] = 0.0
    for k in range(deep):
        wgmma_fence()
        # k is below `deep`, so 16 k + 16 is at most 16 `deep`
        wgmma(sums, left.unchecked, (0, 16 * k, 0), right.unchecked, (0, 16 * k, 0), transpose_a=True, transpose_b=True)
        wgmma_commit()
        wgmma_wait(0)
    for i in unroll(64):
        c[sum_row(i), sum_column(i)] = sums[i]


@on_hopper
@pytest.mark.parametrize("half", [1, 2, 5])
def test_offsets_of_a_descriptor_from_the_launch(gpu: Any, half: int) -> None:
    a, b = whole((64, 16), BF16, 7), whole((8, 16), BF16, 8)
    c = gpu.array(poisoned((64, 8)))
    pieces(gpu.array(a), gpu.array(b), c, half)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float64) @ b.astype(np.float64).T)


@on_hopper
@pytest.mark.parametrize("deep", [1, 3, 8])
def test_a_depth_from_the_launch(gpu: Any, deep: int) -> None:
    a, b = whole((16 * deep, 64), BF16, 9), whole((16 * deep, 128), BF16, 10)
    c = gpu.array(poisoned((64, 128)))
    wide_across(gpu.array(a), gpu.array(b), c, deep)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float64).T @ b.astype(np.float64))


@pytest.mark.parametrize("of", [pieces, wide_across, ring], ids=lambda of: of.name)
def test_products_assemble(of: Any) -> None:
    ptx = of.ptx("sm_90a")
    filecheck(ptx, "CHECK: wgmma.mma_async.sync.aligned.m64n")
    assert assemble(ptx, "sm_90a").spills == 0
    kdsl.checked()
    try:
        assemble(of.ptx("sm_90a"), "sm_90a")
        assert [site for site in of.ir().sites if "the tile is inside" in site.name]
    finally:
        kdsl.checked(False)


def test_what_the_hardware_needs_as_a_number_is_refused() -> None:
    @kernel(grid=1, block=128)
    def long_rows(y: SliceMut[f32], n: i32) -> None:
        tile = shared_array((8, n), f32, swizzle=128)
        y[0] = tile[0, 0]

    @kernel(grid=1, block=128)
    def no_patterns(y: SliceMut[f32], n: i32) -> None:
        left = shared_array((2, n, 64), bf16, swizzle=128)
        right = shared_array((8, 64), bf16, swizzle=128)
        sums = local_array(4, f32)
        wgmma(sums, left.unchecked, (1, 0, 0), right, (0, 0))
        y[0] = sums[0]

    @kernel(grid=1, block=128)
    def operands(y: SliceMut[f32], n: i32) -> None:
        left = shared_array((64, n), bf16)
        right = shared_array((8, 64), bf16, swizzle=128)
        sums = local_array(4, f32)
        wgmma(sums, left.unchecked, (0, 0), right, (0, 0))
        y[0] = sums[0]

    @kernel(grid=1, block=128)
    def two_boxes(x: TensorMap[f32, D2], n: i32) -> None:
        tile = shared_array((n, 32), f32)
        other = shared_array((2 * n, 32), f32)
        full = shared_barriers(1)
        tma_load(tile, (), x, (0, 0), full, 0)
        tma_load(other, (), x, (0, 0), full, 0)

    @kernel(grid=1, block=128)
    def run(x: Slice[f32], n: i32) -> None:
        tile = shared_array((n, 32), f32, swizzle=128)
        full = shared_barriers(1)
        bulk_load(tile, (0, 0), x, 0, 32, full, 0)

    refused(
        long_rows,
        "the rows of `tile` are as long as the launch decides",
        at="128",
        hint="32 elements of f32; other extents may be known to the launch",
    )
    refused(no_patterns, "come in pieces of n, and the pattern of swizzle=128 is 8 rows long", at="left.unchecked", hint="such as 8 * n")
    refused(operands, "the last extent of `left` is n of 2", at="left.unchecked", hint="as long as the swizzle")
    refused(two_boxes, "boxes of n x 32 elsewhere, and of 2 * n x 32 here", at="other", hint="written alike")
    refused(run, "the rows of `tile` are swizzled", at="tile", hint="tensor map")
