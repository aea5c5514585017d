"""Operations for which AVX-512 has an instruction of its own: the bits of the general way, with vectors of every width."""

from __future__ import annotations

import itertools
from typing import TypeVar

import numpy as np
import pytest

import kdsl
from kdsl import (
    DisjointSlice,
    Slice,
    SliceMut,
    elements,
    exp,
    f32,
    f64,
    kernel,
    lane_index,
    row_index,
    rows,
    thread_index,
    warp_max,
    warp_min,
)
from kdsl.backend.cpu import HostCpu, compile_assembly
from kdsl.lang.types import DType

T = TypeVar("T", f32, f64)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -5e-324, 1e-45, -1e-45, 2.5, -2.5, 3e38]


def extremes() -> kdsl.Kernel:
    """A new kernel, so that it is compiled for the processor that is chosen now."""

    @kernel(grid=elements("x"), requires=("len(z) == len(x)", "len(y) == 2 * len(x)"))
    def both(y: SliceMut[T], x: Slice[T], z: Slice[T]) -> None:
        i = thread_index()
        if i < len(x):
            y[i] = min(x[i], z[i])
            y[i + len(x)] = max(x[i], z[i])

    return both


def of_warps() -> kdsl.Kernel:
    @kernel(grid=rows("len(y) // 2"), requires=("16 * len(y) == len(x)",))
    def both(y: SliceMut[T], x: Slice[T]) -> None:
        row = row_index()
        if row < len(y) // 2:
            value = x[32 * row + lane_index()]
            y[2 * row] = warp_min(value)
            y[2 * row + 1] = warp_max(value)

    return both


def exponentials() -> kdsl.Kernel:
    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def exponential(y: DisjointSlice[T], x: Slice[T]) -> None:
        i = thread_index()
        if i in y:
            y[i] = exp(x[i])

    return exponential


@pytest.fixture(params=["", ":256", ":128"])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if HostCpu.detect().generation != "x86-64-v4":
        pytest.skip("no AVX-512 here")
    monkeypatch.setenv("KDSL_CPU", request.param)
    return str(request.param)


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    integers = np.int32 if found.dtype == np.float32 else np.int64
    either = np.isnan(found) & np.isnan(wanted)
    np.testing.assert_array_equal(np.where(either, 0, found.view(integers)), np.where(either, 0, wanted.view(integers)))


def ordered(x: np.ndarray, z: np.ndarray, larger: bool) -> np.ndarray:
    """The smaller or larger of each pair; a NaN if one is, -0 below 0."""
    first = (x < z) | ((x == z) & np.signbit(x))
    return np.where(np.isnan(x) | np.isnan(z), x.dtype.type(np.nan), np.where(first == larger, z, x)).astype(x.dtype)


@pytest.mark.parametrize("of", [f32, f64])
def test_extremes(width: str, of: DType) -> None:
    cpu = kdsl.device("cpu")
    x, z = (np.array(column, of.numpy) for column in zip(*itertools.product(SPECIAL, SPECIAL), strict=True))
    rng = np.random.default_rng(0)
    order = rng.permutation(np.tile(np.arange(len(x)), 5))[:901]
    x, z = x[order], z[order]
    y = cpu.zeros(2 * len(x), of)
    extremes()(y, cpu.array(x), cpu.array(z))
    same(y.numpy(), np.concatenate([ordered(x, z, False), ordered(x, z, True)]))


@pytest.mark.parametrize("of", [f32, f64])
def test_extremes_of_a_warp(width: str, of: DType) -> None:
    cpu = kdsl.device("cpu")
    rng = np.random.default_rng(1)
    x = rng.choice(np.array(SPECIAL, of.numpy), (64, 32))
    x[::2][np.isnan(x[::2])] = 1
    x[::4] = np.where(rng.random((16, 32)) < 0.9, of.numpy.type(-0.0), of.numpy.type(0.0))
    y = cpu.zeros(128, of)
    of_warps()(y, cpu.array(x.reshape(-1)))
    smallest, largest = x[:, 0], x[:, 0]
    for lane in range(1, 32):
        smallest, largest = ordered(smallest, x[:, lane], False), ordered(largest, x[:, lane], True)
    same(y.numpy(), np.stack([smallest, largest], 1).reshape(-1))


@pytest.mark.parametrize("of", [f32, f64])
def test_exponentials(width: str, of: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = kdsl.device("cpu")
    limit = 110 if of is f32 else 760
    x = np.concatenate([np.linspace(-limit, limit, 20001), np.linspace(-limit, -limit * 0.9, 3001), SPECIAL]).astype(of.numpy)
    y, general = cpu.zeros(len(x), of), cpu.zeros(len(x), of)
    exponentials()(y, cpu.array(x))
    monkeypatch.setenv("KDSL_CPU", "x86-64-v3")
    exponentials()(general, cpu.array(x))
    same(y.numpy(), general.numpy())


def test_the_instructions() -> None:
    host = HostCpu("x86-64-v4")
    assert "vscalefps" in compile_assembly(exponentials().ir(T=f32), host)
    assert "vscalefpd" in compile_assembly(exponentials().ir(T=f64), host)
    assert "vrangeps" in compile_assembly(extremes().ir(T=f32), host)
    assert "vscalef" not in compile_assembly(exponentials().ir(T=f32), HostCpu("x86-64-v3"))
