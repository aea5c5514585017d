"""Kernels over structs: as parameters, as elements, as values."""

from __future__ import annotations

from typing import TypeVar

from samples import Bins, Momentum, Pair, Sample, Step, Taps

from kdsl import (
    D2,
    DisjointSlice,
    FixedArray,
    Slice,
    SliceMut,
    atomic_add,
    atomic_load,
    atomic_max,
    block_idx,
    cluster_rank,
    elements,
    f32,
    f64,
    function,
    i32,
    i64,
    kernel,
    local_array,
    remote,
    rows,
    shared_array,
    sync_cluster,
    sync_threads,
    thread_idx,
    thread_index,
    tiles,
    u8,
    unroll,
)

T = TypeVar("T")

# ---------------------------------------------------------------------------------------------------------------------------- parameters


@kernel(grid=elements("y"), block=64)
def numbers_of(y: DisjointSlice[f64], p: Sample) -> None:
    """Every number of a struct parameter, one per element."""
    i = thread_index()
    if i in y:
        y[i] = 0.0
        if i == 0 and p.valid:
            y[i] = 1.0
        if i == 1:
            y[i] = f64(p.value)
        if i == 2:
            y[i] = f64(p.momentum.first)
        if i == 3:
            y[i] = p.momentum.second
        if i == 4:
            y[i] = f64(p.momentum.steps)
        if i == 5:
            y[i] = f64(p.code)
        if i == 6:
            y[i] = f64(p.half)
        if i == 7:
            y[i] = f64(p.brain)
        if i == 8:
            y[i] = f64(p.total)
        if i == 9:
            y[i] = f64(p.last)
        if i >= 10 and i < 13:
            y[i] = f64(p.history[i - 10])
        if i >= 13 and i < 15:
            y[i] = f64(p.pairs[i - 13].key)
        if i >= 15 and i < 17:
            y[i] = f64(p.pairs[i - 15].tag)
        if i >= 17 and i < 23:
            y[i] = p.matrix[(i - 17) // 3, (i - 17) % 3]
        if i == 23:
            y[i] = p.matrix[1, 2] + f64(p.pairs[1].tag) + f64(p.history[2])


@kernel(grid=elements("y"), block=32)
def picked_taps(y: DisjointSlice[f32], index: Slice[i32], n: i32, p: Sample, q: Sample) -> None:
    """p.history[index[i]], an index that nobody knows."""
    i = thread_index()
    if i in y:
        y[i] = p.history[index[i]] + q.history[n]


@kernel(
    grid=rows("p.momentum.steps"),
    block=64,
    requires=("p.momentum.steps * p.pairs[1].tag <= len(y)", "p.pairs[0].key >= 0 and len(p.history) == 3"),
)
def row_numbers(y: SliceMut[i32], p: Sample) -> None:
    """Geometry and contract over fields of fields."""
    if thread_idx.x % 32 == 0:
        row = block_idx.x * 2 + thread_idx.x // 32
        if row < i64(p.momentum.steps):
            y[row * i64(p.pairs[1].tag)] = i32(row)


# ------------------------------------------------------------------------------------------------------------------------------ elements


@kernel(grid=elements("y"), block=64)
def copied(y: DisjointSlice[Sample], x: Slice[Sample]) -> None:
    i = thread_index()
    if i in y:
        y[i] = x[i]


@kernel(grid=elements("y"), block=64)
def gathered(y: DisjointSlice[T], x: Slice[T], index: Slice[i32]) -> None:
    """For elements of any type, structs included."""
    i = thread_index()
    if i in y:
        y[i] = x[index[i]]


@kernel(grid=elements("s"), block=64)
def advanced(s: DisjointSlice[Sample], p: Step) -> None:
    """Fields of every kind are read and written in place."""
    i = thread_index()
    if i in s:
        s[i].valid = not s[i].valid
        s[i].value += p.rate
        s[i].momentum.first = s[i].value
        s[i].momentum.second *= 2.0
        s[i].momentum.steps += 1
        s[i].history[2] = s[i].history[0]
        s[i].history[i % 2] -= 1.0
        s[i].code = -s[i].code
        s[i].half = s[i].half + s[i].half
        s[i].total += i64(p.count)
        s[i].pairs[1].key, s[i].pairs[0].key = s[i].pairs[0].key, s[i].pairs[1].key
        s[i].pairs[i % 2].tag ^= 1
        s[i].matrix[i % 2, i % 3] = 0.5
        s[i].last, s[i].matrix[1, 1] = 7, 0.25


@kernel(grid=elements("s"), block=64)
def replaced(s: SliceMut[Sample], m: Slice[Momentum], w: Slice[f32]) -> None:
    """Structs and arrays inside of elements are written as wholes, beyond the end of what is there, too."""
    i = thread_index()
    s[i].momentum = m[i]
    s[i].pairs = (Pair(1, 2), Pair(key=i32(i), tag=u8(i)))
    s[i].matrix = ((1, 2, 3), (4.0, 5, 6))
    taps = local_array(3, f32)
    for k in range(3):
        taps[k] = w[k] * 2.0
    s[i].history = taps
    s[i].pairs[1] = s[i].pairs[0]


@kernel(
    grid=tiles(rows="y.shape[0]", columns="y.shape[1]", tile=(8, 16)), requires=("x.shape[0] == y.shape[1] and x.shape[1] == y.shape[0]",)
)
def transposed(y: SliceMut[Sample, D2], x: Slice[Sample, D2]) -> None:
    row, column = block_idx.y * 8 + thread_idx.y, block_idx.x * 16 + thread_idx.x
    if row < y.shape[0] and column < y.shape[1]:
        y[row, column] = x[column, row]
        y[row, column].momentum.first += 1.0


@kernel(grid=elements("y"), block=96)
def through_shared(y: SliceMut[Sample], x: Slice[Sample]) -> None:
    """Reverses each block in shared memory."""
    held = shared_array(96, Sample)
    i = thread_index()
    t = thread_idx.x
    if i in x:
        held[t] = x[i]
        held[t].momentum.second += 1.0
    sync_threads()
    other = block_idx.x * 96 + (95 - t)
    if i in y and other in x:
        y[i] = held[95 - t]
        y[i].value = held[95 - t].value * 2.0


@kernel(grid=elements("y"), block=64)
def through_local(y: DisjointSlice[Sample], x: Slice[Sample], turn: i32) -> None:
    """Local arrays of structs, in registers and in memory."""
    i = thread_index()
    known = local_array((2, 2), Sample)
    indexed = local_array(5, Sample)
    if i in y and i in x:
        known[0, 1] = x[i]
        known[1, 0] = known[0, 1]
        known[1, 0].momentum.steps = 3
        known[1, 0].pairs[1].key += 5
        for k in range(5):
            indexed[k] = known[1, 0]
            indexed[k].value = f32(k)
            indexed[k].matrix[k % 2, k % 3] = f64(k)
        y[i] = indexed[(i64(turn) + i) % 5]
        y[i].history[0] = known[0, 1].history[1] + known[0, 0].history[0]


# -------------------------------------------------------------------------------------------------------------------------------- values


@function
def moved(m: Momentum, by: f32) -> Momentum:
    if by < 0.0:
        return m
    return Momentum(m.first + by, second=m.second, steps=m.steps + 1)


@function
def weighted(history: FixedArray[f32, Taps], weights: Slice[f32]) -> f32:
    total = 0.0
    for k in range(len(history)):
        total += history[k] * weights[k]
    return total


@function
def both(a: Momentum, b: Momentum) -> tuple[Momentum, Momentum]:
    if a.first < b.first:
        return a, b
    return b, a


@kernel(grid=elements("y"), block=64, contract=False)
def computed(y: DisjointSlice[Momentum], x: Slice[Sample], weights: Slice[f32], n: i32) -> None:
    """Struct values through branches, loops, calls, tuples and conditional expressions."""
    i = thread_index()
    if i in y and i in x:
        whole = x[i]
        m = whole.momentum
        for k in range(n):
            if k % 2 == 0:
                m = moved(m, whole.history[k % 3])
            else:
                m = Momentum(m.first * 0.5, m.second + f64(m.first), m.steps)
        low, high = both(m, whole.momentum)
        picked = low if whole.valid else high
        pair = (picked, weighted(whole.history, weights))
        result: Momentum = pair[0]
        while result.first > 1.0:
            result = Momentum(result.first - 1.0, result.second, result.steps)
        y[i] = Momentum(result.first + pair[1], result.second, result.steps)


@kernel(grid=elements("y"), block=64)
def carried(y: DisjointSlice[Sample], x: Slice[Sample], n: i32) -> None:
    """A struct with arrays that a loop carries, whose arrays are indexed by numbers of the run."""
    i = thread_index()
    if i in y and i in x:
        best = x[i]
        for k in range(n):
            other = x[(i + k) % len(x)]
            if other.history[k % 3] > best.history[k % 3]:
                best = other
            elif k == 2:
                best = Sample(
                    best.valid, best.value, (best.history[0], best.history[1], 9.0), best.momentum, best.code, best.half, best.brain,
                    best.total, best.pairs, best.matrix, best.last,
                )  # fmt: skip
        y[i] = best
        y[i].value = f32(best.matrix[i % 2, i % 3]) + f32(best.pairs[i % 2].tag)


@kernel(grid="len(y) // 64", block=64, cluster=2, requires=("len(x) == len(y)",))
def exchanged(y: SliceMut[Sample], x: Slice[Sample]) -> None:
    """Elements of the other block of a cluster are read, written and changed atomically."""
    held = shared_array(64, Sample)
    other = remote(held, 1 - cluster_rank())
    t = thread_idx.x
    i = block_idx.x * 64 + t
    held[t] = x[i]
    sync_cluster()
    seen = other[t]
    sync_cluster()
    other[t].value = seen.value * 2.0
    other[t].pairs[1] = Pair(seen.pairs[0].key, 9)
    atomic_add(other, (t, "pairs", 0, "key"), 5)
    sync_cluster()
    y[i] = held[t]
    y[i].history = seen.history


# ------------------------------------------------------------------------------------------------------------------------------- atomics


@kernel(grid=elements("x"), block=128)
def counted(bins: SliceMut[Bins], x: Slice[i32]) -> None:
    """Atomic operations on fields of elements, and on elements of arrays in them."""
    i = thread_index()
    if i in x:
        bin = i64(x[i]) // 5
        atomic_add(bins, (bin, "counts", i64(x[i]) % 5), 1)
        atomic_add(bins, (bin, "total"), i64(x[i]))
        atomic_max(bins, (bin, "total"), 3)


@kernel(grid=elements("x"), block=128)
def counted_in_shared(bins: SliceMut[Bins], x: Slice[i32]) -> None:
    held = shared_array(4, Bins)
    if thread_idx.x < 4:
        held[thread_idx.x].total = 0
        held[thread_idx.x].counts = (0, 0, 0, 0, 0)
    sync_threads()
    i = thread_index()
    if i in x:
        atomic_add(held, (i64(x[i]) // 5, "counts", i64(x[i]) % 5), 1, scope="block")
    sync_threads()
    if thread_idx.x < 4:
        for k in unroll(5):
            atomic_add(bins, (thread_idx.x, "counts", k), atomic_load(held, (thread_idx.x, "counts", k)))
