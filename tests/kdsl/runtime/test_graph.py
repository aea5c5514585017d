"""Graphs on every device that is present: what is recorded, what is refused, and new arguments for a recorded launch."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest

import kdsl
from kdsl import (
    Const,
    DisjointSlice,
    GraphError,
    LaunchError,
    Slice,
    SliceMut,
    elements,
    f32,
    f64,
    i32,
    i64,
    kernel,
    struct,
    thread_index,
    u8,
)
from kdsl.testing import devices

T = TypeVar("T", f32, f64, i32)
every_device = pytest.mark.parametrize("device", devices(), ids=str)
FACTOR = 2


@struct
class Line:
    """A straight line."""

    slope: f32
    """Its slope."""
    offset: f32
    """Its value at 0."""


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def saxpy(y: DisjointSlice[T], x: Slice[T], a: T) -> None:
    """Add `a` times `x` to `y`."""
    i = thread_index()
    if i in y:
        y[i] = a * x[i] + y[i]


@kernel(grid=elements("y"))
def ramp(y: DisjointSlice[f32], line: Line, *, power: Const[int] = 1) -> None:
    """Values of a line, to a power."""
    i = thread_index()
    if i in y:
        y[i] = (line.slope * f32(i) + line.offset) ** power


@kernel(grid=elements("y"))
def scaled(y: DisjointSlice[f32]) -> None:
    """Multiply by a number that is frozen."""
    i = thread_index()
    if i in y:
        y[i] = y[i] * f32(FACTOR)


@kernel(grid=elements("index"))
def scatter(y: SliceMut[f32], index: Slice[i32]) -> None:
    """Write to the places that `index` names."""
    i = thread_index()
    if i < len(index):
        y[index[i]] = 1.0


def full(device: Any, value: float, n: int = 1000) -> Any:
    return device.full(n, value, f32)


def capture(graph: kdsl.Graph, *actions: Callable[[], Any]) -> None:
    with graph:
        for action in actions:
            action()


def values(array: Any) -> list[float]:
    """The different values of an array."""
    return sorted({float(value) for value in array.numpy()})


@every_device
def test_a_capture_records_and_a_launch_runs(device: Any) -> None:
    y, x = full(device, 0), full(device, 1)
    with kdsl.Graph(device) as graph:
        first = saxpy(y, x, 1.0)
        saxpy(x, y, a=2.0)
    assert values(y) == [0]
    assert (len(graph), str(first)) == (2, f"<launch of saxpy, step 0 of a graph on {device.name}>")
    assert str(graph) == f"<graph of 2 steps on {device.name}>"
    graph.launch()
    assert (values(y), values(x)) == ([1], [3])
    graph.launch(device.stream())
    assert (values(y), values(x)) == ([4], [11])
    assert saxpy(y, x, 1.0) is None  # runs again
    assert values(y) == [15]


@every_device
def test_new_arguments(device: Any) -> None:
    y, x, other = full(device, 0), full(device, 1), full(device, 10, 5)
    with kdsl.Graph(device) as graph:
        step = saxpy(y, x, 1.0)
        line = ramp(x, Line(slope=0.0, offset=1.0))
    graph.launch()
    graph.update(step, a=2)
    assert graph.arguments(step)["a"] == 2.0
    graph.launch()
    assert values(y) == [3]
    graph.update(step, y=other, x=x[:5])  # another grid, too
    graph.launch()
    assert (values(y), values(other)) == ([3], [12])
    graph.update(line, line=Line(slope=2.0, offset=1.0))
    graph.launch()
    np.testing.assert_array_equal(x.numpy(), 2 * np.arange(1000, dtype=np.float32) + 1)
    graph.update(line, power=2)  # another version of the kernel
    graph.launch()
    np.testing.assert_array_equal(x.numpy(), (2 * np.arange(1000, dtype=np.float32) + 1) ** 2)
    whole = device.array(np.arange(7, dtype=np.int32))
    graph.update(step, y=whole, x=device.full(7, 1, i32), a=3)  # other element types
    graph.launch()
    np.testing.assert_array_equal(whole.numpy(), np.arange(7) + 3)


@every_device
def test_wrong_arguments_leave_the_graph_as_it_was(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    y, x = full(device, 0), full(device, 1)
    with kdsl.Graph(device) as graph:
        step, last = saxpy(y, x, 1.0), scaled(y)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"x": x[:5]}, LaunchError, r"len\(x\) == len\(y\); len\(x\) is 5, len\(y\) is 1000"),
        ({"y": y[1:], "x": y[:-1]}, LaunchError, "overlap"),
        ({"a": "b"}, LaunchError, "parameter a"),
        ({"a": 1e300}, OverflowError, "parameter a"),
        ({"x": np.zeros(1000, np.complex64)}, LaunchError, "no element type for NumPy's complex64"),
        ({"x": device.zeros(1000, f64)}, LaunchError, "same element type"),
        ({"b": 1}, TypeError, "saxpy has no parameter b; its parameters are y, x, a"),
        ({"stream": device.stream()}, TypeError, "no parameter stream"),
    ]
    for arguments, kind, message in wrong:
        with pytest.raises(kind, match=message):
            graph.update(step, **arguments)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    with pytest.raises(LaunchError, match="the captured value FACTOR was 2"):
        graph.update(last, y=x)
    graph.launch()
    assert (values(y), values(x)) == ([2], [1])
    with pytest.raises(GraphError, match=r"not None; a call outside of the capture returns None"):
        graph.update(saxpy(y, x, 1.0), a=1.0)
    with kdsl.Graph(device) as other:
        foreign = saxpy(y, x, 1.0)
    with pytest.raises(GraphError, match="belongs to another graph"):
        graph.update(foreign, a=1.0)
    assert len(other) == 1


@every_device
def test_a_launch_that_is_refused_is_not_recorded(device: Any) -> None:
    y, x = full(device, 0), full(device, 1)
    with kdsl.Graph(device) as graph:
        with pytest.raises(LaunchError, match="contract"):
            saxpy(y, x[1:], 1.0)
        saxpy(y, x, 1.0)
    assert len(graph) == 1


@every_device
def test_copies_and_fills(device: Any) -> None:
    y, x = full(device, 0), device.array(np.arange(1000, dtype=np.float32))
    wide = device.zeros(1001, f64)
    bytes_ = device.zeros(77, u8)
    with kdsl.Graph(device) as graph:
        y.copy_from(x)
        x[10:20].fill(-1)
        y[1:].copy_from(y[:-1])  # overlapping
        y.copy_from(y)
        wide[1:].fill(0.1)
        bytes_[3:].fill(200)
        y[:0].fill(1)
        y[:0].copy_from(x[:0])
    assert len(graph) == 6
    assert (values(y), values(wide)) == ([0], [0])
    graph.launch()
    start = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(y.numpy(), np.concatenate([start[:1], start[:-1]]))
    np.testing.assert_array_equal(x.numpy(), np.where((start >= 10) & (start < 20), -1, start))
    np.testing.assert_array_equal(wide.numpy(), [0.0, *[0.1] * 1000])
    np.testing.assert_array_equal(bytes_.numpy(), [0] * 3 + [200] * 74)


@every_device
@pytest.mark.parametrize(("of", "value"), [(i64, -1), (i64, 2**40 + 1), (f64, -0.0), (i32, -7), (f32, 1.5)])
def test_fills_of_every_width(device: Any, of: Any, value: float) -> None:
    one, many = device.zeros(1, of), device.zeros(999, of)
    with kdsl.Graph(device) as graph:
        one.fill(value)
        many.fill(value)
    graph.launch()
    assert one.numpy().tobytes() == np.full(1, value, of.numpy).tobytes()
    assert many.numpy().tobytes() == np.full(999, value, of.numpy).tobytes()


@every_device
def test_arrays_that_are_made_during_the_capture(device: Any) -> None:
    x = full(device, 1)
    with kdsl.Graph(device) as graph:
        sum_ = device.zeros(1000, f32)
        constant = full(device, 5)
        saxpy(sum_, x, 1.0)
        saxpy(sum_, constant, 1.0)
    for _ in range(3):
        graph.launch()
        assert values(sum_) == [6]  # each launch begins with zeros


@every_device
def test_a_graph_keeps_its_arrays(device: Any) -> None:
    y, x = full(device, 0), full(device, 1)
    memory = weakref.ref(x.memory)
    with kdsl.Graph(device) as graph:
        node = saxpy(y, x, 1.0)
    del x
    gc.collect()
    graph.launch()
    assert values(y) == [1]
    graph.update(node, x=full(device, 3))
    gc.collect()
    assert memory() is None
    graph.launch()
    assert values(y) == [4]
    graph.arguments(node)["x"].free()
    with pytest.raises(LaunchError, match="saxpy: the array for x in step 0 of the graph has been freed"):
        graph.launch()
    y.copy_from(y)
    gone = weakref.ref(y.memory)
    del graph, y  # the node alone keeps nothing
    gc.collect()
    assert gone() is None
    assert "launch of saxpy" in str(node)


def refused(device: Any) -> list[tuple[str, Callable[[], Any]]]:
    y, event, ready = full(device, 0), device.event(), device.default_stream.record()
    with kdsl.Graph(device) as other:
        saxpy(y, y, 1.0)

    def free() -> None:
        x = full(device, 1)
        saxpy(y, x, 1.0)
        x.free()

    return [
        ("a copy to the host", y.numpy),
        ("a copy from the host", lambda: y.copy_from(np.zeros(1000, np.float32))),
        ("a copy from the host", lambda: device.array(np.zeros(3, np.float32))),
        ("waiting for the device", device.synchronize),
        ("waiting for a stream", device.stream().synchronize),
        ("waiting for an event", event.synchronize),
        ("measuring time", lambda: ready.elapsed_ms(ready)),
        ("waiting for an event that was not recorded during the capture", lambda: device.stream().wait(ready)),
        ("freeing an array that the graph uses", free),
        ("launching a graph", other.launch),
    ]


@every_device
@pytest.mark.parametrize("number", range(10))
def test_what_cannot_be_captured(device: Any, number: int) -> None:
    words, action = refused(device)[number]
    y = full(device, 0)
    graph = kdsl.Graph(device)
    with pytest.raises(GraphError, match=f"^{words} cannot be captured in a graph on"):
        capture(graph, lambda: saxpy(y, y, 1.0), action)
    with pytest.raises(GraphError, match="cannot be launched: it was not captured: its `with` block ended with an exception"):
        graph.launch()

    def swallow() -> None:
        with pytest.raises(GraphError, match=words):
            action()

    with pytest.raises(GraphError, match=f"^nothing was captured: {words}"):
        capture(kdsl.Graph(device), swallow, lambda: saxpy(y, y, 1.0))
    action()  # afterwards all is as before


@every_device
def test_an_exception_ends_the_capture(device: Any) -> None:
    y = full(device, 1)
    graph = kdsl.Graph(device)
    with pytest.raises(GraphError, match="it has not been captured yet"):
        graph.launch()

    def launch_too_early() -> None:
        with pytest.raises(GraphError, match="still being captured"):
            graph.launch()

    with pytest.raises(ZeroDivisionError):
        capture(graph, launch_too_early, lambda: saxpy(y, y, 1.0), lambda: 1 // 0)
    with pytest.raises(GraphError, match="a graph is captured once"), graph:
        pass
    saxpy(y, y, 1.0)
    assert values(y) == [2]
    with kdsl.Graph(device) as outer:
        with pytest.raises(GraphError, match=r"this thread captures a graph on .* already"), kdsl.Graph(device):
            pass
        saxpy(y, y, 1.0)
    outer.launch()
    assert values(y) == [4]
    with pytest.raises(TypeError, match="a graph is captured on a device"):
        kdsl.Graph(device.default_stream)
    with pytest.raises(LaunchError, match="is launched on a stream of that device, not on 3"):
        outer.launch(3)  # type: ignore[arg-type]


@every_device
def test_an_empty_grid_may_fill_later(device: Any) -> None:
    y, x = full(device, 0), full(device, 1)
    with kdsl.Graph(device) as graph:
        node = saxpy(y[:0], x[:0], 1.0)
    graph.launch()
    assert values(y) == [0]
    graph.update(node, y=y, x=x)
    graph.launch()
    assert values(y) == [1]
    graph.update(node, y=y[5:5], x=x[:0])
    graph.launch()
    assert values(y) == [1]
    with kdsl.Graph(device) as nothing:
        pass
    nothing.launch()
    assert len(nothing) == 0
    assert nothing


@every_device
def test_streams_and_events_give_the_order(device: Any) -> None:
    first, second = device.stream(), device.stream()
    y, x, z = full(device, 0), full(device, 1), full(device, 2)
    with kdsl.Graph(device) as graph:
        y.fill(0)  # step 0, on the default stream
        saxpy.on(first)(y, x, 1.0)  # 1: its first use of y there waits for the fill
        saxpy.on(second)(z, x, 1.0)  # 2: of its memory only the home stream is waited for
        saxpy.on(second)(z, x, 1.0)  # 3
        first.wait(second.record())
        saxpy.on(first)(y, z, 1.0)  # 4: behind both; the first use of z there, too
        x.copy_from(y)  # 5: behind all that uses either
    assert [step.after for step in graph._steps] == [(), (0,), (0,), (2,), (0, 1, 3), (0, 3, 4)]
    graph.launch(first)
    assert (values(y), values(x)) == ([5], [5])


@every_device
def test_other_threads_go_on(device: Any) -> None:
    y, x = full(device, 0), full(device, 1)
    seen: list[Any] = []

    def work() -> None:
        seen.append(saxpy(y, x, 1.0))
        seen.append(values(y))
        with kdsl.Graph(device) as own:
            saxpy(y, x, 2.0)
        own.launch()

    with kdsl.Graph(device) as graph:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        saxpy(y, x, 1.0)
    assert seen == [None, [1]]
    assert len(graph) == 1

    def repeat() -> None:
        for _ in range(50):
            graph.launch()

    threads = [threading.Thread(target=repeat) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(y) == [203]


@every_device
def test_failed_checks_are_reported(device: Any) -> None:
    y, index = full(device, 0, 4), device.array(np.array([1, 9, 2], np.int32))
    with kdsl.Graph(device) as graph:
        node = scatter(y, index)
    for synchronize in (device.synchronize, y.numpy):
        graph.launch()
        with pytest.raises(kdsl.BoundsError, match=r"scatter.*index 9 .* 4 elements"):
            synchronize()
    graph.update(node, index=index[:1])
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), [0, 1, 1, 0])
