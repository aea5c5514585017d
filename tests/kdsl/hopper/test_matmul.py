"""A whole matrix product: a warp that loads tiles by tensor maps into a ring of stages, and two warpgroups that multiply them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gpus import BF16, LIMIT, on_hopper, poisoned, whole

from kdsl import (
    D2,
    Const,
    SliceMut,
    TensorMap,
    barrier_arrive,
    barrier_arrive_expect,
    barrier_arrive_named,
    barrier_arrive_remote,
    barrier_init,
    barrier_sync,
    barrier_wait,
    bf16,
    bf16x2_bits,
    block_idx,
    cluster_rank,
    commit_stores,
    decrease_registers,
    elect_one,
    f32,
    fence_async_proxy,
    fence_barrier_init,
    grid_dim,
    increase_registers,
    is_first_lane,
    is_first_thread,
    kernel,
    lane_index,
    local_array,
    shared_array,
    shared_barriers,
    shuffle,
    stmatrix,
    sync_cluster,
    sync_threads,
    tensor_map,
    thread_idx,
    tile_index,
    tiles,
    tma_load,
    tma_load_multicast,
    tma_store,
    u32,
    unroll,
    wait_stores,
    warp_group_index,
    warp_index,
    wgmma,
    wgmma_commit,
    wgmma_fence,
    wgmma_wait,
)

ROWS, COLUMNS, DEPTH = 128, 128, 64


@kernel(
    grid=tiles(rows="c.shape[0]", columns="c.shape[1]", tile=(ROWS, COLUMNS)),
    block=384,
    requires=("a.shape[1] == b.shape[1]", "c.shape[0] == a.shape[0]", "c.shape[1] == b.shape[0]"),
    spills=False,
)
def matmul(a: TensorMap[bf16, D2], b: TensorMap[bf16, D2], c: SliceMut[f32, D2], STAGES: Const[int]) -> None:
    """C = A B^T, a tile of 128 x 128 per block."""
    left = shared_array((STAGES, ROWS, DEPTH), bf16, swizzle=128)
    right = shared_array((STAGES, COLUMNS, DEPTH), bf16, swizzle=128)
    full = shared_barriers(STAGES)
    empty = shared_barriers(STAGES)
    if is_first_thread():
        for s in unroll(STAGES):
            barrier_init(full, s, 1)
            barrier_init(empty, s, 2)
        fence_barrier_init()
    sync_threads()
    tile = tile_index()
    group = warp_group_index()
    steps = (a.shape[1] + DEPTH - 1) // DEPTH
    if group == 2:
        if warp_index() == 8 and is_first_lane():
            for k in range(steps):
                s = k % STAGES
                barrier_wait(empty, s, k // STAGES + 1, timeout=LIMIT)
                barrier_arrive_expect(full, s, (left.nbytes + right.nbytes) // STAGES)
                tma_load(left, s, a, (tile.row, DEPTH * k), full, s)
                tma_load(right, s, b, (tile.column, DEPTH * k), full, s)
    else:
        sums = local_array(COLUMNS // 2, f32)
        for k in range(steps):
            s = k % STAGES
            barrier_wait(full, s, k // STAGES, timeout=LIMIT)
            wgmma_fence()
            for kk in unroll(0, DEPTH, 16):
                wgmma(sums, left, (s, 64 * group, kk), right, (s, 0, kk))
            wgmma_commit()
            wgmma_wait(0)
            if thread_idx.x % 128 == 0:
                barrier_arrive(empty, s)
        row = tile.row + 16 * warp_index() + lane_index() // 4
        column = tile.column + 2 * (lane_index() % 4)
        for i in unroll(COLUMNS // 2):
            y, x = row + 8 * (i // 2 % 2), column + 8 * (i // 4) + i % 2
            if y < c.shape[0] and x < c.shape[1]:
                c[y, x] = sums[i]


SIZES = [(128, 128, 64), (1, 1, 8), (128, 128, 256), (200, 136, 72), (31, 33, 520), (257, 300, 1000), (1000, 1032, 520)]


@on_hopper
@pytest.mark.parametrize("stages", [1, 4])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_product_is_exact_where_sums_are(gpu: Any, size: tuple[int, int, int], stages: int) -> None:
    m, n, k = size
    a, b = whole((m, k), BF16, 1), whole((n, k), BF16, 2)
    c = gpu.array(poisoned((m, n)))
    matmul(gpu.array(a), gpu.array(b), c, stages)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float64) @ b.astype(np.float64).T)


@on_hopper
def test_the_product_of_random_numbers_is_close_and_the_same_each_time(gpu: Any) -> None:
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(shape).astype(BF16) for shape in ((300, 2048), (200, 2048)))
    maps = [tensor_map(gpu.array(x), (128, 64), swizzle=128) for x in (a, b)]
    results = []
    for _ in range(2):
        c = gpu.array(poisoned((300, 200)))
        matmul(*maps, c, 4)
        results.append(c.numpy())
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)).T
    assert np.max(np.abs(results[0] - exact) / scale) < 1e-5
    np.testing.assert_array_equal(results[0], results[1])


@kernel(
    grid=(8,),
    block=384,
    requires=("a.shape[1] == b.shape[1]", "c.shape[0] == a.shape[0]", "c.shape[1] == b.shape[0]"),
    spills=False,
)
def persistent(a: TensorMap[bf16, D2], b: TensorMap[bf16, D2], c: TensorMap[bf16, D2], STAGES: Const[int]) -> None:
    """The same with blocks that go from tile to tile, results in bf16, which leave through a swizzled tile and the copy engine."""
    left = shared_array((STAGES, ROWS, DEPTH), bf16, swizzle=128)
    right = shared_array((STAGES, COLUMNS, DEPTH), bf16, swizzle=128)
    out = shared_array((2, COLUMNS // 64, 64, 64), bf16, swizzle=128)
    full = shared_barriers(STAGES)
    empty = shared_barriers(STAGES)
    if is_first_thread():
        for s in unroll(STAGES):
            barrier_init(full, s, 1)
            barrier_init(empty, s, 2)
        fence_barrier_init()
    sync_threads()
    group = warp_group_index()
    steps = (a.shape[1] + DEPTH - 1) // DEPTH
    across = (c.shape[1] + COLUMNS - 1) // COLUMNS
    count = across * ((c.shape[0] + ROWS - 1) // ROWS)
    k = 0
    if group == 2:
        if warp_index() == 8 and is_first_lane():
            for tile in range(block_idx.x, count, grid_dim.x):
                for step in range(steps):
                    s = k % STAGES
                    barrier_wait(empty, s, k // STAGES + 1, timeout=LIMIT)
                    barrier_arrive_expect(full, s, (left.nbytes + right.nbytes) // STAGES)
                    tma_load(left, s, a, (tile // across * ROWS, DEPTH * step), full, s)
                    tma_load(right, s, b, (tile % across * COLUMNS, DEPTH * step), full, s, evict="last")
                    k += 1
    else:
        for tile in range(block_idx.x, count, grid_dim.x):
            sums = local_array(COLUMNS // 2, f32)
            first = shuffle(u32(k), 0)  # so the assembler knows that all lanes have the same stage
            for step in range(steps):
                s, turn = (first + u32(step)) % STAGES, (first + u32(step)) // STAGES
                barrier_wait(full, s, turn, timeout=LIMIT)
                wgmma_fence()
                for kk in unroll(0, DEPTH, 16):
                    wgmma(sums, left, (s, 64 * group, kk), right, (s, 0, kk))
                wgmma_commit()
                wgmma_wait(0)
                if thread_idx.x % 128 == 0:
                    barrier_arrive(empty, s)
            k += steps
            if thread_idx.x % 128 == 0:
                wait_stores()
            barrier_sync(1 + group, 128)
            row, column = 16 * (warp_index() % 4) + lane_index() // 4, 2 * (lane_index() % 4)
            for i in unroll(COLUMNS // 2):
                out[group, i // 32, row + 8 * (i // 2 % 2), column + 8 * (i // 4 % 8) + i % 2] = bf16(sums[i])
            fence_async_proxy()
            barrier_sync(1 + group, 128)
            if thread_idx.x % 128 == 0:
                for chunk in unroll(COLUMNS // 64):
                    tma_store(c, (tile // across * ROWS + 64 * group, tile % across * COLUMNS + 64 * chunk), out, (group, chunk))
                commit_stores()
        if thread_idx.x % 128 == 0:
            wait_stores()


@on_hopper
@pytest.mark.parametrize("size", [(128, 128, 64), (1, 8, 8), (200, 136, 72), (1000, 1032, 520)], ids=str)
def test_blocks_that_go_from_tile_to_tile(gpu: Any, size: tuple[int, int, int]) -> None:
    m, n, k = size
    a, b = whole((m, k), BF16, 1), whole((n, k), BF16, 2)
    c = gpu.array(poisoned((m, n)).astype(BF16))
    persistent(gpu.array(a), gpu.array(b), c, 4)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_array_equal(c.numpy(), exact.astype(ml_dtypes.bfloat16))


@kernel(
    grid=(6,),
    block=384,
    requires=("a.shape[1] == b.shape[1]", "c.shape[0] == a.shape[0]", "c.shape[1] == b.shape[0]"),
    spills=False,
)
def in_turn(a: TensorMap[bf16, D2], b: TensorMap[bf16, D2], c: TensorMap[bf16, D2], STAGES: Const[int]) -> None:
    """The same, but each of the two warpgroups has tiles of its own, and one multiplies while the other stores."""
    left = shared_array((STAGES, ROWS, DEPTH), bf16, swizzle=128)
    right = shared_array((STAGES, COLUMNS, DEPTH), bf16, swizzle=128)
    out = shared_array((2, COLUMNS // 64, ROWS, 64), bf16, swizzle=128)
    full = shared_barriers(STAGES)
    empty = shared_barriers(STAGES)
    if is_first_thread():
        for s in unroll(STAGES):
            barrier_init(full, s, 1)
            barrier_init(empty, s, 1)
        fence_barrier_init()
    sync_threads()
    group = warp_group_index()
    steps = (a.shape[1] + DEPTH - 1) // DEPTH
    across = (c.shape[1] + COLUMNS - 1) // COLUMNS
    count = across * ((c.shape[0] + ROWS - 1) // ROWS)
    if group == 2:
        decrease_registers(40)
        if warp_index() == 8 and elect_one():
            k = 0
            for tile in range(block_idx.x, count, grid_dim.x):
                for step in range(steps):
                    s = k % STAGES
                    barrier_wait(empty, s, k // STAGES + 1, timeout=LIMIT)
                    barrier_arrive_expect(full, s, (left.nbytes + right.nbytes) // STAGES)
                    tma_load(left, s, a, (tile // across * ROWS, DEPTH * step), full, s)
                    tma_load(right, s, b, (tile % across * COLUMNS, DEPTH * step), full, s)
                    k += 1
    else:
        increase_registers(232)
        k = group * steps
        if group == 1:
            barrier_arrive_named(1, 256)  # the first turn is that of warpgroup 0
        for tile in range(block_idx.x + group * grid_dim.x, count, 2 * grid_dim.x):
            upper, lower = local_array(COLUMNS // 2, f32), local_array(COLUMNS // 2, f32)
            barrier_sync(1 + group, 256)
            first = shuffle(u32(k), 0)  # so the assembler knows that all lanes have the same stage
            for step in range(steps):
                s, turn = (first + u32(step)) % STAGES, (first + u32(step)) // STAGES
                barrier_wait(full, s, turn, timeout=LIMIT)
                wgmma_fence()
                for kk in unroll(0, DEPTH, 16):
                    wgmma(upper, left, (s, 0, kk), right, (s, 0, kk))
                    wgmma(lower, left, (s, 64, kk), right, (s, 0, kk))
                wgmma_commit()
                wgmma_wait(0)
                if thread_idx.x % 128 == 0:
                    barrier_arrive(empty, s)
            barrier_arrive_named(2 - group, 256)
            k += 2 * steps  # and the other's tile
            if thread_idx.x % 128 == 0:
                wait_stores()
            barrier_sync(3 + group, 128)
            row, column = 16 * (warp_index() % 4) + lane_index() % 16, 8 * (lane_index() // 16)
            for i in unroll(0, COLUMNS // 2, 8):
                chunk, place = i // 32, i // 8 % 4 * 16 + column
                packed = (
                    bf16x2_bits(upper[i], upper[i + 1]),
                    bf16x2_bits(upper[i + 2], upper[i + 3]),
                    bf16x2_bits(upper[i + 4], upper[i + 5]),
                    bf16x2_bits(upper[i + 6], upper[i + 7]),
                )
                stmatrix(out, (group, chunk, row, place), packed)
                packed_lower = (
                    bf16x2_bits(lower[i], lower[i + 1]),
                    bf16x2_bits(lower[i + 2], lower[i + 3]),
                    bf16x2_bits(lower[i + 4], lower[i + 5]),
                    bf16x2_bits(lower[i + 6], lower[i + 7]),
                )
                stmatrix(out, (group, chunk, 64 + row, place), packed_lower)
            fence_async_proxy()
            barrier_sync(3 + group, 128)
            if thread_idx.x % 128 == 0:
                for chunk in unroll(COLUMNS // 64):
                    tma_store(c, (tile // across * ROWS, tile % across * COLUMNS + 64 * chunk), out, (group, chunk))
                commit_stores()
        if thread_idx.x % 128 == 0:
            wait_stores()


@kernel(
    grid=("(c.shape[1] + 127) // 128", "2 * ((c.shape[0] + 255) // 256)"),
    block=384,
    cluster=(1, 2),
    requires=("a.shape[1] == b.shape[1]", "c.shape[0] == a.shape[0]", "c.shape[1] == b.shape[0]"),
    spills=False,
)
def in_pairs(a: TensorMap[bf16, D2], b: TensorMap[bf16, D2], c: SliceMut[f32, D2], STAGES: Const[int]) -> None:
    """Clusters of two blocks, one above the other: each loads half of the tile of B for both."""
    left = shared_array((STAGES, ROWS, DEPTH), bf16, swizzle=128)
    right = shared_array((STAGES, 2, COLUMNS // 2, DEPTH), bf16, swizzle=128)
    full = shared_barriers(STAGES)
    empty = shared_barriers(STAGES)
    if is_first_thread():
        for s in unroll(STAGES):
            barrier_init(full, s, 1)
            barrier_init(empty, s, 4)
        fence_barrier_init()
    sync_cluster()
    group, rank = warp_group_index(), cluster_rank()
    first, column = block_idx.y * ROWS, block_idx.x * COLUMNS
    steps = (a.shape[1] + DEPTH - 1) // DEPTH
    if group == 2:
        if warp_index() == 8 and is_first_lane():
            for k in range(steps):
                s = k % STAGES
                barrier_wait(empty, s, k // STAGES + 1, timeout=LIMIT)
                barrier_arrive_expect(full, s, (left.nbytes + right.nbytes) // STAGES)
                tma_load(left, s, a, (first, DEPTH * k), full, s)
                tma_load_multicast(right, (s, rank), b, (column + 64 * rank, DEPTH * k), full, s, 3)
    else:
        sums = local_array(COLUMNS // 2, f32)
        for k in range(steps):
            s = k % STAGES
            barrier_wait(full, s, k // STAGES, timeout=LIMIT)
            wgmma_fence()
            for kk in unroll(0, DEPTH, 16):
                wgmma(sums, left, (s, 64 * group, kk), right, (s, 0, 0, kk))
            wgmma_commit()
            wgmma_wait(0)
            if thread_idx.x % 128 < 2:  # a stage is free when neither block needs it
                barrier_arrive_remote(empty, s, u32(thread_idx.x % 128))
        row = first + 16 * warp_index() + lane_index() // 4
        for i in unroll(COLUMNS // 2):
            y, x = row + 8 * (i // 2 % 2), column + 2 * (lane_index() % 4) + 8 * (i // 4) + i % 2
            if y < c.shape[0] and x < c.shape[1]:
                c[y, x] = sums[i]
    sync_cluster()  # nobody ends while the other block still writes to it


@on_hopper
@pytest.mark.parametrize("size", [(128, 128, 64), (1, 8, 8), (300, 136, 72), (1000, 1032, 520)], ids=str)
def test_warpgroups_that_take_turns(gpu: Any, size: tuple[int, int, int]) -> None:
    m, n, k = size
    a, b = whole((m, k), BF16, 1), whole((n, k), BF16, 2)
    c = gpu.array(poisoned((m, n)).astype(BF16))
    in_turn(gpu.array(a), gpu.array(b), c, 4)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_array_equal(c.numpy(), exact.astype(ml_dtypes.bfloat16))


@on_hopper
@pytest.mark.parametrize("size", [(256, 128, 64), (1, 1, 8), (300, 136, 72), (1000, 1032, 520)], ids=str)
def test_blocks_that_load_for_each_other(gpu: Any, size: tuple[int, int, int]) -> None:
    m, n, k = size
    a, b = whole((m, k), BF16, 1), whole((n, k), BF16, 2)
    c = gpu.array(poisoned((m, n)))
    in_pairs(gpu.array(a), gpu.array(b), c, 4)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float64) @ b.astype(np.float64).T)


@kernel(
    grid=(5,),
    block=384,
    requires=("a.shape[1] == b.shape[0]", "c.shape[0] == a.shape[0]", "c.shape[1] == b.shape[1]"),
    spills=False,
)
def wide(a: TensorMap[bf16, D2], b: TensorMap[bf16, D2], c: TensorMap[bf16, D2], STAGES: Const[int]) -> None:
    """C = A B, tiles of 128 x 256, with k across the rows of B's tile; results leave in pieces of 64 columns."""
    left = shared_array((STAGES, ROWS, DEPTH), bf16, swizzle=128)
    right = shared_array((STAGES, 4, DEPTH, 64), bf16, swizzle=128)
    out = shared_array((2, 2, 64, 64), bf16, swizzle=128)
    full = shared_barriers(STAGES)
    empty = shared_barriers(STAGES)
    if is_first_thread():
        for s in unroll(STAGES):
            barrier_init(full, s, 1)
            barrier_init(empty, s, 2)
        fence_barrier_init()
    sync_threads()
    group = warp_group_index()
    steps = (a.shape[1] + DEPTH - 1) // DEPTH
    across = (c.shape[1] + 255) // 256
    count = across * ((c.shape[0] + ROWS - 1) // ROWS)
    k = 0
    if group == 2:
        decrease_registers(40)
        if warp_index() == 8 and elect_one():
            for tile in range(block_idx.x, count, grid_dim.x):
                for step in range(steps):
                    s = k % STAGES
                    barrier_wait(empty, s, k // STAGES + 1, timeout=LIMIT)
                    barrier_arrive_expect(full, s, (left.nbytes + right.nbytes) // STAGES)
                    tma_load(left, s, a, (tile // across * ROWS, DEPTH * step), full, s)
                    for piece in unroll(4):
                        tma_load(right, (s, piece), b, (DEPTH * step, tile % across * 256 + 64 * piece), full, s)
                    k += 1
    else:
        increase_registers(232)
        for tile in range(block_idx.x, count, grid_dim.x):
            sums = local_array(128, f32)
            first = shuffle(u32(k), 0)
            for step in range(steps):
                s, turn = (first + u32(step)) % STAGES, (first + u32(step)) // STAGES
                barrier_wait(full, s, turn, timeout=LIMIT)
                wgmma_fence()
                for kk in unroll(0, DEPTH, 16):
                    wgmma(sums, left, (s, 64 * group, kk), right, (s, 0, kk, 0), transpose_b=True)
                wgmma_commit()
                wgmma_wait(0)
                if thread_idx.x % 128 == 0:
                    barrier_arrive(empty, s)
            k += steps
            row, column = 16 * (warp_index() % 4) + lane_index() % 16, 8 * (lane_index() // 16)
            for piece in unroll(4):
                if thread_idx.x % 128 == 0:
                    wait_stores(1)  # the piece before the last has been read
                barrier_sync(1 + group, 128)
                for i in unroll(32 * piece, 32 * piece + 32, 8):
                    packed = (
                        bf16x2_bits(sums[i], sums[i + 1]),
                        bf16x2_bits(sums[i + 2], sums[i + 3]),
                        bf16x2_bits(sums[i + 4], sums[i + 5]),
                        bf16x2_bits(sums[i + 6], sums[i + 7]),
                    )
                    stmatrix(out, (group, piece % 2, row, i % 32 * 2 + column), packed)
                fence_async_proxy()
                barrier_sync(1 + group, 128)
                if thread_idx.x % 128 == 0:
                    tma_store(c, (tile // across * ROWS + 64 * group, tile % across * 256 + 64 * piece), out, (group, piece % 2))
                    commit_stores()
        if thread_idx.x % 128 == 0:
            wait_stores()


@on_hopper
@pytest.mark.parametrize("size", [(128, 256, 64), (1, 8, 8), (300, 136, 72), (1000, 1032, 520)], ids=str)
def test_tiles_of_128_by_256_with_k_across(gpu: Any, size: tuple[int, int, int]) -> None:
    m, n, k = size
    a, b = whole((m, k), BF16, 1), whole((k, n), BF16, 2)
    c = gpu.array(poisoned((m, n)).astype(BF16))
    wide(gpu.array(a), gpu.array(b), c, 4)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(c.numpy(), exact.astype(ml_dtypes.bfloat16))
