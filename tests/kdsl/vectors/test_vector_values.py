"""Vectors as values, on every device: each number means what the same expression of numbers means."""

from __future__ import annotations

import itertools
import linecache
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kdsl
from kdsl import (
    Const,
    DisjointSlice,
    Slice,
    SliceMut,
    as_vectors,
    elements,
    exp,
    f16,
    f16x4,
    f32,
    f32x2,
    f32x4,
    f64x2,
    fma,
    function,
    i16x4,
    i32,
    i32x4,
    i64,
    i64x2,
    is_first_lane,
    kernel,
    row_index,
    rows,
    shared_array,
    sqrt,
    static_assert,
    sweep,
    sync_threads,
    thread_idx,
    thread_index,
    u8x4,
    unroll,
    warp_sum,
)  # fmt: skip
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
RANDOM = np.random.default_rng(12)
T = TypeVar("T")
_NUMBERS = itertools.count()


def written(body: str, parameters: str, grid: str = 'elements("y")') -> Any:
    """A kernel from text, so that one test can compare the same expression of numbers and of vectors."""
    file = f"<vectors {next(_NUMBERS)}>"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"@kernel(grid={grid}, block=96)\ndef tested({parameters}) -> None:\n{lines}"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict[str, Any] = {**{name: getattr(kdsl, name) for name in dir(kdsl) if not name.startswith("_")}, "__name__": "written"}
    exec(compile(text, file, "exec"), space)
    return space["tested"]


def numbers(count: int, of: Any) -> Any:
    if of.is_integer:
        return np.frombuffer(RANDOM.bytes(count * of.itemsize), of.numpy).copy()
    values = RANDOM.standard_normal(count) * 8
    values[::7] = 0.0
    values[1::11] = -0.0
    values[2::13] = np.inf
    values[3::17] = np.nan
    return values.astype(of.numpy)


FLOATS = [
    "a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "a * b + c", "c - a * b", "a * b - c * a", "a * 2 + 1.5", "s * a + b", "s * s + a",
    "(a + b) * (c - a)", "-a", "+a", "abs(a)", "a ** 2", "a ** -3", "min(a, b)", "max(a, b, s)", "min(a, 0)", "fma(a, b, s)", "fmin(a, s)",
    "sqrt(abs(a))", "a if t % 3 else b", "a + b if t % 5 > 2 else c / s",
]  # fmt: skip
INTEGERS = [
    "a + b", "a - b", "a * b", "a // b", "a % b", "a & b | c ^ s", "~a", "-a", "abs(a)", "a << 3", "a >> (b & 7)", "a ** 3", "min(a, b)",
    "max(a, 7)", "a * b + c", "popcount(a)", "multiply_high(a, b)", "a + 1 if t & 1 else b",
]  # fmt: skip
CASES = [(name, text) for name in ("f32x4", "f64x2", "f16x4", "bf16x2") for text in FLOATS]
CASES += [(name, text) for name in ("i32x4", "u8x16", "i16x2", "u64x2", "i64x2") for text in INTEGERS]


@DEVICES
@pytest.mark.parametrize(("name", "text"), CASES)
def test_each_number_is_that_of_the_expression_of_numbers(device: Any, name: str, text: str) -> None:
    of = getattr(kdsl, name)
    element, lanes, count = of.element, of.lanes, 131
    if element.bits < 32 and any(call in text for call in ("popcount", "multiply_high")):
        pytest.skip("there is no such function of short integers")
    a, b, c = (numbers(count * lanes, element) for _ in range(3))
    s = 3
    whole = written(
        f"t = thread_index()\nif t in y:\n    a = x[t]\n    b = w[t]\n    c = z[t]\n    y[t] = {text}",
        f"x: Slice[{name}], w: Slice[{name}], z: Slice[{name}], y: DisjointSlice[{name}], s: {element}",
    )
    single = written(
        f"k = thread_index()\nt = k // {lanes}\nif k in y:\n    a = x[k]\n    b = w[k]\n    c = z[k]\n    y[k] = {text}",
        f"x: Slice[{element}], w: Slice[{element}], z: Slice[{element}], y: DisjointSlice[{element}], s: {element}",
    )
    results = []
    for each in (whole, single):
        y = device.array(np.frombuffer(bytes([0xA5]) * a.nbytes, a.dtype))
        each(device.array(a), device.array(b), device.array(c), y, s)
        results.append(y.numpy())
    same = results[0].view(f"u{element.itemsize}") == results[1].view(f"u{element.itemsize}")
    if element.is_float:
        wide = [each.astype(np.float64) for each in results]
        same |= np.isnan(wide[0]) & np.isnan(wide[1])
    assert same.all()


@DEVICES
def test_against_numpy_in_higher_precision(device: Any) -> None:
    for count in (1, 0, 31, 33, 17 * 33 * 9):
        a, b = (RANDOM.standard_normal(4 * count).astype(np.float32) for _ in range(2))
        y = device.full(4 * count, np.nan, f32)
        axpy(device.array(a), device.array(b), y, 0.3)
        wanted = np.float64(np.float32(0.3)) * a.astype(np.float64) + b
        assert np.array_equal(y.numpy(), wanted.astype(np.float32))  # fused: rounded once


@kernel(grid=elements("y"))
def axpy(x: Slice[f32x4], w: Slice[f32x4], y: DisjointSlice[f32x4], alpha: f32) -> None:
    i = thread_index()
    if i in y:
        y[i] = alpha * x[i] + w[i]


# ---------------------------------------------------------------------------------------------------------------------------- making them


@kernel(grid=elements("y"))
def made(x: Slice[f32], y: DisjointSlice[f32x4], n: i32) -> None:
    i = thread_index()
    if i in y:
        a, b, c, d = f32x4(x[0], 2, n, True)
        v = f32x4(n)
        w = f32x4(d, c, b, a) + f32x4(f16x4(1, 2, 3, 4)) + f32x4(f16(0.1))
        static_assert(len(v) == 4, "four")
        static_assert(v.dtype == f32x4, "its type")
        static_assert(x.dtype != y.dtype, "their types")
        y[i] = min(w * v + y.dtype(0), f32x4("inf"))


@DEVICES
def test_made_of_numbers(device: Any) -> None:
    y = device.full(4, np.nan, f32)
    made(device.array(np.array([7.0], np.float32)), y, 5)
    tenth = np.float32(np.float16(0.1))
    assert np.array_equal(y.numpy(), (np.array([1, 5, 2, 7], np.float32) + np.array([1, 2, 3, 4], np.float32) + tenth) * np.float32(5))


@kernel(grid=elements("y"))
def converted(x: Slice[f32x4], y: SliceMut[i32x4], z: SliceMut[u8x4], w: SliceMut[f32x4]) -> None:
    i = thread_index()
    if i in x:
        y[i] = i32x4(x[i])
        z[i] = u8x4(i32x4(x[i]))
        w[i] = i16x4(i32x4(x[i])) + f32x4(0.5)  # short integers become f32 by themselves
        w[i] = f16x4(w[i])


@DEVICES
def test_conversions(device: Any) -> None:
    x = np.array([1.7, -1.7, 1e10, np.nan, 300.2, -300.2, 0, 5], np.float32)
    y, z, w = device.zeros(8, i32), device.zeros(8, kdsl.u8), device.zeros(8, f32)
    converted(device.array(x), y, z, w)
    whole = np.array([1, -1, 2**31 - 1, 0, 300, -300, 0, 5], np.int32)
    assert np.array_equal(y.numpy(), whole)
    assert np.array_equal(z.numpy(), whole.astype(np.uint8))
    assert np.array_equal(w.numpy(), whole.astype(np.int16).astype(np.float32) + 0.5)


# --------------------------------------------------------------------------------------------------------------------- names, loops, calls


@kernel(grid=elements("y"))
def loops(x: Slice[f32x4], y: DisjointSlice[f32x4], trips: i32) -> None:
    i = thread_index()
    if i in y:
        total = f32x4(0)
        before = f32x4(1)
        for k in range(trips):
            total += x[(i + k) % len(x)] * before
            if k % 3 == i % 2:
                continue
            before, total = total, before  # both at once
            if k == 11:
                break
        else:
            total = total + total
        y[i] = total


@DEVICES
def test_names_in_loops(device: Any) -> None:
    x = RANDOM.integers(0, 3, (37, 4)).astype(np.float32)
    for trips in (0, 1, 7, 20):
        y = device.full(37 * 4, np.nan, f32)
        loops(device.array(x.reshape(-1)), y, trips)
        for i in range(37):
            total, before = np.zeros(4), np.ones(4)
            for k in range(trips):
                total = total + x[(i + k) % 37].astype(np.float64) * before
                if k % 3 == i % 2:
                    continue
                before, total = total, before
                if k == 11:
                    break
            else:
                total = total + total
            assert np.array_equal(y.numpy().reshape(37, 4)[i], total.astype(np.float32)), (trips, i)


@function
def swapped(v: f32x4, w: f32x4) -> tuple[f32x4, f32x4]:
    if v.x > w.x:
        return w, v
    return v, w


@function
def largest(v: f32x4) -> f32:
    return max(v)


@function
def blended(a: T, b: T, share: f32) -> T:
    return a + (b - a) * share


@function
def element_at(array: Slice[T], i: i64) -> T:
    return array[i] if i in array else array.dtype(0)


@kernel(grid=elements("y"))
def called(x: Slice[f32x4], w: Slice[f32x4], y: DisjointSlice[f32x4]) -> None:
    i = thread_index()
    if i in y:
        low, high = swapped(x[i], w[i])
        mixed: f32x4 = blended(low, high, 0.25)
        mixed = mixed * blended(low.y, high.y, 0.5)
        y[i] = mixed + largest(high) + element_at(x, i + 1)


@DEVICES
def test_functions_of_vectors(device: Any) -> None:
    x, w = (RANDOM.integers(-9, 9, (40, 4)).astype(np.float32) for _ in range(2))
    y = device.full(160, np.nan, f32)
    called(device.array(x.reshape(-1)), device.array(w.reshape(-1)), y)
    swap = (x[:, 0] > w[:, 0])[:, None]
    low, high = np.where(swap, w, x).astype(np.float64), np.where(swap, x, w).astype(np.float64)
    following = np.concatenate([x[1:], np.zeros((1, 4))])
    mixed = (low + (high - low) * 0.25) * (low[:, 1:2] + (high[:, 1:2] - low[:, 1:2]) * 0.5)
    assert np.array_equal(y.numpy().reshape(40, 4), (mixed + high.max(1, keepdims=True) + following).astype(np.float32))


@kernel(grid=elements("y"))
def mathematics(x: Slice[f32x4], y: DisjointSlice[f32x4], z: SliceMut[f64x2]) -> None:
    i = thread_index()
    if i in y:
        y[i] = exp(x[i])
        z[i] = sqrt(f64x2(x[i].x, x[i].y)) + fma(f64x2(1, 2), f64x2(x[i].x, 1), 0.5)


@kernel(grid=elements("y"))
def mathematics_of_numbers(x: Slice[f32], y: DisjointSlice[f32]) -> None:
    i = thread_index()
    if i in y:
        y[i] = exp(x[i])


@DEVICES
def test_mathematics_takes_vectors(device: Any) -> None:
    x = RANDOM.random(400).astype(np.float32)
    y, single, z = device.zeros(400, f32), device.zeros(400, f32), device.zeros(200, kdsl.f64)
    mathematics(device.array(x), y, z)
    mathematics_of_numbers(device.array(x), single)
    assert np.array_equal(y.numpy(), single.numpy())
    pairs = x.reshape(100, 4)[:, :2].astype(np.float64)
    assert np.array_equal(z.numpy().reshape(100, 2), np.sqrt(pairs) + np.stack([pairs[:, 0] + 0.5, np.full(100, 2.5)], 1))


# -------------------------------------------------------------------------------------------------------------------- between the threads


@kernel(grid=rows("y.shape[0]"), block=96)
def row_sums(x: Slice[f32, kdsl.D2], y: SliceMut[f32, kdsl.D2]) -> None:
    row = row_index()
    v = as_vectors(x, f32x4)
    total = f32x4(0)
    if row < y.shape[0]:
        for j in range(kdsl.lane_index(), v.shape[1], 32):
            total += v[row, j]
    whole = warp_sum(total.x + total.y + (total.z + total.w))
    if row < y.shape[0] and is_first_lane():
        y[row, 0] = whole


@DEVICES
def test_a_warp_sums_a_row(device: Any) -> None:
    x = RANDOM.integers(-50, 50, (19, 204)).astype(np.float32)
    y = device.full((19, 1), np.nan, f32)
    row_sums(device.array(x), y)
    assert np.array_equal(y.numpy()[:, 0], x.sum(1))


@kernel(grid=sweep(blocks=3), block=64)
def around_barriers(x: Slice[i64x2], y: SliceMut[i64], threads: i32) -> None:
    """Vectors that live across barriers, and one that says how often there is one; of each block only some threads are left then."""
    s = shared_array(64, i64)
    t = thread_idx.x
    s[t] = 7
    sync_threads()
    if t >= threads:
        return
    own = x[t % len(x)]
    trips = x[0]
    for k in range(trips.x):
        s[t] = own.x + k
        sync_threads()
        own = i64x2(s[(t + 1) % 64], own.y + trips.y)
        sync_threads()
    y[thread_index()] = own.x * 1000 + own.y


@DEVICES
def test_vectors_around_barriers(device: Any) -> None:
    x = np.stack([np.arange(50) + 3, np.arange(50) + 5], 1).astype(np.int64)
    for threads in (64, 37, 1, 0):
        y = device.full(192, -1, i64)
        around_barriers(device.array(x.reshape(-1)), y, threads)
        first, second = x[np.arange(64) % 50].T.copy()
        first[threads:] = 7
        for k in range(3):
            first[:threads] += k
            following = np.roll(first, -1)
            first[:threads] = following[:threads]
            second += x[0, 1]
        wanted = first * 1000 + second
        wanted[threads:] = -1
        assert np.array_equal(y.numpy(), np.tile(wanted, 3))


# --------------------------------------------------------------------------------------------------------------------- arrays in launches


@DEVICES
def test_element_wise_in_place(device: Any) -> None:
    x = RANDOM.integers(-9, 9, 4 * 333).astype(np.float32)
    y = device.array(x)
    axpy(y, y, y, 2.0)
    assert np.array_equal(y.numpy(), 3 * x)


@kernel(grid="(len(y) // 4 + 255) // 256")
def halved(x: Slice[f32], y: DisjointSlice[f32]) -> None:
    i = thread_index()
    xv, yv = as_vectors(x, f32x4), as_vectors(y, f32x4)
    if i in yv:
        yv[i] = xv[i] * 0.5


@DEVICES
def test_in_place_through_as_vectors(device: Any) -> None:
    x = RANDOM.integers(-9, 9, 4 * 333 + 3).astype(np.float32)
    y = device.array(x)
    halved(y, y)
    assert np.array_equal(y.numpy()[:-3], x[:-3] / 2)
    assert np.array_equal(y.numpy()[-3:], x[-3:])


@DEVICES
def test_graphs(device: Any) -> None:
    x, other = (RANDOM.integers(-9, 9, 400).astype(np.float32) for _ in range(2))
    first, second, y = device.array(x), device.array(np.concatenate([[0], other]).astype(np.float32)), device.zeros(400, f32)
    with kdsl.Graph(device) as graph:
        node = halved(first, y)
    graph.launch()
    assert np.array_equal(y.numpy(), x / 2)
    with pytest.raises(kdsl.LaunchError, match="lies 4 behind one"):
        graph.update(node, x=second[1:])
    graph.update(node, x=device.array(other))
    graph.launch()
    assert np.array_equal(y.numpy(), other / 2)


@kernel(grid=elements("y"))
def generic(x: Slice[T], y: DisjointSlice[T], lanes: Const[int]) -> None:
    i = thread_index()
    if i in y:
        v = as_vectors(x, lanes)
        total = v.dtype(0)
        for k in range(len(v)):
            total += v[k]
        sum_of_all = total[0]
        for k in unroll(1, lanes):
            sum_of_all += total[k]
        y[i] = sum_of_all


@DEVICES
@pytest.mark.parametrize(("of", "lanes"), [("f32", 4), ("f32", 2), ("f64", 2), ("i16", 8), ("u8", 16)])
def test_kernels_for_any_type(device: Any, of: str, lanes: int) -> None:
    x = RANDOM.integers(0, 5, 48).astype(kdsl.dtype(of).numpy)
    y = device.zeros(33, x.dtype)
    generic(device.array(x), y, lanes)
    assert np.array_equal(y.numpy(), np.full(33, x.sum(dtype=x.dtype)))


def test_on_the_host() -> None:
    assert f32x4(1, 2, 3, 4.5).tolist() == [1, 2, 3, 4.5]
    assert i32x4(2.9).tolist() == [2, 2, 2, 2]
    assert f32x2(1, 2).dtype == np.float32
    with pytest.raises(TypeError, match="takes 4 numbers, or one for all, not 3"):
        f32x4(1, 2, 3)


# ------------------------------------------------------------------------------------------------------------------------- checked builds


@DEVICES
def test_checked_builds_check_what_is_proved(device: Any) -> None:
    kdsl.checked()
    try:

        @kernel(grid=elements("y"))
        def outside(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
            i = thread_index()
            if i in y:
                y[i] = x.unchecked[i]

        y = device.full(40, 1.0, f32)
        outside(device.array(np.ones(36, np.float32)), y)
        with pytest.raises(kdsl.BoundsError, match="index 9 is out of bounds for 9 elements"):
            device.synchronize()
    finally:
        kdsl.checked(False)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 60), st.integers(0, 40), st.integers(0, 3))
def test_any_part_of_an_array(vectors: int, first: int, more: int) -> None:
    """Slices that begin at a vector are taken, others refused."""
    device = kdsl.device("cpu")
    x = np.arange(240, dtype=np.float32)
    part = slice(first, first + 4 * vectors + more // 3)
    y = device.zeros(len(x[part]) // 4 * 4, f32)
    given_part = device.array(x)[part]
    if len(x[part]) % 4 or (first % 4 and len(x[part])):
        with pytest.raises(kdsl.LaunchError, match="multiple of"):
            axpy(given_part, given_part, y, 1.0)
    else:
        axpy(given_part, given_part, y, 1.0)
        assert np.array_equal(y.numpy(), 2 * x[part])
