"""Quotients by a shared divisor, computed without dividing: the bits of a division, whatever the operands."""

from __future__ import annotations

import numpy as np
import pytest

import kdsl
from kdsl import DisjointSlice, Slice, SliceMut, elements, f32, kernel, lane_index, row_index, rows, struct, thread_index, u32, warp_sum
from kdsl.backend.cpu import HostCpu, compile_ir

GENERATIONS = ["", ":128", ":256", "x86-64-v3", "x86-64-v3:128"]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 3.4028235e38, -3.4028235e38, 1e-45, -1e-45, 1.1754944e-38, 1.1754942e-38]
EDGES = [
    s * m * 2.0**e
    for e in (-127, -126, -91, -90, -89, -33, -32, 0, 31, 32, 93, 94, 95, 126, 127)
    for m in (1.0, 1.9999999, 1.3)
    for s in (1, -1)
]
DIVISORS = [*SPECIAL, *EDGES, 3.0, 0.1, 0.05, 7.0, 1 / 3, 0.99999994, 1.0000001]


@struct
class Matrix:
    """A shape."""

    rows: u32
    """Rows."""
    columns: u32
    """Columns."""


def by_a_parameter() -> kdsl.Kernel:
    """A new kernel, so that it is compiled for the processor that is chosen now."""

    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def divide(y: DisjointSlice[f32], x: Slice[f32], by: f32) -> None:
        i = thread_index()
        if i in y:
            y[i] = x[i] / by

    return divide


def by_numbers() -> kdsl.Kernel:
    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def divide(y: DisjointSlice[f32], x: Slice[f32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = x[i] / 3.0 + x[i] / 4.0 + x[i] / 1e-44

    return divide


def by_a_sum() -> kdsl.Kernel:
    @kernel(grid=rows("p.rows"), requires=("len(y) == p.rows * p.columns", "len(x) == len(y)"))
    def share(y: SliceMut[f32], x: Slice[f32], p: Matrix) -> None:
        row = row_index()
        if row >= p.rows:
            return
        total = f32(0)
        for column in range(lane_index(), p.columns, 32):
            total += x[row * p.columns + column]
        total = warp_sum(total)
        for column in range(lane_index(), p.columns, 32):
            y[row * p.columns + column] = x[row * p.columns + column] / total

    return share


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    either = np.isnan(found) & np.isnan(wanted)
    np.testing.assert_array_equal(np.where(either, 0, found.view(np.int32)), np.where(either, 0, wanted.view(np.int32)))


def dividends() -> np.ndarray:
    """Numbers of every kind, kinds apart from one another (whole groups of each) and mixed."""
    rng = np.random.default_rng(0)
    usual = rng.standard_normal(512, dtype=np.float32)
    wild = rng.integers(0, 1 << 32, 512, dtype=np.uint32).view(np.float32)
    sparse = np.where(rng.random(512) < 0.3, np.float32(0), usual) * np.float32(1)
    edges = np.array([*SPECIAL, *EDGES], np.float32)
    powers = [-127, -126, -120, -100, *range(-93, -86), 0, 90, 92, 93, 94, 95, 126]
    of_one_size = [(np.float32(2.0**power) * (1 + rng.random(128, dtype=np.float32))).astype(np.float32) for power in powers]
    return np.concatenate(
        [*of_one_size, usual, np.zeros(256, np.float32), -np.zeros(256, np.float32), sparse, -sparse, wild, edges, usual[:37]]
    ).astype(np.float32)


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    detected = HostCpu.detect()
    if not detected.is_x86 or (request.param == ":256" and detected.vector_bits < 512):
        pytest.skip("of another processor")
    monkeypatch.setenv("KDSL_CPU", request.param)
    return str(request.param)


def test_quotients_by_a_parameter(generation: str) -> None:
    cpu, x = kdsl.device("cpu"), dividends()
    array, y, divide = cpu.array(x), cpu.zeros(len(x), f32), by_a_parameter()
    for divisor in DIVISORS:
        divide(y, array, float(np.float32(divisor)))
        with np.errstate(all="ignore"):
            same(y.numpy(), x / np.float32(divisor))


def test_quotients_by_numbers(generation: str) -> None:
    cpu, x = kdsl.device("cpu"), dividends()
    y = cpu.zeros(len(x), f32)
    by_numbers()(y, cpu.array(x))
    with np.errstate(all="ignore"):
        same(y.numpy(), x / np.float32(3) + x / np.float32(4) + x / np.float32(1e-44))


def test_quotients_by_what_lanes_have_added(generation: str) -> None:
    cpu = kdsl.device("cpu")
    x = np.stack([np.eye(1, 77, 5)[0], np.full(77, 0.25), np.full(77, 1e-30), np.full(77, 2e36), np.zeros(77), np.full(77, -3.0)]).astype(
        np.float32
    )
    y = cpu.zeros(x.size, f32)
    by_a_sum()(y, cpu.array(x.reshape(-1)), Matrix(rows=6, columns=77))
    totals = np.array([1, 0.25 * 77, 0, 2e36 * 77, 0, -3 * 77], np.float32)
    found = y.numpy().reshape(x.shape)
    with np.errstate(all="ignore"):
        for row in (0, 1, 4, 5):  # the others' sums are rounded
            same(found[row], x[row] / totals[row])


@pytest.mark.parametrize(("name", "divides"), [("x86-64-v3", False), ("x86-64-v4", False), ("aarch64", True)])
def test_the_divider_is_for_the_exceptions(name: str, divides: bool) -> None:
    text = compile_ir(by_a_parameter().ir(), HostCpu(name))
    assert ("fdiv float 1.000000e+00" not in text) == divides
