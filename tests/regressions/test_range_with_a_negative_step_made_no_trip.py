"""Elsewhere `range(88, -1, -8)` ran not at all, a step of 0 for ever, and a range near the largest integer never ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, module, result_of

import kdsl

I64 = kdsl.dtype("i64")
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
RANGES = [
    (88, -1, -8),
    (5, 10, -3),
    (10, 0, -1),
    (0, 10, 3),
    (3, 3, 1),
    (10, 0, 3),
    (0, 10, 11),
    (7, -7, -14),
    (7, -7, -13),
    (-3, 4, 1),
    (2**31 - 20, 2**31 - 1, 7),
    (2**31 - 3, 2**31 + 4, 2),
    (-(2**31) - 2, -(2**31) + 3, 1),
    (LARGEST - 20, LARGEST, 7),
    (LARGEST - 2, LARGEST, 5),
    (SMALLEST + 9, SMALLEST, -4),
    (SMALLEST, LARGEST, LARGEST),
    (LARGEST, SMALLEST, SMALLEST),
    (0, LARGEST, 2**62 + 1),
    (LARGEST, -5, -(2**61)),
    (SMALLEST, SMALLEST + 1, LARGEST),
    (5, 5, -1),
    (-1, 0, LARGEST),
    (0, -1, SMALLEST),
]
_BODY = """n = 0
for k in range({start}, {stop}, {step}):
    if n < 16:
        y[{first} + n] = k
    n += 1
    if n > 40:
        break
y[{first} + 16] = n"""


def expected(start: int, stop: int, step: int) -> list[int]:
    visited = list(range(start, stop, step)[:16]) if step else []
    trips = min(len(range(start, stop, step)), 41) if step else 0
    return [*visited, *[-7] * (16 - len(visited)), trips]


def run(device: Any, kernel: Any, count: int, *arguments: Any) -> list[int]:
    y = device.full(count, -7, I64)
    kernel(y, *arguments)
    return y.numpy().tolist()  # type: ignore[no-any-return]


@DEVICES
def test_known_at_run_time(device: Any) -> None:
    kernel = kernel_of(
        "y: SliceMut[i64], start: i64, stop: i64, step: i64",
        _BODY.format(start="start", stop="stop", step="step", first=0),
        "grid=1, block=1",
    )
    for bounds in [*RANGES, (0, 10, 0), (10, 0, 0), (0, 0, 0)]:
        assert run(device, kernel, 17, *bounds) == expected(*bounds), bounds


@DEVICES
def test_known_to_the_compiler(device: Any) -> None:
    bodies = "\n".join(_BODY.format(start=f"({a})", stop=f"({b})", step=f"({c})", first=17 * n) for n, (a, b, c) in enumerate(RANGES))
    found = run(device, kernel_of("y: SliceMut[i64]", bodies, "grid=1, block=1"), 17 * len(RANGES))
    assert found == [v for bounds in RANGES for v in expected(*bounds)]


@DEVICES
@pytest.mark.parametrize("which", ["start", "stop", "step"])
def test_partly_known(device: Any, which: str) -> None:
    """The compiler knows two of three, and makes other code of it."""
    bodies = []
    for n, bounds in enumerate(RANGES):
        names = dict(zip(("start", "stop", "step"), (f"({v})" for v in bounds), strict=True)) | {which: f"x[{n}]"}
        bodies.append(_BODY.format(**names, first=17 * n))
    x = np.array([bounds[("start", "stop", "step").index(which)] for bounds in RANGES], np.int64)
    kernel = kernel_of("y: SliceMut[i64], x: Slice[i64]", "\n".join(bodies), "grid=1, block=1")
    assert run(device, kernel, 17 * len(RANGES), device.array(x)) == [v for bounds in RANGES for v in expected(*bounds)]


@DEVICES
def test_another_range_in_each_thread(device: Any) -> None:
    kernel = kernel_of(
        "y: SliceMut[i64], x: Slice[i64]",
        "i = thread_index()\n" + _BODY.format(start="x[3 * i]", stop="x[3 * i + 1]", step="x[3 * i + 2]", first="17 * i"),
        f"grid=1, block={len(RANGES)}",
    )
    found = run(device, kernel, 17 * len(RANGES), device.array(np.array(RANGES, np.int64).reshape(-1)))
    assert found == [v for bounds in RANGES for v in expected(*bounds)]


@DEVICES
@pytest.mark.parametrize("of", ["i8", "u8", "i32", "u32"])
def test_bounds_of_narrow_types(device: Any, of: str) -> None:
    """The counter is an i64: a bound of 255 or of 2**32 - 1 is no end of its type."""
    narrow = kdsl.dtype(of)
    kernel = kernel_of(
        f"y: SliceMut[i64], start: {of}, stop: {of}, step: {of}",
        _BODY.format(start="start", stop="stop", step="step", first=0),
        "grid=1, block=1",
    )
    for bounds in (
        (narrow.maximum - 5, narrow.maximum, 2),
        (narrow.maximum, narrow.minimum, 100),
        (narrow.minimum, narrow.maximum, narrow.maximum),
        (1, 4, 1),
    ):
        assert run(device, kernel, 17, *bounds) == expected(*bounds)
    if narrow.is_signed:
        assert run(device, kernel, 17, narrow.minimum + 5, narrow.minimum, -2) == expected(narrow.minimum + 5, narrow.minimum, -2)


@DEVICES
def test_unrolled(device: Any) -> None:
    few = [bounds for bounds in RANGES if len(range(*bounds)) <= 16]
    bodies = "\n".join(
        f"n = 0\nfor k in unroll({a}, {b}, {c}):\n    y[{17 * k} + n] = k\n    n += 1\ny[{17 * k + 16}] = n"
        for k, (a, b, c) in enumerate(few)
    )
    found = run(device, kernel_of("y: SliceMut[i64]", bodies, "grid=1, block=1"), 17 * len(few))
    assert found == [v for bounds in few for v in expected(*bounds)]


@DEVICES
def test_the_bounds_are_read_once(device: Any) -> None:
    """Python evaluates `range(…)` before the first trip: what the body changes changes nothing."""
    kernel = kernel_of(
        "y: SliceMut[i64], m: i64",
        (
            "n = m\nstep = 1\nk = 0\ntrips = 0\nfor k in range(0, n, step):\n    n = 2\n    "
            "step = 5\n    k = 100\n    trips += 1\ny[0] = trips\ny[1] = n\ny[2] = k"
        ),
        "grid=1, block=1",
    )
    assert result_of(device, kernel, 3, I64, 7).tolist() == [7, 2, 100]


@pytest.mark.parametrize("loop", ["range(0, 5, 0)", "range(5, 0, ZERO)", "unroll(0, 3, 0)", "range(0, 3, 1 - 1)"])
def test_a_literal_step_of_zero_is_an_error(loop: str) -> None:
    with pytest.raises(kdsl.KernelError, match=r"step of .* is zero"):
        kernel_of("y: SliceMut[i64]", f"for k in {loop}:\n    y[0] = k", ZERO=0).ir()


def test_a_float_bound_is_an_error() -> None:
    for loop in ("range(2.5)", "range(y[0])", "range(0, 5, 0.5)", "range(True)"):
        with pytest.raises(kdsl.KernelError, match="range"):
            module(f"@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    for i in {loop}:\n        y[0] = 1.0\n")["k"].ir()
