"""What the host does to arrays: what it has written counts as written, what it has not does not, and launches are in order."""

from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import Slice, SliceMut, f32, kernel, thread_idx
from kdsl.testing import sanitized

N = 32


def copying() -> Any:
    """A kernel that copies, made anew so that it is instrumented."""

    @kernel(grid=1, block=N)
    def copy(x: Slice[f32], y: SliceMut[f32]) -> None:
        t = thread_idx.x
        if t < len(x) and t < len(y):
            y[t] = x[t]

    return copy


def made(how: str, device: Any) -> Any:
    values = np.arange(N, dtype=np.float32)
    match how:
        case "array":
            return device.array(values)
        case "zeros":
            return device.zeros(N, f32)
        case "full":
            return device.full(N, 2.0, f32)
        case "copied from the host":
            x = device.empty(N, f32)
            x.copy_from(values)
            return x
        case "copied":
            x = device.empty(N, f32)
            x.copy_from(device.array(values))
            return x
        case "in parts":
            x = device.empty(2 * N, f32)
            x[: N // 2].fill(1.0)
            x[N // 2 : N].copy_from(values[: N // 2])
            return x[:N]
        case "by a kernel":
            x = device.empty(N, f32)
            copying()(device.array(values), x)
            return x
        case "NumPy's":
            return values
        case "lent to NumPy":
            x = device.empty(N, f32)
            np.from_dlpack(x)[:] = values
            return x
        case "NumPy's of ours":
            x = device.empty(N, f32)
            np.from_dlpack(x)[:] = values
            return np.from_dlpack(x)
        case "empty":
            return device.empty(N, f32)
        case "copied from empty":
            x = device.zeros(N, f32)
            x.copy_from(device.empty(N, f32))
            return x
        case "half":
            x = device.empty(N, f32)
            x[: N // 2].fill(1.0)
            return x
        case _:
            raise ValueError(how)


@pytest.mark.parametrize(
    "how",
    ["array", "zeros", "full", "copied from the host", "copied", "in parts", "by a kernel", "NumPy's", "lent to NumPy", "NumPy's of ours"],
)
def test_written(how: str) -> None:
    device = kdsl.device("cpu")
    with sanitized() as found:
        copying()(made(how, device), device.zeros(N, f32))
    assert not found


@pytest.mark.parametrize(("how", "first", "count"), [("empty", 0, N), ("copied from empty", 0, N), ("half", N // 2, N // 2)])
def test_not_written(how: str, first: int, count: int) -> None:
    device = kdsl.device("cpu")
    with sanitized() as found:
        copying()(made(how, device), device.zeros(N, f32))
    assert [(finding.kind, finding.index, finding.count) for finding in found] == [("uninitialised", (first,), count)]


def test_launches_are_in_order() -> None:
    device = kdsl.device("cpu")
    with sanitized() as found:
        copy, x, y = copying(), device.array(np.arange(N, dtype=np.float32)), device.empty(N, f32)
        for _ in range(2):
            copy(x, y)
            copy(y, x)
        y.fill(0.0)
        copy(y, x)
    assert not found


def test_the_host_writes_after_a_kernel_has_used_the_array() -> None:
    device = kdsl.device("cpu")
    with sanitized() as found:
        copy, x, y = copying(), device.empty(2 * N, f32), device.zeros(N, f32)
        x[:N].fill(1.0)
        copy(x[:N], y)
        x[N:].copy_from(np.ones(N, np.float32))
        copy(x[N:], y)
        x.copy_from(device.empty(2 * N, f32))
        assert not kdsl.runtime.sanitizer.session().findings  # type: ignore[union-attr]
        copy(x[N:], y)
    assert [finding.kind for finding in found] == ["uninitialised"]


def test_arrays_from_before_count_as_written_and_empty_ones_do_no_harm() -> None:
    device = kdsl.device("cpu")
    before = device.empty(N, f32)
    with sanitized() as found:
        copy = copying()
        copy(before, device.empty(0, f32))
        copy(before, device.zeros(N, f32))
        copy(device.empty(0, f32), before)
    assert not found


def test_memory_that_is_given_back_is_forgotten() -> None:
    """A new array may lie where an old one lay."""
    device = kdsl.device("cpu")
    with sanitized() as found:
        copy, y = copying(), device.zeros(N, f32)
        for _ in range(100):
            copy(device.array(np.arange(N, dtype=np.float32)), y)
        for _ in range(3):
            copy(device.empty(N, f32), y)
    assert [(finding.kind, finding.count) for finding in found] == [("uninitialised", 3 * N)]


def test_launches_of_a_graph() -> None:
    """They are watched like others, each launch of the graph anew."""
    device = kdsl.device("cpu")
    with sanitized() as found:
        copy, x, y = copying(), device.empty(N, f32), device.zeros(N, f32)
        with kdsl.Graph(device) as graph:
            copy(x, y)
        assert not kdsl.runtime.sanitizer.session().findings  # type: ignore[union-attr]
        graph.launch()
        x.fill(1.0)
        graph.launch()
    assert [(finding.kind, finding.count) for finding in found] == [("uninitialised", N)]
