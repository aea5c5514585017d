"""RMSNorm (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467): y = weight * x / sqrt(mean(x * x) + epsilon) along each row, and its
gradients.

The gradient of the weight adds over rows, which belong to different warps. Instead of atomics it is made in two stages, each in ascending
order: sums over chunks of a fixed number of rows, then the sum of the chunks.
"""

from kdsl import (
    WARP_SIZE,
    DisjointSlice,
    Slice,
    SliceMut,
    elements,
    f32,
    is_first_lane,
    kernel,
    lane_index,
    row_index,
    rows,
    sqrt,
    struct,
    thread_index,
    u32,
    warp_sum,
)
from staleynet.kernels.device import set_element, store

ROWS_PER_CHUNK = 64
"""Rows that one thread adds in the first stage of the weight gradient; fixed, because it decides the order of addition."""


@struct
class Normalization:
    """Rows that are normalized."""

    rows: u32
    """Number of rows."""
    columns: u32
    """Number of columns."""
    epsilon: f32
    """Added to the mean square, so that a row of zeros has a finite factor; the gradients do not use it."""
    accumulate: u32
    """1 to add the gradient of the input to what is there, 0 to overwrite it; the forward pass does not use it."""


@kernel(
    grid=rows("p.rows"),
    requires=("len(y) == p.rows * p.columns", "len(x) == len(y)", "len(weight) == p.columns", "len(inverse_rms) == p.rows"),
)
def rms_norm(y: SliceMut[f32], inverse_rms: DisjointSlice[f32], x: Slice[f32], weight: Slice[f32], p: Normalization) -> None:
    """A warp per row: normalize it, and save the factor 1 / sqrt(mean(x * x) + epsilon) for the gradients."""
    row = row_index()
    if row >= p.rows:  # whole warps leave together
        return
    first = row * p.columns
    total = f32(0)
    for column in range(lane_index(), p.columns, WARP_SIZE):
        value = x[first + column]
        total += value * value
    factor = 1.0 / sqrt(warp_sum(total) / f32(p.columns) + p.epsilon)
    if is_first_lane():
        inverse_rms[row] = factor
    for column in range(lane_index(), p.columns, WARP_SIZE):
        set_element(y, first + column, x[first + column] * factor * weight[column])


@kernel(
    grid=rows("p.rows"),
    requires=(
        "len(dx) == p.rows * p.columns",
        "len(dy) == len(dx)",
        "len(x) == len(dx)",
        "len(weight) == p.columns",
        "len(inverse_rms) == p.rows",
    ),
)
def rms_norm_backward(
    dx: SliceMut[f32], dy: Slice[f32], x: Slice[f32], weight: Slice[f32], inverse_rms: Slice[f32], p: Normalization
) -> None:
    """A warp per row: dx = r * (weight * dy - x * r * r * mean(weight * dy * x)) with r = inverse_rms, set or added."""
    row = row_index()
    if row >= p.rows:
        return
    first = row * p.columns
    factor = inverse_rms[row]
    total = f32(0)
    for column in range(lane_index(), p.columns, WARP_SIZE):
        total += weight[column] * dy[first + column] * x[first + column]
    pull = factor * factor * (warp_sum(total) / f32(p.columns))
    for column in range(lane_index(), p.columns, WARP_SIZE):
        at = first + column
        store(dx, at, factor * (weight[column] * dy[at] - x[at] * pull), p.accumulate)


@struct
class ColumnSum:
    """A sum over the rows of a matrix, by chunks of ROWS_PER_CHUNK rows."""

    rows: u32
    """Number of rows."""
    columns: u32
    """Number of columns, and of sums."""
    chunks: u32
    """Number of chunks, the last of which may be shorter."""
    accumulate: u32
    """1 to add the sums to what is there, 0 to overwrite it."""


@kernel(
    grid=elements("partial"),
    requires=(
        "len(partial) == p.chunks * p.columns",
        f"p.chunks * {ROWS_PER_CHUNK} >= p.rows",
        "len(dy) == p.rows * p.columns",
        "len(x) == len(dy)",
        "len(inverse_rms) == p.rows",
    ),
)
def rms_norm_weight_partial(partial: DisjointSlice[f32], dy: Slice[f32], x: Slice[f32], inverse_rms: Slice[f32], p: ColumnSum) -> None:
    """A thread per element of `partial` (chunks, columns): the sum of dy * x * inverse_rms over the rows of its chunk; neighbouring threads
    read neighbouring columns.
    """
    i = thread_index()
    if i in partial:
        chunk, column = i // p.columns, i % p.columns
        total = f32(0)
        for row in range(chunk * ROWS_PER_CHUNK, min((chunk + 1) * ROWS_PER_CHUNK, p.rows)):
            at = row * p.columns + column
            total += dy[at] * (x[at] * inverse_rms[row])
        partial[i] = total


@kernel(grid=elements("sums"), requires=("len(sums) == p.columns", "len(partial) == p.chunks * p.columns"))
def add_chunks(sums: DisjointSlice[f32], partial: Slice[f32], p: ColumnSum) -> None:
    """A thread per element of `sums` (columns): the sum of its chunks, set or added."""
    i = thread_index()
    if i in sums:
        total = f32(0)
        for chunk in range(p.chunks):
            total += partial[chunk * p.columns + i]
        sums[i] = sums[i] + total if p.accumulate != 0 else total
