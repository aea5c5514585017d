"""Launches of compiled kernels on every device present: streams, threads, overlap, failed checks, the end of the program."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import kdsl
from kdsl import DisjointSlice, Slice, SliceMut, elements, f32, f64, i32, kernel, struct, thread_index, u32
from kdsl.testing import devices

T = TypeVar("T", f32, f64, i32)
every_device = pytest.mark.parametrize("device", devices(), ids=str)


@struct
class Window:
    """Part of an array."""

    start: u32
    """First element."""


@kernel(grid=elements("y"), requires=("p.start + len(y) <= len(x)",))
def copy_window(y: DisjointSlice[f32], x: Slice[f32], p: Window) -> None:
    """Copy len(y) elements of `x` from `p.start` on."""
    i = thread_index()
    if i in y:
        y[i] = x[p.start + i]


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def add(y: DisjointSlice[T], x: Slice[T], a: T) -> None:
    """Add `x` and `a` to `y`."""
    i = thread_index()
    if i in y:
        y[i] = y[i] + x[i] + a


@kernel(grid=elements("index"))
def scatter(y: SliceMut[f32], index: Slice[i32]) -> None:
    """Write to the places that `index` names."""
    i = thread_index()
    if i < len(index):
        y[index[i]] = 1.0


@every_device
def test_element_wise_in_place(device: Any) -> None:
    y = device.array(np.arange(1000, dtype=np.float32))
    add(y, y, 1.0)
    np.testing.assert_array_equal(y.numpy(), 2 * np.arange(1000, dtype=np.float32) + 1)
    part = y[10:20]
    add(part, part, 0)
    with pytest.raises(kdsl.LaunchError, match="add: the arguments for y and x overlap"):
        add(y[1:], y[:-1], 1.0)
    with pytest.raises(kdsl.LaunchError, match="copy_window: the arguments for y and x overlap"):
        copy_window(y[:10], y, Window(start=20))
    device.synchronize()


@every_device
def test_many_elements_on_many_threads(device: Any) -> None:
    n = 1_000_003
    x = np.random.default_rng(0).integers(-1000, 1000, n, dtype=np.int32)
    y = device.full(n, 5, i32)
    on_device = device.array(x)
    for _ in range(3):
        add(y, on_device, -7)
    np.testing.assert_array_equal(y.numpy(), 5 + 3 * (x - 7))


@every_device
def test_streams(device: Any) -> None:
    first, second = device.stream(), device.stream()
    x = device.array(np.arange(100_000, dtype=np.float32))
    y = device.zeros(100_000, f32)
    add.on(first)(y, x, 1.0)
    second.wait(first.record())
    add.on(second)(y, x, a=2.0)
    np.testing.assert_array_equal(y.numpy(), 2 * np.arange(100_000, dtype=np.float32) + 3)
    for _ in range(20):  # arrays that are dropped while a stream uses them
        z = device.zeros(100_000, f32)
        add.on(second)(z, x, 1.0)
        add.on(second)(y, z, 0.0)
        del z
    np.testing.assert_array_equal(y.numpy(), 22 * np.arange(100_000, dtype=np.float32) + 23)


@every_device
def test_threads_that_launch(device: Any) -> None:
    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def cold(y: DisjointSlice[T], x: Slice[T]) -> None:
        i = thread_index()
        if i in y:
            y[i] = y[i] + x[i]

    start, wrong = threading.Barrier(8), []

    def work(number: int) -> None:
        of = (np.float32, np.float64, np.int32)[number % 3]
        x, y = device.array(np.full(3000, number, of)), device.array(np.zeros(3000, of))
        start.wait()
        for _ in range(50):
            cold(y, x)
        if not (y.numpy() == 50 * number).all():
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@every_device
def test_a_failed_check_leaves_the_device_alive(device: Any) -> None:
    y = device.zeros(4, f32)
    scatter(y, device.array(np.array([0, 7, 1, -1], np.int32)))
    with pytest.raises(kdsl.BoundsError) as caught:
        y.numpy()
    assert caught.value.kernel == "scatter"
    assert caught.value.array == "y"
    assert (caught.value.index, caught.value.extent) in ((7, 4), (-1, 4))
    assert Path(caught.value.location.split(":")[0]).name == "test_compiled_kernels.py"
    np.testing.assert_array_equal(y.numpy(), [1, 1, 0, 0])


@every_device
def test_a_failure_that_nobody_has_seen_ends_the_program_with_status_1(device: Any, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import numpy as np, kdsl\n"
        "from kdsl import Slice, SliceMut, elements, f32, i32, kernel, thread_index\n"
        "@kernel(grid=elements('index'))\n"
        "def scatter(y: SliceMut[f32], index: Slice[i32]) -> None:\n"
        "    i = thread_index()\n"
        "    if i < len(index):\n"
        "        y[index[i]] = 1.0\n"
        f"device = kdsl.device({device.name!r})\n"
        "scatter(device.zeros(4, f32), device.array(np.array([9], np.int32)))\n"
        "print('done')\n"
    )
    ended = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (ended.returncode, ended.stdout) == (1, "done\n")
    for words in ("BoundsError", "scatter, program.py:7", "index 9", "4 elements", "end of the program"):
        assert words in ended.stderr
