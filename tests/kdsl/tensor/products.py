"""Matrix products on tensor cores for matrices of any size: double-buffered asynchronous copies, zeros beyond the edge, `ldmatrix`, `mma`.

A kernel per way in which operands reach the lanes. All take views of two dimensions whose rows begin at multiples of 16 bytes; a block of two warps makes a
tile of 32 x 16.
"""

from __future__ import annotations

from typing import Any, TypeVar

from kdsl import (
    D2,
    Slice,
    SliceMut,
    bf16,
    bits_f16x2,
    bits_float,
    commit_copies,
    copy_async,
    f16,
    f32,
    f64,
    float_bits,
    function,
    i8,
    i32,
    i64,
    kernel,
    lane_index,
    ldmatrix,
    local_array,
    mma,
    mma_a_column,
    mma_a_row,
    mma_b_column,
    mma_b_row,
    mma_column,
    mma_row,
    shared_array,
    sync_threads,
    thread_idx,
    tile_index,
    tiles,
    to_tf32,
    u8,
    u32,
    unroll,
    wait_copies,
    warp_index,
)

T = TypeVar("T", f16, bf16)
U = TypeVar("U", i8, u8)
V = TypeVar("V", i8, u8)
GRID = tiles(rows="c.shape[0]", columns="c.shape[1]", tile=(32, 16))
CONTRACT = ("a.shape[0] == c.shape[0]", "b.shape[1] == c.shape[1]", "a.shape[1] == b.shape[0]")
TRANSPOSED = ("a.shape[0] == c.shape[0]", "b.shape[0] == c.shape[1]", "a.shape[1] == b.shape[1]")


@function
def copy_tile(tile: Any, stage: i64, x: Any, row: i64, column: i64, count: i64) -> None:
    """Begin to copy a tile of x with its corner at (row, column), in chunks of `count` elements; what lies outside of x becomes 0."""
    chunks = tile.shape[2] // count
    for piece in range(thread_idx.x, tile.shape[1] * chunks, 64):
        r, c = piece // chunks, piece % chunks * count
        valid = x.shape[1] - column - c if row + r < x.shape[0] else 0
        copy_async(tile, (stage, r, c), x, (row + r, column + c), count, valid=valid)


@function
def store_tile(c: Any, total: Any, row: i64, column: i64) -> None:
    """The two products of a warp, as far as they lie inside."""
    for j in unroll(2):
        for i in unroll(4):
            y, x = row + mma_row(i), column + j * 8 + mma_column(i)
            if y < c.shape[0] and x < c.shape[1]:
                c[y, x] = total[j, i]


@kernel(grid=GRID, block=64, requires=CONTRACT)
def by_pairs(c: SliceMut[f32, D2], a: Slice[T, D2], b: Slice[T, D2]) -> None:
    """f16 and bf16, steps of 16; B as it lies, transposed on its way to the registers."""
    a_tile, b_tile = shared_array((2, 32, 16), a.dtype), shared_array((2, 16, 16), b.dtype)
    tile, lane, first = tile_index(), lane_index(), warp_index() * 16
    total = local_array((2, 4), f32)
    steps = (a.shape[1] + 15) // 16
    copy_tile(a_tile, 0, a, tile.row, 0, 8)
    copy_tile(b_tile, 0, b, 0, tile.column, 8)
    commit_copies()
    for step in range(steps):
        if step + 1 < steps:
            copy_tile(a_tile, (step + 1) % 2, a, tile.row, (step + 1) * 16, 8)
            copy_tile(b_tile, (step + 1) % 2, b, (step + 1) * 16, tile.column, 8)
        commit_copies()
        wait_copies(1)
        sync_threads()
        x = ldmatrix(a_tile, (step % 2, first + lane % 16, lane // 16 * 8))
        y = ldmatrix(b_tile, (step % 2, lane % 16, lane // 16 * 8), transpose=True)
        total[0, :] = mma(x, (y[0], y[1]), total[0, :], "m16n8k16", a.dtype)
        total[1, :] = mma(x, (y[2], y[3]), total[1, :], shape="m16n8k16", type=b.dtype)
        sync_threads()
    store_tile(c, total, tile.row + first, tile.column)


@kernel(grid=GRID, block=64, requires=CONTRACT)
def in_f16(c: SliceMut[f16, D2], a: Slice[f16, D2], b: Slice[f16, D2]) -> None:
    """f16 with accumulators of f16, steps of 8."""
    a_tile, b_tile = shared_array((2, 32, 8), f16), shared_array((2, 8, 16), f16)
    tile, lane, first = tile_index(), lane_index(), warp_index() * 16
    total = local_array((2, 2), u32)
    steps = (a.shape[1] + 7) // 8
    copy_tile(a_tile, 0, a, tile.row, 0, 8)
    copy_tile(b_tile, 0, b, 0, tile.column, 8)
    commit_copies()
    for step in range(steps):
        if step + 1 < steps:
            copy_tile(a_tile, (step + 1) % 2, a, tile.row, (step + 1) * 8, 8)
            copy_tile(b_tile, (step + 1) % 2, b, (step + 1) * 8, tile.column, 8)
        commit_copies()
        wait_copies(1)
        sync_threads()
        x = ldmatrix(a_tile, (step % 2, first + lane % 16, 0), 2)
        y = ldmatrix(b_tile, (step % 2, lane % 8, lane // 8 % 2 * 8), 2, transpose=True)
        for j in unroll(2):
            total[j, :] = mma(x, (y[j],), total[j, :], "m16n8k8", f16)
        sync_threads()
    numbers = local_array((2, 4), f16)
    for j in unroll(2):
        for half in unroll(2):
            low, high = bits_f16x2(total[j, half])
            numbers[j, 2 * half : 2 * half + 2] = (f16(low), f16(high))
    store_tile(c, numbers, tile.row + first, tile.column)


@function
def rounded(register: u32) -> u32:
    return u32(float_bits(to_tf32(bits_float(i32(register)))))


@kernel(grid=GRID, block=64, requires=TRANSPOSED)
def by_tf32(c: SliceMut[f32, D2], a: Slice[f32, D2], b: Slice[f32, D2]) -> None:
    """f32 rounded to tf32 in registers, steps of 8; B transposed in memory, because 32-bit elements are not transposed on the way."""
    a_tile, b_tile = shared_array((2, 32, 8), f32), shared_array((2, 16, 8), f32)
    tile, lane, first = tile_index(), lane_index(), warp_index() * 16
    total = local_array((2, 4), f32)
    x, y = local_array(4, u32), local_array(4, u32)
    steps = (a.shape[1] + 7) // 8
    copy_tile(a_tile, 0, a, tile.row, 0, 4)
    copy_tile(b_tile, 0, b, tile.column, 0, 4)
    commit_copies()
    for step in range(steps):
        if step + 1 < steps:
            copy_tile(a_tile, (step + 1) % 2, a, tile.row, (step + 1) * 8, 4)
            copy_tile(b_tile, (step + 1) % 2, b, tile.column, (step + 1) * 8, 4)
        commit_copies()
        wait_copies(1)
        sync_threads()
        x[:] = ldmatrix(a_tile, (step % 2, first + lane % 16, lane // 16 * 4))
        y[:] = ldmatrix(b_tile, (step % 2, lane % 8 + lane // 16 * 8, lane // 8 % 2 * 4))
        for i in unroll(4):
            x[i], y[i] = rounded(x[i]), rounded(y[i])
        for j in unroll(2):
            total[j, :] = mma(x[:], y[2 * j : 2 * j + 2], total[j, :], "m16n8k8", "tf32")
        sync_threads()
    store_tile(c, total, tile.row + first, tile.column)


@kernel(grid=GRID, block=64, requires=TRANSPOSED)
def by_bytes(c: SliceMut[i32, D2], a: Slice[U, D2], b: Slice[V, D2]) -> None:
    """Integers of 8 bits, steps of 32, B transposed in memory."""
    a_tile, b_tile = shared_array((2, 32, 32), a.dtype), shared_array((2, 16, 32), b.dtype)
    tile, lane, first = tile_index(), lane_index(), warp_index() * 16
    total = local_array((2, 4), i32)
    steps = (a.shape[1] + 31) // 32
    copy_tile(a_tile, 0, a, tile.row, 0, 16)
    copy_tile(b_tile, 0, b, tile.column, 0, 16)
    commit_copies()
    for step in range(steps):
        if step + 1 < steps:
            copy_tile(a_tile, (step + 1) % 2, a, tile.row, (step + 1) * 32, 16)
            copy_tile(b_tile, (step + 1) % 2, b, tile.column, (step + 1) * 32, 16)
        commit_copies()
        wait_copies(1)
        sync_threads()
        x = ldmatrix(a_tile, (step % 2, first + lane % 16, lane // 16 * 16))
        y = ldmatrix(b_tile, (step % 2, lane % 8 + lane // 16 * 8, lane // 8 % 2 * 16))
        total[0, :] = mma(x, (y[0], y[1]), total[0, :], "m16n8k32", (a.dtype, b.dtype))
        total[1, :] = mma(x, (y[2], y[3]), total[1, :], "m16n8k32", (a.dtype, b.dtype))
        sync_threads()
    store_tile(c, total, tile.row + first, tile.column)


def by_eights(a_kind: str, b_kind: str) -> Any:
    """The kernel for floats of 8 bits: bytes in memory."""

    @kernel(grid=GRID, block=64, requires=TRANSPOSED)
    def by_eights(c: SliceMut[f32, D2], a: Slice[u8, D2], b: Slice[u8, D2]) -> None:
        a_tile, b_tile = shared_array((2, 32, 32), u8), shared_array((2, 16, 32), u8)
        tile, lane, first = tile_index(), lane_index(), warp_index() * 16
        total = local_array((2, 4), f32)
        steps = (a.shape[1] + 31) // 32
        copy_tile(a_tile, 0, a, tile.row, 0, 16)
        copy_tile(b_tile, 0, b, tile.column, 0, 16)
        commit_copies()
        for step in range(steps):
            if step + 1 < steps:
                copy_tile(a_tile, (step + 1) % 2, a, tile.row, (step + 1) * 32, 16)
                copy_tile(b_tile, (step + 1) % 2, b, tile.column, (step + 1) * 32, 16)
            commit_copies()
            wait_copies(1)
            sync_threads()
            x = ldmatrix(a_tile, (step % 2, first + lane % 16, lane // 16 * 16))
            y = ldmatrix(b_tile, (step % 2, lane % 8 + lane // 16 * 8, lane // 8 % 2 * 16))
            total[0, :] = mma(x, (y[0], y[1]), total[0, :], "m16n8k32", (a_kind, b_kind))
            total[1, :] = mma(x, (y[2], y[3]), total[1, :], "m16n8k32", (a_kind, b_kind))
            sync_threads()
        store_tile(c, total, tile.row + first, tile.column)

    return by_eights


@kernel(grid=GRID, block=64, requires=CONTRACT)
def by_double(c: SliceMut[f64, D2], a: Slice[f64, D2], b: Slice[f64, D2]) -> None:
    """f64, steps of 4, elements read one by one."""
    a_tile, b_tile = shared_array((2, 32, 4), f64), shared_array((2, 4, 16), f64)
    tile, first = tile_index(), warp_index() * 16
    total = local_array((2, 4), f64)
    steps = (a.shape[1] + 3) // 4
    copy_tile(a_tile, 0, a, tile.row, 0, 2)
    copy_tile(b_tile, 0, b, 0, tile.column, 2)
    commit_copies()
    for step in range(steps):
        if step + 1 < steps:
            copy_tile(a_tile, (step + 1) % 2, a, tile.row, (step + 1) * 4, 2)
            copy_tile(b_tile, (step + 1) % 2, b, (step + 1) * 4, tile.column, 2)
        commit_copies()
        wait_copies(1)
        sync_threads()
        for j in unroll(2):
            y = b_tile[step % 2, mma_b_row(0, 1), j * 8 + mma_b_column()]
            for half in unroll(2):
                x = a_tile[step % 2, first + half * 8 + mma_a_row(0), mma_a_column(0, 1)]
                total[j, 2 * half : 2 * half + 2] = mma((x,), (y,), total[j, 2 * half : 2 * half + 2], "m8n8k4", f64)
        sync_threads()
    store_tile(c, total, tile.row + first, tile.column)
