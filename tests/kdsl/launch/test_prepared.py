"""Launches that are checked once: what can be exchanged, and what makes all checks happen again."""

from __future__ import annotations

import copy
import threading
import time
from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import DisjointSlice, Slice, elements, f32, i32, kernel, struct, thread_index
from kdsl.errors import ArgumentError, LaunchError
from kdsl.launch.prepared import _Owner

CPU = kdsl.device("cpu")


@struct
class Line:
    """a x + b."""

    a: f32
    """Slope."""
    b: f32
    """At 0."""
    first: i32
    """Where x begins."""


@kernel(grid=elements("y"), requires=("p.first + len(y) <= len(x)",))
def line(y: DisjointSlice[f32], x: Slice[f32], p: Line, factor: f32) -> None:
    """y = factor (a x + b)."""
    i = thread_index()
    if i in y:
        y[i] = factor * (p.a * x[p.first + i] + p.b)


def arrays(count: int = 5) -> tuple[Any, Any]:
    return CPU.full(count, np.nan, f32), CPU.array(np.arange(8, dtype=np.float32))


P = Line(a=2.0, b=1.0, first=0)


def test_it_launches_again_and_again() -> None:
    y, x = arrays()
    prepared = line.prepare(y, x, P, factor=1.0)
    assert np.isnan(y.numpy()).all()  # preparing runs nothing
    for _ in range(3):
        y.fill(np.nan)
        assert prepared() is None
        np.testing.assert_array_equal(y.numpy(), [1, 3, 5, 7, 9])
    assert prepared.arguments == {"y": y, "x": x, "p": P, "factor": 1.0}
    assert repr(prepared) == "<prepared launch of line on cpu>"
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        copy.copy(prepared)


def test_arguments_are_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    y, x = arrays()
    other, source = CPU.full(5, np.nan, f32), CPU.array(np.arange(10, 18, dtype=np.float32))
    prepared = line.prepare(y, x, P, 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(_Owner, "_again", lambda *_: pytest.fail("all checks are made again"))
        prepared(y=other)
        np.testing.assert_array_equal(other.numpy(), [1, 3, 5, 7, 9])
        prepared(x=source, factor=np.float32(2.0))
        np.testing.assert_array_equal(other.numpy(), [42, 46, 50, 54, 58])
    prepared(p=Line(a=0.0, b=-1.0, first=1))  # of the beginning the contract speaks
    np.testing.assert_array_equal(other.numpy(), [-2] * 5)
    assert np.isnan(y.numpy()).all()
    prepared.update(y=CPU.zeros(3, f32))  # another grid
    prepared()
    np.testing.assert_array_equal(prepared.arguments["y"].numpy(), [-2] * 3)


def test_a_struct_that_decides_nothing_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    y = CPU.zeros(4, f32)
    prepared = slope.prepare(y, P, n=3)
    monkeypatch.setattr(_Owner, "_again", lambda *_: pytest.fail("all checks are made again"))
    prepared(p=Line(a=5.0, b=0.5, first=-7), n=-2)
    np.testing.assert_array_equal(y.numpy(), [5.0 - 7 - 2] * 4)


@kernel(grid=elements("y"))
def slope(y: DisjointSlice[f32], p: Line, n: i32) -> None:
    """y = a + first + n."""
    i = thread_index()
    if i in y:
        y[i] = p.a + f32(p.first + n)


def test_wrong_arguments_change_nothing() -> None:
    y, x = arrays()
    prepared = line.prepare(y, x, P, 1.0)
    freed = CPU.zeros(5, f32)
    freed.free()
    for changes, error in (
        ({"y": x}, "overlap|contract"),
        ({"y": x[:5]}, "overlap"),
        ({"x": y}, "overlap"),
        ({"y": freed}, "freed"),
        ({"y": y.numpy().astype(np.complex64)}, "parameter y"),
        ({"y": CPU.zeros(5, i32)}, "parameter y"),
        ({"p": Line(a=1.0, b=1.0, first=4)}, "contract"),
        ({"p": None}, "parameter p"),
        ({"factor": "1"}, "parameter factor"),
        ({"factor": 3.0, "x": y}, "overlap"),
        ({"unknown": 1}, "line has no parameter unknown; its parameters are y, x, p, factor"),
    ):
        with pytest.raises((LaunchError, ArgumentError, TypeError), match=error):
            prepared(**changes)
        assert prepared.arguments == {"y": y, "x": x, "p": P, "factor": 1.0}
    with pytest.raises(LaunchError, match="contract"):
        line.prepare(x, y, P, 1.0)
    prepared()
    np.testing.assert_array_equal(y.numpy(), [1, 3, 5, 7, 9])
    x.free()
    with pytest.raises(LaunchError, match="line: the array for x has been freed"):
        prepared()


def test_arrays_that_take_turns() -> None:
    y, x = arrays()
    both = CPU.array(np.arange(16, dtype=np.float32))
    first, second = both[:8], both[8:]
    prepared = line.prepare(y, x, P, 1.0)
    for number in range(6):
        prepared(x=second if number % 2 else first)
        np.testing.assert_array_equal(y.numpy(), [1 + 2 * (number % 2 * 8 + i) for i in range(5)])
    prepared.update(y=both[:5])
    with pytest.raises(LaunchError, match="overlap"):
        prepared(x=first)  # which was fine before
    prepared(x=second)
    np.testing.assert_array_equal(both[:5].numpy(), [17, 19, 21, 23, 25])
    prepared(x=x)
    prepared.update(y=y, factor=1.0)
    prepared(x=first)
    prepared.update(y=both[:5], x=second)
    with pytest.raises(LaunchError, match="overlap"):
        prepared(x=first)
    prepared.update(y=y, x=x)
    prepared(factor=2.0)
    prepared(x=second)
    both.free()
    prepared.update(x=x)
    with pytest.raises(LaunchError, match="freed"):
        prepared(x=second)
    assert prepared.arguments == {"y": y, "x": x, "p": P, "factor": 2.0}
    prepared()
    np.testing.assert_array_equal(y.numpy(), [2, 6, 10, 14, 18])
    for _ in range(100):  # more than are remembered
        prepared(x=CPU.zeros(8, f32))
    np.testing.assert_array_equal(y.numpy(), [2] * 5)


def test_a_graph_records_it() -> None:
    y, x = arrays()
    prepared = line.prepare(y, x, P, 1.0)
    with kdsl.Graph(CPU) as graph:
        node = prepared(factor=2.0)
        inside = line.prepare(y, x, P, 1.0)  # preparing is no launch
    assert np.isnan(y.numpy()).all()
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), [2, 6, 10, 14, 18])
    graph.update(node, factor=3.0)
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), [3, 9, 15, 21, 27])
    inside()
    np.testing.assert_array_equal(y.numpy(), [1, 3, 5, 7, 9])
    assert len(graph) == 1


def test_streams_and_empty_grids() -> None:
    y, x = arrays()
    prepared, stream = line.prepare(y, x, P, 1.0), CPU.stream()
    on_stream = prepared.on(stream)
    assert (on_stream.stream, prepared.stream) == (stream, CPU.default_stream)
    on_stream(factor=2.0)
    np.testing.assert_array_equal(y.numpy(), [2, 6, 10, 14, 18])
    assert prepared.arguments["factor"] == 1.0
    with pytest.raises(LaunchError, match=r"line: on\(\) takes a stream"):
        prepared.on(CPU)  # type: ignore[arg-type]
    nothing = line.prepare(CPU.zeros(0, f32), x, P, 1.0)
    nothing()
    nothing(y=y)
    np.testing.assert_array_equal(y.numpy(), [1, 3, 5, 7, 9])


def test_a_launch_of_another_thread_has_all_arguments_of_one_update(fake: Any) -> None:
    seen: list[tuple[float, int]] = []
    waiting = threading.Event()

    def body(arguments: dict[str, Any], first: int, end: int) -> None:
        waiting.set()
        seen.append((arguments["a"], arguments["n"]))

    made = fake("k", {"y": Slice[f32], "a": f32, "n": i32}, read={"y": None})
    made.body = body
    prepared = made.launcher.prepare((CPU.zeros(1, f32), 0.0, 0), {}, None)
    stopped = False

    def launches() -> None:
        while not stopped:
            prepared()

    thread = threading.Thread(target=launches)
    thread.start()
    for number in range(1, 60):
        prepared.update(a=float(number), n=number)
        time.sleep(0.0005)
    stopped = True
    thread.join()
    assert waiting.is_set()
    assert all(a == n for a, n in seen)
    prepared()
    assert seen[-1] == (59.0, 59)


def test_arguments_are_not_written_while_a_launch_reads_them(fake: Any) -> None:
    """The launch under way, here one that updates from inside the kernel's code, keeps what it was given."""
    made = fake("k", {"y": Slice[f32], "a": f32}, read={"y": None}, grid=2)
    prepared = made.launcher.prepare((CPU.zeros(1, f32), 1.0), {}, None)
    state = prepared._owner.state
    seen: list[float] = []

    def body(arguments: dict[str, Any], first: int, end: int) -> None:
        prepared.update(a=2.0)
        seen.append(arguments["a"])

    made.body = body
    prepared()
    assert prepared._owner.state is not state
    made.body = lambda arguments, first, end: seen.append(arguments["a"])
    prepared()
    assert seen[0] == 1.0
    assert set(seen[-1:]) == {2.0}


def test_threads_that_launch_with_arguments_of_their_own(fake: Any) -> None:
    seen: list[tuple[float, int]] = []
    made = fake("k", {"y": Slice[f32], "a": f32, "n": i32}, read={"y": None})
    made.body = lambda arguments, first, end: seen.append((arguments["a"], arguments["n"]))
    prepared = made.launcher.prepare((CPU.zeros(1, f32), 0.0, 0), {}, None)

    def launches(thread: int) -> None:
        for number in range(200):
            value = 1000 * thread + number
            if number % 3:
                prepared(a=float(value), n=value)
            else:
                prepared.update(n=value, a=float(value))

    threads = [threading.Thread(target=launches, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) >= 4 * 133
    assert all(a == n for a, n in seen)
    now = prepared.arguments
    assert now["a"] == now["n"]
    prepared()
    assert seen[-1] == (now["a"], now["n"])


def test_an_update_within_an_update(fake: Any) -> None:
    """As of a signal handler, or a finaliser, that comes in between: it does not wait for what waits for it, and both leave something whole."""
    made = fake("k", {"y": Slice[f32], "a": f32, "n": i32}, read={"y": None})
    seen: list[tuple[float, int]] = []
    made.body = lambda arguments, first, end: seen.append((arguments["a"], arguments["n"]))
    prepared = made.launcher.prepare((CPU.zeros(1, f32), 0.0, 0), {}, None)
    prepared.update(a=1.0)
    place = prepared._owner.state.places["a"]
    accept, inner = place.accept, [lambda: prepared(n=2), lambda: prepared.update(n=3)]

    def interrupted(new: Any, changes: Any) -> Any:
        if inner:
            inner.pop()()
        return accept(new, changes)

    place.accept = interrupted
    for value in (4.0, 5.0, 6.0):
        prepared(a=value)
        now = prepared.arguments
        prepared()
        assert seen[-1] == (now["a"], now["n"])
    assert prepared._owner._free == [prepared._owner.state]
    prepared(a=7.0, n=7)
    assert seen[-1] == (7.0, 7)


def test_a_wrong_update_beside_a_launch_changes_nothing(fake: Any) -> None:
    made = fake("k", {"y": Slice[f32], "a": f32}, read={"y": None})
    prepared = made.launcher.prepare((CPU.zeros(1, f32), 1.0), {}, None)
    seen: list[Any] = []

    def body(arguments: dict[str, Any], first: int, end: int) -> None:
        with pytest.raises(ArgumentError):
            prepared.update(a="2")
        seen.append(prepared.arguments["a"])

    made.body = body
    prepared()
    made.body = lambda arguments, first, end: seen.append(arguments["a"])
    prepared()
    assert seen == [1.0, 1.0]
    assert prepared._owner._free == [prepared._owner.state]
