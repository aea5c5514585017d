"""A local array that was indexed at run time began as whatever lay in its memory, one with constant indices as 0. All begin as 0."""

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, module, result_of

from kdsl import (
    DType,
    Slice,
    SliceMut,
    as_vectors,
    f32,
    f32x4,
    function,
    i32,
    i64,
    kernel,
    local_array,
    sync_threads,
    thread_idx,
    thread_index,
    unroll,
    warp_sum,
)
from kdsl.lang.types import DTYPES

N = 75
"""Threads: whole groups of lanes, and one that is not."""


@kernel(grid=3, block=40)
def litter(y: SliceMut[i64], n: i64) -> None:
    """Leave ones in the memory where local arrays lie."""
    a = local_array(3000, i64)
    for k in range(n):
        a[k] = -1
    y[thread_index()] = a[y[thread_index()]]


def ran(device: Any, kernel: Any, count: int, of: DType, *arguments: Any) -> Any:
    litter(device.zeros(120, i64), 3000)
    return result_of(device, kernel, count, of, *arguments)


@DEVICES
@pytest.mark.parametrize("size", [3, 40, 700])
@pytest.mark.parametrize("of", DTYPES.values(), ids=str)
@pytest.mark.parametrize("guard", ["True", "i % 3 != 1"])
def test_every_type_and_size(device: Any, of: DType, size: int, guard: str) -> None:
    lines = f"i = thread_index()\nif {guard}:\n    s = local_array({size}, {of})\n    s[i % {size}] = {of}(1)\n    y[i] = 0\n"
    lines += f"    for k in range({size}):\n        y[i] += i32(s[(i + k) % {size}]) * i32(k + 1)"
    kernel = kernel_of("y: SliceMut[i32]", lines, "grid=5, block=16")
    found = ran(device, kernel, 80, i32)
    np.testing.assert_array_equal(found[np.arange(80) % 3 != 1] if "!=" in guard else found, 1)


@kernel(grid=1, block=N)
def anew(y: SliceMut[i32], trips: Slice[i32]) -> None:
    i = thread_idx.x
    total = 0
    for k in range(trips[i]):
        s = local_array((2, 3), i32)
        total = total * 2 + s[k % 2, i % 3] + s[1 - k % 2, (i + 1) % 3]
        s[k % 2, i % 3] = 5
        s[1 - k % 2, (i + 1) % 3] = 7
    y[i] = total


@DEVICES
def test_each_time_the_call_is_executed(device: Any) -> None:
    np.testing.assert_array_equal(ran(device, anew, N, i32, (np.arange(N) % 7).astype(np.int32)), 0)


@kernel(grid=1, block=N)
def left(y: SliceMut[i32], trips: Slice[i32]) -> None:
    i = thread_idx.x
    k = i32(0)
    while True:
        s = local_array(300, i32)
        s[(i + k) % 300] += k + 1
        k += 1
        if k > trips[i]:
            break
    y[i] = s[(i + k - 1) % 300] * 1000 + s[(i + k) % 300]


@DEVICES
def test_lanes_that_have_left_keep_theirs(device: Any) -> None:
    trips = (np.arange(N) * 5 % 11).astype(np.int32)
    np.testing.assert_array_equal(ran(device, left, N, i32, trips), 1000 * (trips + 1))


STRUCT = '''
@struct
class Part:
    """Of an element."""
    flag: bool
    """A bool."""
    values: FixedArray[f64, Literal[2]]
    """Floats."""

@struct
class Whole:
    """An element."""
    small: i8
    """A byte."""
    parts: FixedArray[Part, Literal[3]]
    """Structs."""
    half: f16
    """A half."""

@kernel(grid=1, block=75)
def structs(y: SliceMut[f64], n: i64) -> None:
    i = thread_idx.x
    total = f64(0)
    if i % 4 != 2:
        a = local_array((2, 5), Whole)
        a[i % 2, n].parts[i % 3].values[1] = 0.5
        for p in range(2):
            for q in range(5):
                w = a[p, q]
                total += f64(w.small) + f64(w.half)
                for r in unroll(3):
                    total += f64(w.parts[r].flag) + w.parts[r].values[0] + w.parts[r].values[1]
    y[i] = total
'''


@DEVICES
def test_structs(device: Any) -> None:
    from typing import Literal

    from kdsl import FixedArray, f64

    space = module(STRUCT, Literal=Literal, FixedArray=FixedArray)
    np.testing.assert_array_equal(ran(device, space["structs"], N, f64, 3), np.where(np.arange(N) % 4 != 2, 0.5, 0))


@kernel(grid=1, block=N)
def vectors(y: SliceMut[f32], n: i64) -> None:
    i = thread_idx.x
    a, b = local_array((2, 3), f32x4), local_array((2, 8), f32)
    a[i % 2, n] += f32x4(1.0)
    b[i % 2, n] += 2.0
    v, w = a[1 - i % 2, n] + a[i % 2, n - 1], as_vectors(b, 4)[i % 2, 0] + as_vectors(b, 4)[1 - i % 2, 0]
    y[i] = v.x + v.y + v.z + v.w + w.x + w.y + w.z + w.w


@DEVICES
def test_vectors(device: Any) -> None:
    np.testing.assert_array_equal(ran(device, vectors, N, f32, 2), 2)


@function
def counted(n: Any, size: Any) -> Any:
    counts = local_array(size, i32)
    for k in range(n):
        counts[k * k % size] += 1
    return counts


@kernel(grid=1, block=N)
def functions(y: SliceMut[i32], n: i64) -> None:
    i = thread_idx.x
    total = 0
    for k in unroll(2):
        own = local_array(4, i32)
        own[i % 4] += i32(k) + 1
        total += own[i % 4] * 100 + own[(i + 1) % 4]
    if i < n:
        first, second = counted(i % 5, 5), counted(3, 7)
        total += first[i % 5] + second[1] * 10
    y[i] = total


@DEVICES
def test_in_functions_and_unrolled_loops(device: Any) -> None:
    squares = [sum(k * k % 5 == i % 5 for k in range(i % 5)) for i in range(N)]
    expected = [300 + (squares[i] + 10 if i < 60 else 0) for i in range(N)]
    np.testing.assert_array_equal(ran(device, functions, N, i32, 60), expected)


@kernel(grid=2, block=96)
def together(y: SliceMut[i32], n: i64) -> None:
    t = thread_idx.x
    a, b = local_array(5, i32), local_array(300, i32)
    a[t % 5] += 1
    for k in range(n):
        c = local_array(3, i32)
        sync_threads()
        b[(t + k) % 300] += a[(t + k) % 5] + c[k % 3]
        c[k % 3] = 9
        sync_threads()
    y[thread_index()] = warp_sum(b[(t + 1) % 300]) * 10 + b[t] + b[(t + n) % 300]


@DEVICES
def test_beside_barriers_and_exchanges(device: Any) -> None:
    np.testing.assert_array_equal(ran(device, together, 192, i32, 4), 1)
