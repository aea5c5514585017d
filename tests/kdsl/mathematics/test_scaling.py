"""`ldexp` and `frexp` against NumPy, and what they are for one another."""

from typing import Any

import mathematics_reference as reference
import numpy as np
import pytest

import kdsl.testing
from kdsl import DisjointSlice, KernelError, Slice, elements, f32, f64, frexp, i32, kernel, ldexp, thread_index

DEVICES = pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
TYPES = pytest.mark.parametrize("of", reference.FLOATS)


@kernel(grid=elements("y"), requires=("len(x) == len(y)", "len(n) == len(y)"))
def scale(y: DisjointSlice[reference.F], x: Slice[reference.F], n: Slice[i32]) -> None:
    """y = x * 2**n."""
    i = thread_index()
    if i in y:
        y[i] = ldexp(x[i], n[i])


@kernel(grid=elements("m"), requires=("len(x) == len(m)", "len(n) == len(m)"))
def take_apart(m: DisjointSlice[reference.F], n: DisjointSlice[i32], x: Slice[reference.F]) -> None:
    """x = m * 2**n."""
    i = thread_index()
    if i in m:
        m[i], n[i] = frexp(x[i])


def same(result: Any, exact: Any) -> None:
    np.testing.assert_array_equal(result, exact)
    numbers = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(exact)[numbers])


@DEVICES
@TYPES
def test_scaling_is_rounded_once(of: str, device: Any) -> None:
    rng = np.random.default_rng(3)
    x = reference.arguments(of, 2000, 4)
    widest = 300 if of == "f32" else 2200
    exponents = np.frexp(x)[1]
    least = -150 if of == "f32" else -1075
    edges = np.array([0, 1, -1, widest, -widest, 2**31 - 1, -(2**31), 127, 128, -126, -127, 1023, 1024, -1022, -1023])
    for n in (
        rng.integers(-widest, widest, x.size),
        rng.choice(edges, x.size),
        least - exponents + rng.integers(-2, 60, x.size),  # the results are subnormal, or nearly
        -least - exponents + rng.integers(-60, 2, x.size),
    ):
        y = device.full(x.size, 1.0, f32 if of == "f32" else f64)
        scale(y, device.array(x), device.array(n.astype(np.int32)))
        with np.errstate(all="ignore"):
            same(y.numpy(), np.ldexp(x, np.clip(n, -100_000, 100_000).astype(np.int32)))


@DEVICES
@TYPES
def test_taking_apart_is_exact(of: str, device: Any) -> None:
    x = reference.arguments(of, 2000, 5)
    m, n = device.full(x.size, 9.0, f32 if of == "f32" else f64), device.full(x.size, 9, i32)
    take_apart(m, n, device.array(x))
    exact, exponent = np.frexp(x)
    same(m.numpy(), exact)
    np.testing.assert_array_equal(n.numpy(), np.where(np.isfinite(x), exponent, 0))
    y = device.full(x.size, 1.0, m.dtype)
    scale(y, m, n)
    same(y.numpy(), x)


def test_an_integer_is_not_scaled() -> None:
    @kernel(grid=elements("y"))
    def apply(y: DisjointSlice[i32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = i32(ldexp(y[i], 2))

    with pytest.raises(KernelError, match="f32"):
        apply.ir()
