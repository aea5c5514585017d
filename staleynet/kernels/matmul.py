"""The matrix product C <- alpha A B (+ C), three times, from the simplest to the fastest.

Every operand is described by the distances between its neighbouring rows, columns, sequences and heads, so that a transposed operand, or a
part of a packed array, costs no copy. All three add along k in ascending order, one fused multiply-add after the other, and so give the
same bits; what differs is how often a value is fetched. Left out: tensor cores, and splitting along k.
"""

from typing import Any

from kdsl import (
    Slice,
    SliceMut,
    f32,
    fma,
    function,
    i64,
    kernel,
    local_array,
    shared_array,
    struct,
    sync_threads,
    thread_idx,
    tile_index,
    tiles,
    u32,
    unroll,
)
from staleynet.kernels.device import store

THREADS = 16
"""Threads along each side of a block."""
DEPTH = 16
"""Columns of A and rows of B that are in shared memory at a time; equal to THREADS, so that a block copies a tile in whole passes."""
NOTHING = -0.0
"""What stands beyond the end of A: (-0) * 0 = -0, and adding -0 changes no sum, not even the sign of a zero."""


@struct
class Product:
    """A batch of matrix products C <- alpha A B (+ C): A is m x k, B is k x n, C is m x n; a pair of matrices per sequence and head."""

    sequences: u32
    """Matrices along the first batch axis."""
    heads: u32
    """Matrices along the second batch axis."""
    m: u32
    """Rows of A and C."""
    n: u32
    """Columns of B and C."""
    k: u32
    """Columns of A, rows of B."""
    accumulate: u32
    """1 to add to C, 0 to overwrite it."""
    c_sequence: i64
    """Distance between neighbouring sequences of C, in elements."""
    c_head: i64
    """Distance between neighbouring heads of C, in elements."""
    c_row: i64
    """Distance between neighbouring rows of C, in elements."""
    c_column: i64
    """Distance between neighbouring columns of C, in elements."""
    a_sequence: i64
    """Distance between neighbouring sequences of A, in elements."""
    a_head: i64
    """Distance between neighbouring heads of A, in elements."""
    a_row: i64
    """Distance between neighbouring rows of A, in elements."""
    a_column: i64
    """Distance between neighbouring columns of A, in elements."""
    b_sequence: i64
    """Distance between neighbouring sequences of B, in elements."""
    b_head: i64
    """Distance between neighbouring heads of B, in elements."""
    b_row: i64
    """Distance between neighbouring rows of B, in elements."""
    b_column: i64
    """Distance between neighbouring columns of B, in elements."""
    alpha: f32
    """Factor of the product."""


FITS = (
    "extent((p.sequences, p.c_sequence), (p.heads, p.c_head), (p.m, p.c_row), (p.n, p.c_column)) <= len(c)",
    "extent((p.sequences, p.a_sequence), (p.heads, p.a_head), (p.m, p.a_row), (p.k, p.a_column)) <= len(a)",
    "extent((p.sequences, p.b_sequence), (p.heads, p.b_head), (p.k, p.b_row), (p.n, p.b_column)) <= len(b)",
    *(" and ".join(f"p.{operand}_{axis} >= 0" for axis in ("sequence", "head", "row", "column")) for operand in "cab"),
)
"""Every operand begins with the first element of its array, and ends inside it; so the compiler needs no checks."""


@function
def batch_start(batch: i64, heads: u32, sequence_stride: i64, head_stride: i64) -> i64:
    """Where the matrix of a batch starts; heads run faster than sequences."""
    return batch // heads * sequence_stride + batch % heads * head_stride


@kernel(
    grid=tiles(rows="p.m", columns="p.n", batch="p.sequences * p.heads", tile=(THREADS, THREADS)), block=(THREADS, THREADS), requires=FITS
)
def matmul_naive(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Product) -> None:
    """A thread per element of C, neighbouring threads along its rows; each reads its whole row of A and column of B from global memory."""
    tile = tile_index()
    row = tile.row + thread_idx.y
    column = tile.column + thread_idx.x
    if row < p.m and column < p.n:
        a_row = batch_start(tile.batch, p.heads, p.a_sequence, p.a_head) + row * p.a_row
        b_column = batch_start(tile.batch, p.heads, p.b_sequence, p.b_head) + column * p.b_column
        total = f32(0)
        for k in range(p.k):
            total = fma(a[a_row + k * p.a_column], b[b_column + k * p.b_row], total)
        c_first = batch_start(tile.batch, p.heads, p.c_sequence, p.c_head)
        store(c, c_first + row * p.c_row + column * p.c_column, p.alpha * total, p.accumulate)


@kernel(
    grid=tiles(rows="p.m", columns="p.n", batch="p.sequences * p.heads", tile=(THREADS, THREADS)), block=(THREADS, THREADS), requires=FITS
)
def matmul_tiled(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Product) -> None:
    """A block per tile of 16 x 16 elements of C: it copies a tile of A and one of B to shared memory, multiplies them, and moves on along
    k, so that each value is fetched from global memory once per block instead of once per thread.
    """
    a_tile = shared_array((THREADS, DEPTH), f32)
    b_tile = shared_array((DEPTH, THREADS), f32)
    x, y = thread_idx.x, thread_idx.y
    tile = tile_index()
    row = tile.row + y
    column = tile.column + x
    a_first = batch_start(tile.batch, p.heads, p.a_sequence, p.a_head)
    b_first = batch_start(tile.batch, p.heads, p.b_sequence, p.b_head)
    total = f32(0)
    for step in range(0, p.k, DEPTH):
        a_tile[y, x] = a[a_first + row * p.a_row + (step + x) * p.a_column] if row < p.m and step + x < p.k else NOTHING
        b_tile[y, x] = b[b_first + (step + y) * p.b_row + column * p.b_column] if step + y < p.k and column < p.n else 0.0
        sync_threads()
        for k in range(DEPTH):
            total = fma(a_tile[y, k], b_tile[k, x], total)
        sync_threads()
    if row < p.m and column < p.n:
        c_first = batch_start(tile.batch, p.heads, p.c_sequence, p.c_head)
        store(c, c_first + row * p.c_row + column * p.c_column, p.alpha * total, p.accumulate)


PER_THREAD = 4
"""Rows, and columns, of C that a thread of the register-blocked version computes: 16 sums in registers, and enough threads to hide latencies."""
PADDING = 4
"""Unused elements at the end of each row of its shared tiles, so that a column is spread over memory banks."""
TILE = THREADS * PER_THREAD
"""Rows, and columns, of C that its block computes."""


@function
def element(source: Slice[f32], first: i64, place: i64, places: u32, stride: i64, k: i64, depth: u32, k_stride: i64, nothing: f32) -> f32:
    """Element (place, k) of an operand of `places` rows (of A) or columns (of B) and a depth of `depth`, `nothing` where it has none."""
    return source[first + place * stride + k * k_stride] if place < places and k < depth else nothing


@function
def fetch(
    into: Any, source: Slice[f32], first: i64, outer: i64, outers: u32, stride: i64, k: i64, depth: u32, k_stride: i64, nothing: f32
) -> None:
    """Read this thread's share of a tile: the rows (of A) or columns (of B) `outer` + 16 i at depth k."""
    for i in unroll(PER_THREAD):
        into[i] = element(source, first, outer + THREADS * i, outers, stride, k, depth, k_stride, nothing)


@function
def fetch_both(
    a_next: Any,
    b_next: Any,
    a: Slice[f32],
    b: Slice[f32],
    p: Product,
    a_first: i64,
    b_first: i64,
    row: i64,
    column: i64,
    step: i64,
    a_along_k: bool,
    b_along_k: bool,
) -> None:
    """Read this thread's share of the tiles of A and B that start at `row`, `column` and k = `step`."""
    x, y = thread_idx.x, thread_idx.y
    if a_along_k:
        fetch(a_next, a, a_first, row + y, p.m, p.a_row, step + x, p.k, p.a_column, NOTHING)
    else:
        fetch(a_next, a, a_first, row + x, p.m, p.a_row, step + y, p.k, p.a_column, NOTHING)
    if b_along_k:
        fetch(b_next, b, b_first, column + y, p.n, p.b_column, step + x, p.k, p.b_row, 0.0)
    else:
        fetch(b_next, b, b_first, column + x, p.n, p.b_column, step + y, p.k, p.b_row, 0.0)


@kernel(
    grid=tiles(rows="p.m", columns="p.n", batch="p.sequences * p.heads", tile=(TILE, TILE)),
    block=(THREADS, THREADS),
    requires=FITS,
)
def matmul_register_blocked(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Product) -> None:
    """A block per square tile of C, several rows and columns of it per thread (Volkov and Demmel 2008,
    https://doi.org/10.1109/SC.2008.5214359): with 4 x 4, four values of each operand, read from shared memory, make sixteen products, where
    the tiled version reads two values for one.

    Thread (x, y) owns the rows y + 16 i and the columns x + 16 j, so that neighbouring threads read neighbouring words of a tile of B, and
    all threads of a row the same word of a tile of A. Neighbouring threads also read neighbouring words of global memory, whether an
    operand is transposed or not: x runs along the smaller of its strides.
    """
    a_tile = shared_array((TILE, DEPTH + PADDING), f32)
    b_tile = shared_array((DEPTH, TILE + PADDING), f32)
    total = local_array((PER_THREAD, PER_THREAD), f32)
    left = local_array(PER_THREAD, f32)
    right = local_array(PER_THREAD, f32)
    a_next = local_array(PER_THREAD, f32)
    b_next = local_array(PER_THREAD, f32)
    x, y = thread_idx.x, thread_idx.y
    tile = tile_index()
    a_first = batch_start(tile.batch, p.heads, p.a_sequence, p.a_head)
    b_first = batch_start(tile.batch, p.heads, p.b_sequence, p.b_head)
    a_along_k = p.a_column <= p.a_row  # the same for all threads: x along k, or else along the rows
    b_along_k = p.b_row < p.b_column  # x along k, or else along the columns
    for i in unroll(PER_THREAD):
        for j in unroll(PER_THREAD):
            total[i, j] = 0.0
    fetch_both(a_next, b_next, a, b, p, a_first, b_first, tile.row, tile.column, 0, a_along_k, b_along_k)
    for step in range(0, p.k, DEPTH):
        for i in unroll(PER_THREAD):
            if a_along_k:
                a_tile[y + THREADS * i, x] = a_next[i]
            else:
                a_tile[x + THREADS * i, y] = a_next[i]
            if b_along_k:
                b_tile[x, y + THREADS * i] = b_next[i]
            else:
                b_tile[y, x + THREADS * i] = b_next[i]
        if step + DEPTH < p.k:
            fetch_both(a_next, b_next, a, b, p, a_first, b_first, tile.row, tile.column, step + DEPTH, a_along_k, b_along_k)
        sync_threads()
        for k in range(DEPTH):
            for i in unroll(PER_THREAD):
                left[i] = a_tile[y + THREADS * i, k]
            for j in unroll(PER_THREAD):
                right[j] = b_tile[k, x + THREADS * j]
            for i in unroll(PER_THREAD):
                for j in unroll(PER_THREAD):
                    total[i, j] = fma(left[i], right[j], total[i, j])
        sync_threads()
    c_first = batch_start(tile.batch, p.heads, p.c_sequence, p.c_head)
    for i in unroll(PER_THREAD):
        row = tile.row + y + THREADS * i
        for j in unroll(PER_THREAD):
            column = tile.column + x + THREADS * j
            if row < p.m and column < p.n:
                store(c, c_first + row * p.c_row + column * p.c_column, p.alpha * total[i, j], p.accumulate)
