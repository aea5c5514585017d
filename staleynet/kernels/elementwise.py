"""Sums, scaling, the residual, bias, GELU and its gradient, rotary positions.

All but `rotary` may be in place: each thread reads only the elements that it writes.
"""

from kdsl import (
    WARP_SIZE,
    DisjointSlice,
    Slice,
    SliceMut,
    elements,
    exp,
    f32,
    function,
    kernel,
    lane_index,
    row_index,
    rows,
    struct,
    thread_index,
    u32,
)
from staleynet.kernels.device import set_element


@kernel(grid=elements("y"), requires=("len(a) == len(y)", "len(b) == len(y)"))
def add(y: DisjointSlice[f32], a: Slice[f32], b: Slice[f32]) -> None:
    """A thread per element: y = a + b."""
    i = thread_index()
    if i in y:
        y[i] = a[i] + b[i]


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def accumulate(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    """A thread per element: y = y + x, the residual."""
    i = thread_index()
    if i in y:
        y[i] = y[i] + x[i]


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def scale(y: DisjointSlice[f32], x: Slice[f32], factor: f32) -> None:
    """A thread per element: y = factor * x."""
    i = thread_index()
    if i in y:
        y[i] = factor * x[i]


@struct
class Matrix:
    """A dense matrix, row by row."""

    rows: u32
    """Number of rows."""
    columns: u32
    """Number of columns."""


@kernel(grid=elements("y"), requires=("len(y) == p.rows * p.columns", "len(x) == len(y)", "len(bias) == p.columns"))
def add_bias(y: DisjointSlice[f32], x: Slice[f32], bias: Slice[f32], p: Matrix) -> None:
    """A thread per element: y = x + bias of its column."""
    i = thread_index()
    if i in y:
        y[i] = x[i] + bias[i % p.columns]


SLOPE = 0.7978845608028654
"""sqrt(2 / pi)."""
CUBIC = 0.044715
"""Coefficient of the cubic term in the tanh form of GELU."""


@function
def gelu_gate(x: f32) -> f32:
    """(1 + tanh(u)) / 2 with u = sqrt(2 / pi) * (x + 0.044715 * x ** 3), written as 1 / (1 + exp(-2 u)), which keeps its precision where it
    is small.
    """
    gate: f32 = 1.0 / (1.0 + exp(-2.0 * SLOPE * (x + CUBIC * x * x * x)))
    return gate


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def gelu(y: DisjointSlice[f32], x: Slice[f32]) -> None:
    """A thread per element: y = x * gate(x), the tanh form of GELU (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415)."""
    i = thread_index()
    if i in y:
        value = x[i]
        y[i] = value * gelu_gate(value)


@kernel(grid=elements("dx"), requires=("len(x) == len(dx)", "len(dy) == len(dx)"))
def gelu_backward(dx: DisjointSlice[f32], x: Slice[f32], dy: Slice[f32]) -> None:
    """A thread per element: dx = (gate + x * gate') * dy, where gate' = 2 u' * gate * (1 - gate)."""
    i = thread_index()
    if i in dx:
        value = x[i]
        gate = gelu_gate(value)
        rise = 2.0 * SLOPE * (1.0 + 3.0 * CUBIC * value * value)
        dx[i] = dy[i] * (gate + value * rise * gate * (1.0 - gate))


@struct
class Rotation:
    """How rotary positions lie over the rows of an array."""

    rows: u32
    """Number of rows; row r has position r % length."""
    length: u32
    """Positions in the tables."""
    width: u32
    """Columns of a row."""
    heads: u32
    """Heads that are rotated, from the first column on."""
    half: u32
    """Pairs per head: half its width."""
    direction: f32
    """1 to rotate, -1 to rotate back."""


@kernel(
    grid=rows("p.rows"),
    requires=(
        "len(x) == p.rows * p.width",
        "2 * p.heads * p.half <= p.width",
        "len(cosines) == p.length * p.half",
        "len(sines) == p.length * p.half",
        "p.length >= 1 or p.rows == 0",
    ),
)
def rotary(x: SliceMut[f32], cosines: Slice[f32], sines: Slice[f32], p: Rotation) -> None:
    """A warp per row: turn each pair (j, j + half) of every head by the angle of the position and of j (Su et al. 2021,
    https://arxiv.org/abs/2104.09864).
    """
    row = row_index()
    if row >= p.rows:  # whole warps leave together
        return
    angles = row % p.length * p.half
    for pair in range(lane_index(), p.heads * p.half, WARP_SIZE):
        head, j = pair // p.half, pair % p.half
        low = row * p.width + 2 * head * p.half + j
        high = low + p.half
        cosine, sine = cosines[angles + j], p.direction * sines[angles + j]
        u, v = x[low], x[high]
        set_element(x, low, u * cosine - v * sine)
        set_element(x, high, v * cosine + u * sine)
