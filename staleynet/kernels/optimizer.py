"""AdamW, and the partial sums of squares that the gradient's norm is made of."""

from kdsl import (
    WARP_SIZE,
    DisjointSlice,
    Slice,
    block_idx,
    block_index,
    elements,
    f32,
    function,
    is_first_lane,
    is_first_thread,
    kernel,
    shared_array,
    sqrt,
    struct,
    sweep,
    sync_threads,
    thread_idx,
    thread_index,
    unroll,
    warp_index,
    warp_sum,
)

BLOCKS = 512
"""Blocks of `sum_of_squares`; fixed, because the number decides the order of addition. Enough to fill a large GPU."""
THREADS = 256
"""Threads of each of them."""
WARPS = THREADS // WARP_SIZE
"""Warps of each of them."""


@kernel(grid=sweep(blocks=BLOCKS), block=THREADS, requires=(f"len(partial) == {BLOCKS}",))
def sum_of_squares(partial: DisjointSlice[f32], x: Slice[f32]) -> None:
    """A fixed number of blocks sweeping: each adds the squares of every BLOCKS-th group of THREADS elements, the threads first, then the
    lanes of a warp, then the warps.
    """
    by_warp = shared_array(WARPS, f32)
    mine = f32(0)
    for i in range(block_idx.x * THREADS + thread_idx.x, len(x), BLOCKS * THREADS):
        value = x[i]
        mine += value * value
    of_warp = warp_sum(mine)
    if is_first_lane():
        by_warp[warp_index()] = of_warp
    sync_threads()
    if is_first_thread():
        of_block = f32(0)
        for warp in unroll(WARPS):
            of_block += by_warp[warp]
        partial[block_index()] = of_block


@struct
class AdamWStep:
    """One step of AdamW (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101); both 1 - beta are rounded from their exact values
    by the host.
    """

    learning_rate: f32
    """Step size."""
    keep1: f32
    """beta1, the share of the running mean that stays."""
    take1: f32
    """1 - beta1, the share of the gradient that comes in."""
    keep2: f32
    """beta2, the share of the running mean square that stays."""
    take2: f32
    """1 - beta2, the share of the squared gradient that comes in."""
    epsilon: f32
    """Keeps the division finite."""
    weight_decay: f32
    """Share of the weight removed per unit of learning rate."""
    correction1: f32
    """1 - beta1 ** step: the running mean starts at 0 and is too small by this factor."""
    correction2: f32
    """1 - beta2 ** step, likewise for the mean square."""
    gradient_scale: f32
    """Factor of the gradient before anything else: the clipping coefficient."""


@function
def blend(old: f32, new: f32, keep: f32, take: f32) -> f32:
    """The running mean after one more value."""
    return keep * old + take * new


@kernel(grid=elements("weight"), requires=("len(mean) == len(weight)", "len(square) == len(weight)", "len(gradient) == len(weight)"))
def adamw(weight: DisjointSlice[f32], mean: DisjointSlice[f32], square: DisjointSlice[f32], gradient: Slice[f32], p: AdamWStep) -> None:
    """A thread per element: move both running means, then the weight, by its decay and by the corrected mean over the corrected root mean
    square.
    """
    i = thread_index()
    if i in weight:
        slope = p.gradient_scale * gradient[i]
        m = blend(mean[i], slope, p.keep1, p.take1)
        v = blend(square[i], slope * slope, p.keep2, p.take2)
        mean[i] = m
        square[i] = v
        direction = m / p.correction1 / (sqrt(v / p.correction2) + p.epsilon)
        old = weight[i]
        weight[i] = old - p.learning_rate * (direction + p.weight_decay * old)
