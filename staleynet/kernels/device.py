"""What kernels share: how an element that a thread owns is changed, and the steps of a softmax over a row.

Writes go through `set_element` and `accumulate_element` where a thread owns elements of a `SliceMut`, whose index is checked against the
length of the array. A `DisjointSlice` needs no helper: its witness already says who owns what. Left out: anything that only one topic
needs.
"""

from kdsl import WARP_SIZE, Slice, SliceMut, exp, f32, function, i64, lane_index, u32, warp_max, warp_sum


@function
def set_element(y: SliceMut[f32], index: i64, value: f32) -> None:
    """Overwrite an element that only this thread touches."""
    y[index] = value


@function
def accumulate_element(y: SliceMut[f32], index: i64, value: f32) -> None:
    """Add to an element that only this thread touches: the `C +` of the matrix product. The sum is rounded once, after the value itself
    was.
    """
    y[index] = y[index] + value


@function
def store(y: SliceMut[f32], index: i64, value: f32, accumulate: u32) -> None:
    """Set an element, or add to it if `accumulate` is not 0; the old value is read only in that case."""
    if accumulate != 0:
        accumulate_element(y, index, value)
    else:
        set_element(y, index, value)


@function
def row_maximum(x: Slice[f32], first: i64, count: i64, scale: f32) -> f32:
    """The largest of `scale * x` over the `count` elements from `first` on, for a whole warp; minus infinity if there are none."""
    largest = f32("-inf")
    for column in range(lane_index(), count, WARP_SIZE):
        largest = max(largest, scale * x[first + column])
    return f32(warp_max(largest))


@function
def row_exponentials(x: Slice[f32], first: i64, count: i64, scale: f32, largest: f32) -> f32:
    """The sum of exp(scale * x - largest) over the `count` elements from `first` on, for a whole warp."""
    total = f32(0)
    for column in range(lane_index(), count, WARP_SIZE):
        total += exp(scale * x[first + column] - largest)
    return f32(warp_sum(total))
