"""Matrix products of a warpgroup against NumPy, on GPUs that have them: every layout of the operands, element type and width.

The operands are whole numbers of small size, so every sum is exact and results are compared for equality.
"""

from __future__ import annotations

from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import pytest
from gpus import BF16, on_hopper, poisoned, whole

from kdsl import (
    D2,
    Const,
    Slice,
    SliceMut,
    bf16,
    bits_f16x2,
    f16,
    f16x2_bits,
    f32,
    fence_async_proxy,
    function,
    i8,
    i32,
    i64,
    kernel,
    lane_index,
    ldmatrix,
    local_array,
    shared_array,
    sync_threads,
    thread_index,
    u8,
    u32,
    unroll,
    warp_index,
    wgmma,
    wgmma_commit,
    wgmma_fence,
    wgmma_wait,
)

T = TypeVar("T", bf16, f16, f32, i8, u8)
S = TypeVar("S", f32, i32)


@function
def sum_row(i: i64) -> i64:
    """Row of the accumulator `i` in the 64 of a warpgroup."""
    return 16 * (warp_index() % 4) + lane_index() // 4 + 8 * (i // 2 % 2)


@function
def sum_column(i: i64) -> i64:
    """Column of the accumulator `i`."""
    return 8 * (i // 4) + 2 * (lane_index() % 4) + i % 2


@kernel(grid=1, block=128)
def smallest(a: Slice[bf16, D2], b: Slice[bf16, D2], c: SliceMut[f32, D2]) -> None:
    """C = A B^T of 64 x 16 and 8 x 16, nothing but that."""
    left = shared_array((64, 64), bf16, swizzle=128)
    right = shared_array((8, 64), bf16, swizzle=128)
    t = thread_index()
    for i in range(t, 64 * 16, 128):
        left[i // 16, i % 16] = a[i // 16, i % 16]
    for i in range(t, 8 * 16, 128):
        right[i // 16, i % 16] = b[i // 16, i % 16]
    fence_async_proxy()
    sync_threads()
    sums = local_array(4, f32)
    wgmma_fence()
    wgmma(sums, left, (0, 0), right, (0, 0), accumulate=False)
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(4):
        c[sum_row(i), sum_column(i)] = sums[i]


@on_hopper
def test_the_smallest_product(gpu: Any) -> None:
    a, b = whole((64, 16), BF16, 1), whole((8, 16), BF16, 2)
    c = gpu.array(poisoned((64, 8)))
    smallest(gpu.array(a), gpu.array(b), c)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float64) @ b.astype(np.float64).T)


@kernel(grid=1, block=128)
def along(
    a: Slice[T, D2], b: Slice[T, D2], c: SliceMut[S, D2], N: Const[int], SPAN: Const[int], WIDE: Const[int], STEP: Const[int]
) -> None:
    """C = C + A B^T of 64 x 2 WIDE and N x 2 WIDE, k along the rows of both tiles, in two pieces of WIDE."""
    left = shared_array((2, 64, WIDE), a.dtype, swizzle=SPAN)
    right = shared_array((2, N, WIDE), a.dtype, swizzle=SPAN)
    t = thread_index()
    for i in range(t, 64 * 2 * WIDE, 128):
        left[i % (2 * WIDE) // WIDE, i // (2 * WIDE), i % WIDE] = a[i // (2 * WIDE), i % (2 * WIDE)]
    for i in range(t, N * 2 * WIDE, 128):
        right[i % (2 * WIDE) // WIDE, i // (2 * WIDE), i % WIDE] = b[i // (2 * WIDE), i % (2 * WIDE)]
    fence_async_proxy()
    sync_threads()
    sums = local_array(N // 2, c.dtype)
    for i in unroll(N // 2):
        sums[i] = c[sum_row(i), sum_column(i)]
    wgmma_fence()
    for k in unroll(0, 2 * WIDE, STEP):
        wgmma(sums, left, (k // WIDE, 0, k % WIDE), right, (k // WIDE, 0, k % WIDE))
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(N // 2):
        c[sum_row(i), sum_column(i)] = sums[i]


ALONG = [
    *[(np.dtype(of), 64, span) for of in (BF16, np.float16, np.float32, np.int8, np.uint8) for span in (128,)],
    *[(np.dtype(BF16), 16, span) for span in (0, 32, 64)],
    *[(np.dtype(BF16), n, 128) for n in (8, 24, 128, 200, 256)],
    (np.dtype(np.float32), 256, 64),
    (np.dtype(np.int8), 256, 32),
    (np.dtype(np.int8), 48, 0),
]


def settings(of: np.dtype[Any], span: int) -> dict[str, int]:
    return {"SPAN": span, "WIDE": (span or 16) // of.itemsize, "STEP": 32 // of.itemsize}


@on_hopper
@pytest.mark.parametrize(("of", "n", "span"), ALONG, ids=str)
def test_k_along_the_rows(gpu: Any, of: np.dtype[Any], n: int, span: int) -> None:
    chosen = settings(of, span)
    a, b = whole((64, 2 * chosen["WIDE"]), of, 3), whole((n, 2 * chosen["WIDE"]), of, 4)
    start = whole((64, n), np.int32 if of.kind in "iu" else np.float32, 5, 1000)
    c = gpu.array(start)
    along(gpu.array(a), gpu.array(b), c, n, **chosen)
    np.testing.assert_array_equal(c.numpy(), start + a.astype(np.float64) @ b.astype(np.float64).T)


@kernel(grid=1, block=128)
def across(
    a: Slice[T, D2],
    b: Slice[T, D2],
    c: SliceMut[f32, D2],
    N: Const[int],
    SPAN: Const[int],
    WIDE: Const[int],
    A: Const[bool],
    B: Const[bool],
) -> None:
    """C = A B^T of 64 x 32 and N x 32, with k across the rows of A's tile, of B's, or of both."""
    left = shared_array((64 // WIDE, 32, WIDE) if A else (32 // WIDE, 64, WIDE), a.dtype, swizzle=SPAN)
    right = shared_array((N // WIDE, 32, WIDE) if B else (32 // WIDE, N, WIDE), a.dtype, swizzle=SPAN)
    t = thread_index()
    for i in range(t, 64 * 32, 128):
        row, k = i // 32, i % 32
        if A:
            left[row // WIDE, k, row % WIDE] = a[row, k]
        else:
            left[k // WIDE, row, k % WIDE] = a[row, k]
    for i in range(t, N * 32, 128):
        row, k = i // 32, i % 32
        if B:
            right[row // WIDE, k, row % WIDE] = b[row, k]
        else:
            right[k // WIDE, row, k % WIDE] = b[row, k]
    fence_async_proxy()
    sync_threads()
    sums = local_array(N // 2, f32)
    wgmma_fence()
    for k in unroll(0, 32, 16):
        wgmma(
            sums,
            left,
            (0, k, 0) if A else (k // WIDE, 0, k % WIDE),
            right,
            (0, k, 0) if B else (k // WIDE, 0, k % WIDE),
            transpose_a=A,
            transpose_b=B,
        )
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(N // 2):
        c[sum_row(i), sum_column(i)] = sums[i]


ACROSS = [
    *[(np.dtype(BF16), 64, span, a, b) for span in (0, 32, 64) for a, b in ((True, False), (False, True))],
    (np.dtype(np.float16), 192, 32, True, True),
    (np.dtype(BF16), 256, 64, True, True),
]


@on_hopper
@pytest.mark.parametrize(("of", "n", "span", "a_across", "b_across"), ACROSS, ids=str)
def test_k_across_the_rows(gpu: Any, of: np.dtype[Any], n: int, span: int, a_across: bool, b_across: bool) -> None:
    a, b = whole((64, 32), of, 6), whole((n, 32), of, 7)
    c = gpu.array(poisoned((64, n)))
    across(gpu.array(a), gpu.array(b), c, n, span, (span or 16) // of.itemsize, a_across, b_across)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float64) @ b.astype(np.float64).T)


@kernel(grid=1, block=128)
def across_128(a: Slice[bf16, D2], b: Slice[bf16, D2], c: SliceMut[f32, D2]) -> None:
    """C = A^T B of 32 x 64 and 32 x 256 with swizzle 128: what a gradient of weights needs."""
    left = shared_array((1, 32, 64), bf16, swizzle=128)
    right = shared_array((4, 32, 64), bf16, swizzle=128)
    t = thread_index()
    for i in range(t, 32 * 64, 128):
        left[0, i // 64, i % 64] = a[i // 64, i % 64]
    for i in range(t, 32 * 256, 128):
        right[i % 256 // 64, i // 256, i % 64] = b[i // 256, i % 256]
    fence_async_proxy()
    sync_threads()
    sums = local_array(128, f32)
    wgmma_fence()
    for k in unroll(0, 32, 16):
        wgmma(sums, left, (0, k, 0), right, (0, k, 0), transpose_a=True, transpose_b=True)
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(128):
        c[sum_row(i), sum_column(i)] = sums[i]


@on_hopper
def test_both_operands_across_with_swizzle_128(gpu: Any) -> None:
    a, b = whole((32, 64), BF16, 8), whole((32, 256), BF16, 9)
    c = gpu.array(poisoned((64, 256)))
    across_128(gpu.array(a), gpu.array(b), c)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float64).T @ b.astype(np.float64))


@kernel(grid=1, block=128)
def from_registers(a: Slice[f32, D2], b: Slice[f32, D2], c: SliceMut[f32, D2]) -> None:
    """C = A B^T of 64 x 8 and 32 x 8 in tf32, A in registers."""
    right = shared_array((32, 32), f32, swizzle=128)
    t = thread_index()
    for i in range(t, 32 * 8, 128):
        right[i // 8, i % 8] = b[i // 8, i % 8]
    fence_async_proxy()
    sync_threads()
    row, column = 16 * warp_index() + lane_index() // 4, lane_index() % 4
    fragment = (a[row, column], a[row + 8, column], a[row, column + 4], a[row + 8, column + 4])
    sums = local_array(16, f32)
    wgmma_fence()
    wgmma(sums, fragment, (), right, (0, 0))
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(16):
        c[sum_row(i), sum_column(i)] = sums[i]


@on_hopper
def test_a_in_registers(gpu: Any) -> None:
    a, b = whole((64, 8), np.float32, 10), whole((32, 8), np.float32, 11)
    c = gpu.array(poisoned((64, 32)))
    from_registers(gpu.array(a), gpu.array(b), c)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float64) @ b.astype(np.float64).T)


@kernel(grid=1, block=128)
def from_ldmatrix(a: Slice[bf16, D2], b: Slice[bf16, D2], c: SliceMut[f32, D2]) -> None:
    """C = A B^T of 64 x 64 and 16 x 64 in bf16, A loaded into registers from a swizzled array."""
    left = shared_array((64, 64), bf16, swizzle=128)
    right = shared_array((16, 64), bf16, swizzle=128)
    t = thread_index()
    for i in range(t, 64 * 64, 128):
        left[i // 64, i % 64] = a[i // 64, i % 64]
    for i in range(t, 16 * 64, 128):
        right[i // 64, i % 64] = b[i // 64, i % 64]
    fence_async_proxy()
    sync_threads()
    sums = local_array(8, f32)
    row, column = 16 * warp_index() + lane_index() % 16, 8 * (lane_index() // 16)
    fragments = local_array((4, 4), u32)
    for k in unroll(4):
        fragments[k, :] = ldmatrix(left, (row, 16 * k + column))
    wgmma_fence()  # behind everything that wrote to registers of the products
    for k in unroll(4):
        wgmma(sums, fragments[k, :], (), right, (0, 16 * k), accumulate=k > 0)
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(8):
        c[sum_row(i), sum_column(i)] = sums[i]


@on_hopper
def test_a_from_ldmatrix(gpu: Any) -> None:
    a, b = whole((64, 64), BF16, 14), whole((16, 64), BF16, 15)
    c = gpu.array(poisoned((64, 16)))
    from_ldmatrix(gpu.array(a), gpu.array(b), c)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.float64) @ b.astype(np.float64).T)


@kernel(grid=1, block=128)
def eights(
    a: Slice[u8, D2], b: Slice[u8, D2], c: SliceMut[f32, D2], N: Const[int], A: Const[bool], B: Const[bool], REGISTERS: Const[bool]
) -> None:
    """C = C + A B^T of 64 x 128 and N x 128 in floats of 8 bits: of each operand e5m2 or else e4m3; A in shared memory or registers."""
    left = shared_array((64, 128), u8, swizzle=128)
    right = shared_array((N, 128), u8, swizzle=128)
    t = thread_index()
    for i in range(t, 64 * 128, 128):
        left[i // 128, i % 128] = a[i // 128, i % 128]
    for i in range(t, N * 128, 128):
        right[i // 128, i % 128] = b[i // 128, i % 128]
    fence_async_proxy()
    sync_threads()
    row, column = 16 * warp_index() + lane_index() % 16, 16 * (lane_index() // 16)
    fragments = local_array((4, 4), u32)
    for k in unroll(4):
        if REGISTERS:
            fragments[k, :] = ldmatrix(left, (row, 32 * k + column))
    sums = local_array(N // 2, f32)
    for i in unroll(N // 2):
        sums[i] = c[sum_row(i), sum_column(i)]
    wgmma_fence()
    for k in unroll(4):
        if REGISTERS:
            wgmma(sums, fragments[k, :], (), right, (0, 32 * k), type=("e5m2" if A else "e4m3", "e5m2" if B else "e4m3"))
        else:
            wgmma(sums, left, (0, 32 * k), right, (0, 32 * k), type=("e5m2" if A else "e4m3", "e5m2" if B else "e4m3"))
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(N // 2):
        c[sum_row(i), sum_column(i)] = sums[i]


E4M3, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
EIGHTS = [(E4M3, E4M3, 8, False), (E4M3, E5M2, 24, True), (E5M2, E4M3, 136, False), (E5M2, E5M2, 64, True)]


@on_hopper
@pytest.mark.parametrize(("a_of", "b_of", "n", "registers"), EIGHTS, ids=str)
def test_floats_of_eight_bits(gpu: Any, a_of: np.dtype[Any], b_of: np.dtype[Any], n: int, registers: bool) -> None:
    a, b = whole((64, 128), a_of, 16), whole((n, 128), b_of, 17)
    start = whole((64, n), np.float32, 18, 16)  # small: sums of such products keep few bits
    c = gpu.array(start)
    eights(gpu.array(a.view(np.uint8)), gpu.array(b.view(np.uint8)), c, n, a_of == E5M2, b_of == E5M2, registers)
    np.testing.assert_array_equal(c.numpy(), start + a.astype(np.float64) @ b.astype(np.float64).T)


@kernel(grid=1, block=128)
def short_sums(
    a: Slice[T, D2], b: Slice[T, D2], c: SliceMut[f16, D2], N: Const[int], K: Const[int], B: Const[bool], FRESH: Const[bool]
) -> None:
    """C = C + A B^T of 64 x 2 K and N x 2 K with sums in f16, of f16 or of floats of 8 bits; without C if FRESH."""
    left = shared_array((64, 2 * K), a.dtype, swizzle=64)
    right = shared_array((N, 2 * K), a.dtype, swizzle=64)
    t = thread_index()
    for i in range(t, 64 * 2 * K, 128):
        left[i // (2 * K), i % (2 * K)] = a[i // (2 * K), i % (2 * K)]
    for i in range(t, N * 2 * K, 128):
        right[i // (2 * K), i % (2 * K)] = b[i // (2 * K), i % (2 * K)]
    fence_async_proxy()
    sync_threads()
    sums = local_array(N // 4, u32)
    for i in unroll(N // 4):
        row, column = sum_row(2 * i), sum_column(2 * i)
        sums[i] = f16x2_bits(f32(c[row, column]), f32(c[row, column + 1]))
    wgmma_fence()
    for k in unroll(2):
        if K == 16:
            wgmma(sums, left, (0, K * k), right, (0, K * k), accumulate=k > 0 or not FRESH)
        else:
            wgmma(sums, left, (0, K * k), right, (0, K * k), accumulate=k > 0 or not FRESH, type="e5m2" if B else "e4m3")
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(N // 4):
        low, high = bits_f16x2(sums[i])
        c[sum_row(2 * i), sum_column(2 * i)] = f16(low)
        c[sum_row(2 * i), sum_column(2 * i) + 1] = f16(high)


SHORT = [
    (np.dtype(np.float16), 8, True),
    (np.dtype(np.float16), 200, False),
    (np.dtype(np.float16), 256, False),
    (E4M3, 24, False),
    (E5M2, 128, True),
]


def short_settings(of: np.dtype[Any]) -> dict[str, Any]:
    return {"K": 32 // of.itemsize, "B": of == E5M2}


@on_hopper
@pytest.mark.parametrize(("of", "n", "fresh"), SHORT, ids=str)
def test_sums_of_sixteen_bits(gpu: Any, of: np.dtype[Any], n: int, fresh: bool) -> None:
    chosen = short_settings(of)
    a, b = whole((64, 2 * chosen["K"]), of, 21), whole((n, 2 * chosen["K"]), of, 22, 2)
    start = whole((64, n), np.float16, 23, 16)
    held = np.dtype(np.uint8) if of.itemsize == 1 else of
    c = gpu.array(poisoned((64, n), np.float16) if fresh else start)
    short_sums(gpu.array(a.view(held)), gpu.array(b.view(held)), c, n, FRESH=fresh, **chosen)
    np.testing.assert_array_equal(c.numpy(), (0 if fresh else start) + a.astype(np.float64) @ b.astype(np.float64).T)


@kernel(grid=1, block=128)
def mixed(a: Slice[u8, D2], b: Slice[i8, D2], c: SliceMut[i32, D2]) -> None:
    """C = A B^T of 64 x 32 and 16 x 32, bytes without sign times bytes with one."""
    left = shared_array((64, 32), u8, swizzle=32)
    right = shared_array((16, 32), i8, swizzle=32)
    t = thread_index()
    for i in range(t, 64 * 32, 128):
        left[i // 32, i % 32] = a[i // 32, i % 32]
    for i in range(t, 16 * 32, 128):
        right[i // 32, i % 32] = b[i // 32, i % 32]
    fence_async_proxy()
    sync_threads()
    sums = local_array(8, i32)
    wgmma_fence()
    wgmma(sums, left, (0, 0), right, (0, 0), accumulate=False)
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(8):
        c[sum_row(i), sum_column(i)] = sums[i]


@on_hopper
def test_bytes_of_which_one_has_a_sign(gpu: Any) -> None:
    a, b = whole((64, 32), np.uint8, 19, 255), whole((16, 32), np.int8, 20, 127)
    c = gpu.array(poisoned((64, 16), np.int32))
    mixed(gpu.array(a), gpu.array(b), c)
    np.testing.assert_array_equal(c.numpy(), a.astype(np.int64) @ b.astype(np.int64).T)
