"""Accesses of several numbers at once at an address that is no multiple of their size.

Copies and rows of matrices name their first element by any index, so without a check they may begin anywhere. Vectors cannot be misaligned by an index: what
they begin with, and their rows, is aligned by the launch (or refused by it) and, of shared arrays, by the compiler. The sanitizer looks all the same.
"""

import re
from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import (
    D2,
    Kernel,
    KernelError,
    LaunchError,
    Slice,
    SliceMut,
    as_vectors,
    copy_async,
    f16,
    f32,
    f32x2,
    i64,
    kernel,
    ldmatrix,
    shared_array,
    stmatrix,
    sync_threads,
    thread_idx,
    u32,
    wait_all_copies,
)
from kdsl.testing import sanitized

N = 32


@kernel(grid=1, block=N)
def copies_from(x: Slice[f32], y: SliceMut[f32], first: i64) -> None:
    s = shared_array((N, 4), f32)
    t = thread_idx.x
    copy_async(s, (t, 0), x.unchecked, 4 * t + first, 4)
    wait_all_copies()
    y[t] = s[t, 3]


@kernel(grid=1, block=N)
def copies_rows(x: Slice[f32, D2], y: SliceMut[f32], first: i64) -> None:
    s = shared_array((N, 2), f32)
    t = thread_idx.x
    copy_async(s, (t, 0), x.unchecked, (t, first), 2)
    wait_all_copies()
    y[t] = s[t, 1]


@kernel(grid=1, block=N)
def copies_to(x: Slice[f32], y: SliceMut[f32], first: i64) -> None:
    s = shared_array((N, 8), f32)
    t = thread_idx.x
    copy_async(s.unchecked, (t, first), x, 4 * t, 4)
    wait_all_copies()
    y[t] = s[t, first]


@kernel(grid=1, block=N)
def loads_matrices(x: Slice[f32], y: SliceMut[f32], first: i64) -> None:
    s = shared_array((N, 16), f16)
    t = thread_idx.x
    for k in range(16):
        s[t, k] = f16(x[t])
    sync_threads()
    y[t] = f32(ldmatrix(s.unchecked, (t, first), 4)[0])


@kernel(grid=1, block=N)
def stores_matrices(x: Slice[f32], y: SliceMut[f32], first: i64) -> None:
    s = shared_array((N, 16), f16)
    t = thread_idx.x
    stmatrix(s.unchecked, (t, first), (u32(1), u32(2), u32(3), u32(4)))
    sync_threads()
    y[t] = x[t]


ONES = np.ones(8 * N, np.float32)


def found_in(run: Kernel, x: Any, *more: Any) -> list[tuple[str, str | None, tuple[int, ...]]]:
    """Kind, array and index of what is found."""
    device = kdsl.device("cpu")
    with sanitized() as found:
        run(x, device.zeros(N, f32), *more)
    return [(finding.kind, finding.array, finding.index) for finding in found]


@pytest.mark.parametrize(
    ("run", "array", "row", "silent"),
    [
        (copies_from, "x", (), (0, 4, 12)),
        (copies_to, "s", (0,), (0, 4)),
        (loads_matrices, "s", (0,), (0, 8)),
        (stores_matrices, "s", (0,), (0, 8)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_by_an_index(run: Kernel, array: str, row: tuple[int, ...], silent: tuple[int, ...]) -> None:
    x = kdsl.device("cpu").array(ONES)
    for first in silent:
        assert not found_in(run, x, first)
    for first in (1, 2, 3):
        kinds = found_in(run, x, first)
        assert kinds[0] == ("misaligned", array, (*row, first))
        assert {kind for kind, *_ in kinds} <= {"misaligned", "uninitialised"}  # what a copy that is left out has not brought


def test_in_the_rows_of_a_strided_view() -> None:
    """Rows of 8 numbers, of which the view has 6, are 32 bytes apart; in rows of 7 the launch finds it."""
    device = kdsl.device("cpu")
    rows = device.array(ONES.reshape(N, 8))
    assert not found_in(copies_rows, rows[:, :6], 4)
    assert not found_in(copies_rows, rows[:, 2:], 2)
    assert ("misaligned", "x", (0, 3)) in found_in(copies_rows, rows[:, 2:], 3)
    with pytest.raises(LaunchError, match="moves 8 bytes of x at once"):
        found_in(copies_rows, device.array(np.ones((N, 7), np.float32)), 0)


# ------------------------------------------------------------------------------------------------------------------------- vectors


@kernel(grid=1, block=N)
def reads_vectors(x: Slice[f32], y: SliceMut[f32]) -> None:
    y[thread_idx.x] = as_vectors(x, 4).unchecked[thread_idx.x][3]


@kernel(grid=1, block=N)
def writes_vectors(y: SliceMut[f32, D2]) -> None:
    as_vectors(y, f32x2).unchecked[thread_idx.x, 0] = f32x2(1.0)


@kernel(grid=1, block=N)
def shares_vectors(x: Slice[f32], y: SliceMut[f32]) -> None:
    """The second array begins behind one of three numbers."""
    few = shared_array(3, f32)
    s = shared_array((N, 8), f32)
    t = thread_idx.x
    if t < 3:
        few[t] = x[t]
    for k in range(8):
        s[t, k] = x[t]
    sync_threads()
    y[t] = as_vectors(s, 4).unchecked[t, 1][3] + few[t % 3]


def test_vectors_are_refused_by_the_launch() -> None:
    device = kdsl.device("cpu")
    x = device.array(ONES)
    assert not found_in(reads_vectors, x[4:])
    assert not found_in(shares_vectors, x)
    with sanitized() as found:
        writes_vectors(device.zeros((N, 4), f32)[:, 2:])
    assert not found
    for launch in (lambda: reads_vectors(x[1:], x), lambda: writes_vectors(device.zeros((N, 4), f32)[:, 1:3]),
                   lambda: writes_vectors(device.zeros((N, 5), f32)[:, :2])):  # fmt: skip
        with pytest.raises(LaunchError, match=re.escape("bytes of ")):
            launch()


def test_vectors_are_refused_by_the_compiler() -> None:
    @kernel(grid=1, block=N)
    def rows_of_five(x: Slice[f32], y: SliceMut[f32]) -> None:
        s = shared_array((N, 5), f32)
        s[thread_idx.x, 0] = x[thread_idx.x]
        y[thread_idx.x] = as_vectors(s, 4).unchecked[thread_idx.x, 0][0]

    with pytest.raises(KernelError, match="cannot be taken as f32x4: its last extent is 5"):
        rows_of_five.compile("cpu")


def test_vectors_that_a_launch_let_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdsl.launch.plan.is_aligned", lambda array, alignment: True)
    device = kdsl.device("cpu")
    assert found_in(reads_vectors, device.array(ONES)[1:]) == [("misaligned", "x", (0,))]
    with sanitized() as found:
        writes_vectors(device.zeros((N, 5), f32)[:, :4])
    assert [(finding.kind, finding.array, finding.index) for finding in found] == [("misaligned", "y", (1, 0))]
    assert "write of 8 bytes at y[1, 0], whose address is no multiple of 8" in found[0].message
