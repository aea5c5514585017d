"""The computations of the example programs, as kernels, for `benchmarks/cpu.py`."""

from typing import TypeVar

from kdsl import (
    Const,
    DisjointSlice,
    Slice,
    SliceMut,
    block_idx,
    block_index,
    elements,
    exp,
    f32,
    f64,
    function,
    i32,
    is_first_lane,
    is_first_thread,
    kernel,
    lane_index,
    row_index,
    rows,
    shared_array,
    sqrt,
    struct,
    sweep,
    sync_threads,
    thread_idx,
    thread_index,
    tile_index,
    tiles,
    u32,
    unroll,
    warp_index,
    warp_max,
    warp_sum,
)

T = TypeVar("T", f32, f64, i32)
WARP_SIZE, BLOCKS, THREADS, TILE = 32, 64, 256, 16


@struct
class Matrix:
    """The shape of a matrix."""

    rows: u32
    """Rows."""
    columns: u32
    """Columns."""


@struct
class Window:
    """Part of an array."""

    start: u32
    """Its first element."""


@struct
class Table:
    """The shape of an embedding table."""

    tokens: u32
    """Rows."""
    width: u32
    """Columns."""


@struct
class Square:
    """The shape of a product of square matrices."""

    size: u32
    """Rows and columns."""


@struct
class AdamWStep:
    """The numbers of an AdamW step."""

    learning_rate: f32
    """Step size."""
    beta1: f32
    """Decay of the mean gradient."""
    beta2: f32
    """Decay of the mean squared gradient."""
    epsilon: f32
    """Keeps the division finite."""
    weight_decay: f32
    """Share of the weight removed per unit of step size."""
    correction1: f32
    """1 - beta1 ** step."""
    correction2: f32
    """1 - beta2 ** step."""


@kernel(grid=elements("y"), requires=("len(x) >= len(y)",))
def saxpy(y: DisjointSlice[f32], x: Slice[f32], a: f32) -> None:
    """y <- a x + y."""
    i = thread_index()
    if i in y:
        y[i] = a * x[i] + y[i]


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def power(y: DisjointSlice[T], x: Slice[T], *, exponent: Const[int]) -> None:
    """y <- x ** exponent by repeated multiplication."""
    i = thread_index()
    if i in y:
        product = y.dtype(1)
        for _ in unroll(exponent):
            product *= x[i]
        y[i] = product


@kernel(grid=elements("y"), requires=("p.start + len(y) <= len(x)",))
def copy_window(y: DisjointSlice[f32], x: Slice[f32], p: Window) -> None:
    """y <- x from `p.start` on."""
    i = thread_index()
    if i in y:
        y[i] = x[p.start + i]


@kernel(grid=elements("index"))
def scatter(y: SliceMut[f32], index: Slice[i32]) -> None:
    """Write 1 to the places that `index` names, each checked."""
    i = thread_index()
    if i < len(index):
        y[index[i]] = 1.0


@function
def between(start: f32, end: f32, t: f32) -> f32:
    """The point at `t` between two numbers."""
    return start + t * (end - start)


@kernel(grid=elements("weight"), requires=("len(mean) == len(weight)", "len(square) == len(weight)", "len(gradient) == len(weight)"))
def adamw(weight: DisjointSlice[f32], mean: DisjointSlice[f32], square: DisjointSlice[f32], gradient: Slice[f32], step: AdamWStep) -> None:
    """A step of AdamW, in place."""
    i = thread_index()
    if i in weight:
        g = gradient[i]
        m = between(g, mean[i], step.beta1)
        v = between(g * g, square[i], step.beta2)
        mean[i] = m
        square[i] = v
        update = (m / step.correction1) / (sqrt(v / step.correction2) + step.epsilon)
        weight[i] = weight[i] - step.learning_rate * (update + step.weight_decay * weight[i])


@kernel(grid=rows("p.rows"), requires=("len(y) == p.rows * p.columns", "len(x) == len(y)"))
def softmax(y: SliceMut[f32], x: Slice[f32], p: Matrix) -> None:
    """The softmax of each row, a warp per row."""
    row = row_index()
    if row >= p.rows:
        return
    first = row * p.columns
    largest = f32("-inf")
    for column in range(lane_index(), p.columns, WARP_SIZE):
        largest = max(largest, x[first + column])
    largest = warp_max(largest)
    total = f32(0)
    for column in range(lane_index(), p.columns, WARP_SIZE):
        total += exp(x[first + column] - largest)
    total = warp_sum(total)
    for column in range(lane_index(), p.columns, WARP_SIZE):
        y[first + column] = exp(x[first + column] - largest) / total


@kernel(grid=rows("p.rows"), requires=("len(y) == p.rows * p.columns", "len(x) == len(y)"))
def row_softmax(y: SliceMut[f32], x: Slice[f32], p: Matrix) -> None:
    """The same with each exponential computed once and one division per row, as the model's causal softmax does it."""
    row = row_index()
    if row >= p.rows:
        return
    first = row * p.columns
    largest = f32("-inf")
    for column in range(lane_index(), p.columns, WARP_SIZE):
        largest = max(largest, x[first + column])
    largest = warp_max(largest)
    total = f32(0)
    for column in range(lane_index(), p.columns, WARP_SIZE):
        weight: f32 = exp(x[first + column] - largest)
        total += weight
        y[first + column] = weight
    inverse = 1.0 / warp_sum(total)
    for column in range(lane_index(), p.columns, WARP_SIZE):
        y[first + column] = y[first + column] * inverse


@kernel(grid=sweep(blocks=BLOCKS), block=THREADS, requires=(f"len(partial) == {BLOCKS}",))
def sum_of_squares(partial: DisjointSlice[f32], x: Slice[f32]) -> None:
    """The sum of squares of each block's share."""
    totals = shared_array(THREADS // WARP_SIZE, f32)
    total = f32(0)
    for i in range(block_idx.x * THREADS + thread_idx.x, len(x), BLOCKS * THREADS):
        total += x[i] * x[i]
    total = warp_sum(total)
    if is_first_lane():
        totals[warp_index()] = total
    sync_threads()
    if is_first_thread():
        total = f32(0)
        for w in range(THREADS // WARP_SIZE):
            total += totals[w]
        partial[block_index()] = total


@kernel(
    grid=elements("table_gradient"),
    requires=("len(table_gradient) == p.tokens * p.width", "len(first) == p.tokens + 1", "len(gradient) == len(position) * p.width"),
)
def embedding_gradient(table_gradient: DisjointSlice[f32], gradient: Slice[f32], first: Slice[i32], position: Slice[i32], p: Table) -> None:
    """The sum of the gradients of all places of a token, in order."""
    i = thread_index()
    if i in table_gradient:
        token, column = i // p.width, i % p.width
        total = f32(0)
        for place in range(first[token], first[token + 1]):
            total += gradient[position[place] * p.width + column]
        table_gradient[i] = total


@kernel(
    grid=tiles(rows="p.size", columns="p.size", tile=(TILE, TILE)),
    block=(TILE, TILE),
    requires=("len(c) == p.size * p.size", "len(a) == len(c)", "len(b) == len(c)"),
)
def matmul_tiled(c: SliceMut[f32], a: Slice[f32], b: Slice[f32], p: Square) -> None:
    """c <- a b by tiles in shared memory."""
    a_tile = shared_array((TILE, TILE), f32)
    b_tile = shared_array((TILE, TILE), f32)
    x, y = thread_idx.x, thread_idx.y
    tile = tile_index()
    row, column = tile.row + y, tile.column + x
    total = f32(0)
    for step in range(0, p.size, TILE):
        a_tile[y, x] = a[row * p.size + step + x] if row < p.size and step + x < p.size else 0.0
        b_tile[y, x] = b[(step + y) * p.size + column] if step + y < p.size and column < p.size else 0.0
        sync_threads()
        for i in unroll(TILE):
            total += a_tile[y, i] * b_tile[i, x]
        sync_threads()
    if row < p.size and column < p.size:
        c[row * p.size + column] = total
