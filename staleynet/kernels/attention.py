"""The causal softmax of attention and its gradient, both in place.

Scores are (sequences, heads, queries, length), a warp per row. Left out: the products around them (`matmul`) and any mask but the causal
one.
"""

from kdsl import WARP_SIZE, Slice, SliceMut, exp, f32, kernel, lane_index, row_index, rows, struct, u32, warp_sum
from staleynet.kernels.device import row_maximum, set_element


@struct
class ScoreRows:
    """The rows of all score matrices of a batch; the queries are the last positions of their sequence."""

    rows: u32
    """Number of rows: sequences * heads * queries."""
    queries: u32
    """Rows of one score matrix, not more than `length`."""
    length: u32
    """Columns: the keys of one sequence."""
    scale: f32
    """Factor of the scores before the softmax."""


@kernel(grid=rows("p.rows"), requires=("len(scores) == p.rows * p.length", "p.queries <= p.length", "p.queries >= 1 or p.rows == 0"))
def causal_softmax(scores: SliceMut[f32], p: ScoreRows) -> None:
    """A warp per row: replace the scores of the keys up to the query's own position by softmax(scale * scores), those behind it by 0."""
    row = row_index()
    if row >= p.rows:  # whole warps leave together
        return
    first = row * p.length
    seen = p.length - p.queries + row % p.queries + 1  # keys that this query may look at
    largest = row_maximum(scores, first, seen, p.scale)
    total = f32(0)
    for column in range(lane_index(), seen, WARP_SIZE):
        weight: f32 = exp(p.scale * scores[first + column] - largest)
        total += weight
        set_element(scores, first + column, weight)  # each lane reads back only what it wrote itself
    inverse = 1.0 / warp_sum(total)
    for column in range(lane_index(), p.length, WARP_SIZE):
        set_element(scores, first + column, scores[first + column] * inverse if column < seen else 0.0)


@kernel(
    grid=rows("p.rows"),
    requires=(
        "len(gradient) == p.rows * p.length",
        "len(probabilities) == len(gradient)",
        "p.queries <= p.length",
        "p.queries >= 1 or p.rows == 0",
    ),
)
def causal_softmax_backward(gradient: SliceMut[f32], probabilities: Slice[f32], p: ScoreRows) -> None:
    """A warp per row: replace the gradient of the probabilities P by that of the scores, scale * P * (dP - sum(P * dP)); 0 behind the
    query's own position.
    """
    row = row_index()
    if row >= p.rows:
        return
    first = row * p.length
    seen = p.length - p.queries + row % p.queries + 1
    total = f32(0)
    for column in range(lane_index(), seen, WARP_SIZE):
        total += probabilities[first + column] * gradient[first + column]
    total = warp_sum(total)
    for column in range(lane_index(), p.length, WARP_SIZE):
        at = first + column
        set_element(gradient, at, p.scale * probabilities[at] * (gradient[at] - total) if column < seen else 0.0)
