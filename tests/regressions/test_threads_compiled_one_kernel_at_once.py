"""Elsewhere a launch from a second thread had no context, or threads that launched a cold kernel at the same time compiled it once each and mixed results.

One version is compiled per key, whoever comes first; all threads get right results, also from a thread that is new when everything is compiled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from from_text import DEVICES

import kdsl
from kdsl import DisjointSlice, Slice, elements, f32, f64, i32, i64, kernel, thread_index
from kdsl.launch.plan import Plans

T = TypeVar("T", f32, f64, i32, i64)
TYPES = (np.float32, np.float64, np.int32, np.int64)


def together(work: Callable[[int], None], count: int) -> None:
    """Run `work(0)`, `work(1)`, … in threads that begin at the same time; the first exception, if there is one."""
    gate, failures = threading.Barrier(count), list[BaseException]()

    def run(number: int) -> None:
        try:
            gate.wait()
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@DEVICES
def test_eight_threads_and_four_types(device: Any, monkeypatch: Any) -> None:
    @kernel(grid=elements("y"))
    def scaled(y: DisjointSlice[T], x: Slice[T], s: T) -> None:
        i = thread_index()
        if i in y:
            y[i] = s * x[i] + T(1)

    made: list[Any] = []
    make = Plans._make
    monkeypatch.setattr(Plans, "_make", lambda self, key: (made.append(key), make(self, key))[1])

    def work(number: int) -> None:
        of = TYPES[number % 4]
        x = np.arange(number, number + 300).astype(of)
        given, y = device.array(x), device.zeros(300, given_type(of))
        stream = device.stream()
        for turn in range(50):
            scaled.on(stream)(y, given, turn)
        stream.synchronize()
        np.testing.assert_array_equal(y.numpy(), 49 * x + 1)

    together(work, 8)
    assert len(made) == 4
    together(work, 1)
    assert len(made) == 4


def given_type(of: Any) -> Any:
    return {np.float32: f32, np.float64: f64, np.int32: i32, np.int64: i64}[of]


@DEVICES
def test_a_failed_check_of_one_thread_is_not_lost(device: Any) -> None:
    @kernel(grid=elements("y"))
    def gathered(y: DisjointSlice[f32], x: Slice[f32], k: i32) -> None:
        i = thread_index()
        if i in y:
            y[i] = x[i + k]

    x, y = device.zeros(32, f32), [device.zeros(32, f32) for _ in range(8)]
    together(lambda number: gathered(y[number], x, 5 if number == 3 else 0), 8)
    with pytest.raises(kdsl.BoundsError, match="for 32 elements"):
        device.synchronize()
    device.synchronize()
