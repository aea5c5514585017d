"""Softmax cross-entropy against token targets, and its gradient in place. A negative target marks a row that does not count."""

from kdsl import (
    WARP_SIZE,
    DisjointSlice,
    Slice,
    SliceMut,
    exp,
    f32,
    i32,
    is_first_lane,
    kernel,
    lane_index,
    log,
    row_index,
    rows,
    struct,
    u32,
)
from staleynet.kernels.device import row_exponentials, row_maximum, set_element


@struct
class Logits:
    """A matrix of logits, a row per prediction."""

    rows: u32
    """Number of rows."""
    classes: u32
    """Number of columns."""
    scale: f32
    """Factor of the gradient; the loss itself does not use it."""


@kernel(grid=rows("p.rows"), requires=("len(losses) == p.rows", "len(logits) == p.rows * p.classes", "len(targets) == p.rows"))
def cross_entropy(losses: DisjointSlice[f32], logits: Slice[f32], targets: Slice[i32], p: Logits) -> None:
    """A warp per row: log(sum(exp(logits))) - logits[target], with the largest logit taken out first so that nothing overflows."""
    row = row_index()
    if row >= p.rows:  # whole warps leave together
        return
    first = row * p.classes
    largest = row_maximum(logits, first, p.classes, 1.0)
    total = row_exponentials(logits, first, p.classes, 1.0, largest)
    if is_first_lane():
        target = targets[row]
        assert target < p.classes, "a target is not a class"
        losses[row] = log(total) + (largest - logits[first + target]) if target >= 0 else 0.0


@kernel(grid=rows("p.rows"), requires=("len(logits) == p.rows * p.classes", "len(targets) == p.rows"))
def cross_entropy_backward(logits: SliceMut[f32], targets: Slice[i32], p: Logits) -> None:
    """A warp per row: replace the logits by scale * (softmax - onehot), the gradient of the scaled loss; by 0 in a row that does not
    count.
    """
    row = row_index()
    if row >= p.rows:
        return
    first = row * p.classes
    target = targets[row]
    assert target < p.classes, "a target is not a class"
    largest = row_maximum(logits, first, p.classes, 1.0)
    inverse = 1.0 / row_exponentials(logits, first, p.classes, 1.0, largest)
    for column in range(lane_index(), p.classes, WARP_SIZE):
        at = first + column
        hot = f32(1) if column == target else f32(0)
        set_element(logits, at, p.scale * (exp(logits[at] - largest) * inverse - hot) if target >= 0 else 0.0)
