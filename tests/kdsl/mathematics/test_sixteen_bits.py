"""The mathematics library for f16 and bf16: the f32 functions, rounded to the type, of every argument."""

from typing import Any, TypeVar

import mathematics_reference as reference
import numpy as np
import pytest

import kdsl
import kdsl.testing
from kdsl import DisjointSlice, Slice, bf16, elements, f16, f32, i32, kernel, thread_index

DEVICES = pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
TYPES = pytest.mark.parametrize("of", [f16, bf16], ids=str)
N = TypeVar("N", f16, bf16)


def every(of: Any) -> Any:
    """All numbers of the type."""
    return np.arange(1 << 16, dtype=np.uint16).view(of.numpy)


def same(result: Any, exact: Any) -> None:
    """The same numbers, zeros with their signs; NaN is NaN."""
    other = (result.view(np.uint16) != exact.view(np.uint16)) & ~(np.isnan(result) & np.isnan(exact))
    assert not other.any(), f"{int(other.sum())} differ, first {result[other][0]!r} for {exact[other][0]!r}"


@DEVICES
@TYPES
@pytest.mark.parametrize("name", reference.ONE)
def test_one_argument(name: str, of: Any, device: Any) -> None:
    function = getattr(kdsl, name)

    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def apply(y: DisjointSlice[N], x: Slice[N]) -> None:
        i = thread_index()
        if i in y:
            y[i] = function(x[i])

    x = every(of)
    y = device.full(x.size, 1.0, of)
    apply(y, device.array(x))
    wide = reference.run(device, name, (x.astype(np.float32),))
    with np.errstate(all="ignore"):
        same(y.numpy(), wide.astype(of.numpy))


@DEVICES
@TYPES
@pytest.mark.parametrize("name", reference.TWO)
def test_two_arguments(name: str, of: Any, device: Any) -> None:
    function = getattr(kdsl, name)

    @kernel(grid=elements("y"), requires=("len(a) == len(y)", "len(b) == len(y)"))
    def apply(y: DisjointSlice[N], a: Slice[N], b: Slice[N]) -> None:
        i = thread_index()
        if i in y:
            y[i] = function(a[i], b[i])

    rng = np.random.default_rng(1)
    a, b = rng.permutation(every(of)), rng.permutation(every(of))
    y = device.full(a.size, 1.0, of)
    apply(y, device.array(a), device.array(b))
    wide = reference.run(device, name, (a.astype(np.float32), b.astype(np.float32)))
    with np.errstate(all="ignore"):
        same(y.numpy(), wide.astype(of.numpy))


@DEVICES
@TYPES
def test_classes(of: Any, device: Any) -> None:
    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def apply(y: DisjointSlice[i32], x: Slice[N]) -> None:
        i = thread_index()
        if i in y:
            y[i] = i32(kdsl.isnan(x[i])) + 2 * i32(kdsl.isinf(x[i])) + 4 * i32(kdsl.isfinite(x[i]))

    x = every(of)
    y = device.full(x.size, -1, i32)
    apply(y, device.array(x))
    with np.errstate(invalid="ignore"):
        x = x.astype(np.float32)
    np.testing.assert_array_equal(y.numpy(), np.isnan(x) + 2 * np.isinf(x) + 4 * np.isfinite(x))


def test_a_narrow_number_meets_literals_and_wider_ones() -> None:
    @kernel(grid=1, block=1)
    def apply(y: DisjointSlice[f32], h: Slice[f16]) -> None:
        i = thread_index()
        if i in y and i in h:
            y[i] = kdsl.pow(h[i], 2) + kdsl.hypot(h[i], y[i]) + kdsl.exp(h[i])

    device = kdsl.device("cpu")
    y = device.full(1, 4.0, f32)
    apply(y, device.array(np.array([3.0], np.float16)))
    assert y.numpy()[0] == np.float32(9 + 5 + np.float32(np.float16(np.exp(3.0))))


def test_the_two_narrow_types_meet_in_f32() -> None:
    @kernel(grid=1, block=1)
    def apply(y: DisjointSlice[f32], h: Slice[f16], b: Slice[bf16]) -> None:
        i = thread_index()
        if i in y and i in h and i in b:
            y[i] = kdsl.hypot(h[i], b[i])

    device = kdsl.device("cpu")
    y = device.full(1, 0.0, f32)
    apply(y, device.full(1, 1.0, f16), device.full(1, 3.0, bf16))
    assert y.numpy()[0] == np.sqrt(np.float32(10))
