"""The short way through a launcher: what is remembered of an earlier launch, and what makes it look again."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

from kdsl.errors import ArgumentError, LaunchError
from kdsl.lang.geometry import elements
from kdsl.lang.structs import record, struct
from kdsl.lang.types import bf16, f16, f32, f64, i8, i32, u16, u64
from kdsl.lang.views import Const, DisjointSlice, Slice
from kdsl.launch.packing import struct_bytes
from kdsl.launch.plan import Plan
from kdsl.runtime.device import device

CPU = device("cpu")


@struct
class Window:
    """Part of an array."""

    start: i32
    """First element."""
    scale: f32
    """Factor."""


@pytest.fixture
def window(fake: Any) -> Any:
    """y[i] = a x[p.start + i], as far as the launcher is concerned."""
    parameters = {"y": DisjointSlice[f32], "x": Slice[f32], "n": i32, "p": Window, "a": f32, "b": f64}
    relations = ("len(y) == n", "p.start + n <= len(x)")
    return fake("window", parameters, written={"y": "i"}, read={"x": None}, grid=elements("y"), requires=relations)


def zeros(count: int) -> Any:
    return CPU.zeros(count, f32)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The launches that take the long way from now on."""
    found: list[Any] = []
    for name in ("launch", "ready"):
        whole = getattr(Plan, name)
        monkeypatch.setattr(Plan, name, lambda *arguments, whole=whole: (found.append(arguments), whole(*arguments))[1])
    return found


def test_what_decides_nothing_is_packed_anew(window: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    y, x, long = zeros(4), zeros(10), counted(monkeypatch)
    for number in range(5):
        window(y, x, 4, Window(start=2, scale=0.5), 1.0 + number, b=-2.0 * number)
        wanted = {"y.address": y.address, "y.length": 4, "x.address": x.address, "x.length": 10, "n": 4, "p.start": 2, "p.scale": 0.5}
        assert {**window.arguments, **wanted, "a": 1.0 + number, "b": -2.0 * number} == window.arguments
    assert len(long) == 2
    window(y, x, 4, Window(start=3, scale=0.5), 1.0, 1.0)  # the contract speaks of the start
    assert (window.arguments["p.start"], len(long)) == (3, 3)
    window(y, x, np.int32(4), Window(start=2, scale=0.5), 7, np.float64(0.5))  # other kinds of numbers
    assert (window.arguments["a"], window.arguments["b"], len(long)) == (7.0, 0.5, 3)


def test_wrong_arguments_are_refused_afterwards_too(window: Any) -> None:
    y, x, p = zeros(4), zeros(10), Window(start=2, scale=0.5)
    for _ in range(3):
        window(y, x, 4, p, 1.0, 1.0)
    runs = len(window.runs)
    for wrong, error in (
        ((y, x, 5, p, 1.0, 1.0), "len.y. == n"),
        ((y, x, 4, Window(start=7, scale=0.5), 1.0, 1.0), "p.start"),
        ((y, y, 4, Window(start=0, scale=0.5), 1.0, 1.0), "overlap"),
        ((y, x, 4, p, "1", 1.0), "parameter a"),
        ((y, x, 4, None, 1.0, 1.0), "parameter p"),
        ((y, x.address, 4, p, 1.0, 1.0), "parameter x"),
        ((x, y, 4, p, 1.0, 1.0), "len.y. == n"),
    ):
        with pytest.raises((LaunchError, ArgumentError), match=error):
            window(*wrong)
    with pytest.raises(OverflowError, match="a"):
        window(y, x, 4, p, 1e39, 1.0)
    x.free()
    with pytest.raises(LaunchError, match="the array for x has been freed"):
        window(y, x, 4, p, 1.0, 1.0)
    assert len(window.runs) == runs


def test_memory_is_not_kept(window: Any) -> None:
    y, x = zeros(4), zeros(10)
    for _ in range(3):
        window(y, x, 4, Window(start=2, scale=0.5), 1.0, 1.0)
    watched = [weakref.ref(y), weakref.ref(x), weakref.ref(x.memory)]
    del y, x
    window.runs.clear()
    gc.collect()
    assert [reference() for reference in watched] == [None] * 3


def test_freeing_another_array_only_makes_it_look_again(window: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    y, x, p = zeros(4), zeros(10), Window(start=2, scale=0.5)
    for _ in range(3):
        window(y, x, 4, p, 1.0, 1.0)
    long = counted(monkeypatch)
    zeros(3).free()
    window(y, x, 4, p, 2.0, 1.0)
    assert (long, window.arguments["a"]) == ([], 2.0)


def test_two_threads_do_not_share_what_they_pack(window: Any) -> None:
    y, x, p = zeros(4), zeros(10), Window(start=2, scale=0.5)
    seen: list[tuple[float, float]] = []

    def body(arguments: dict[str, Any], first: int, end: int) -> None:
        seen.append((arguments["a"], arguments["b"]))

    whole = window.launcher.plans.ready_launches
    window.body = body
    original = Plan.ready

    def slow_ready(self: Any, *arguments: Any) -> Any:
        runner, buffer = original(self, *arguments)

        class Slow:
            recover = runner.recover

            def fire(self) -> None:
                time.sleep(0.001)  # the other thread would pack its numbers now
                runner.fire()

        return Slow(), buffer

    def launch(sign: float) -> None:
        for number in range(20):
            window(y, x, 4, p, sign * number, 2.0 * sign * number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "ready", slow_ready)
        for _ in range(2):
            window(y, x, 4, p, 0.0, 0.0)
        seen.clear()
        threads = [threading.Thread(target=launch, args=(sign,)) for sign in (1.0, -1.0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(whole) == 1
    assert sorted(seen) == sorted((sign * n, 2.0 * sign * n) for sign in (1.0, -1.0) for n in range(20))


def test_remembered_launches_are_limited(fake: Any) -> None:
    kernel = fake("k", {"y": Slice[f32], "n": Const[int]}, read={"y": None}, grid="n")
    y = zeros(4)
    for number in range(300):
        kernel(y, number % 3 + 1)
        for _ in range(2):
            kernel(zeros(4), 1)
    assert kernel.blocks == sum(number % 3 + 1 for number in range(300)) + 600
    assert len(kernel.launcher.plans.ready_launches) <= 256


@struct
class Inner:
    """A part."""

    a: i8
    """One byte, then a gap."""
    b: f64
    """Eight."""


@struct
class Mixed:
    """Numbers of many types."""

    flag: bool
    """A bool."""
    half: f16
    """Two bytes."""
    short: bf16
    """Two bytes."""
    inner: Inner
    """A struct."""
    count: u16
    """Two bytes, then a gap."""
    large: u64
    """Eight."""


def test_the_bytes_of_a_struct_are_those_of_numpy() -> None:
    made = Mixed(flag=True, half=1.5, short=-0.3, inner=Inner(a=-3, b=0.1), count=65535, large=2**64 - 1)
    assert struct_bytes("k", "p", made) == record(Mixed.__kdsl_struct__, made).tobytes()  # type: ignore[attr-defined]
    inner = Inner(a=1, b=2.0)
    object.__setattr__(inner, "a", 300)
    with pytest.raises(ArgumentError, match=r"k: p.a is of type i8, which cannot hold 300"):
        struct_bytes("k", "p", inner)
