"""Elsewhere a launch with too few arguments, another element type or another rank read past the array of arguments: a crash, or numbers from nowhere.

Every mistake is told by name before anything runs, and nothing has been written then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, module

import kdsl
from kdsl import f32, f64

SPACE = module('''
@struct
class Scale:
    """Two numbers."""
    a: f32
    """Factor."""
    n: i32
    """Count."""

@struct
class Other:
    """The same fields."""
    a: f32
    """Factor."""
    n: i32
    """Count."""

@kernel(grid=elements("y"), block=32, requires=("len(x) >= len(y)",))
def k(y: SliceMut[f32], x: Slice[f32], p: Scale, m: Slice[f32, D2], a: f32, n: i32 = 3, flag: bool = False, *, c: Const[int] = 1) -> None:
    """Scale."""
    i = thread_index()
    if i in y:
        y[i] = x[i] * p.a + a + f32(n + p.n + c)
''')
KERNEL, SCALE = SPACE["k"], SPACE["Scale"]


def arguments(device: Any, **changed: Any) -> dict[str, Any]:
    made = {"y": device.full(4, 7.0, f32), "x": device.zeros(4, f32), "p": SCALE(a=1, n=2), "m": device.zeros((2, 3), f32), "a": 1.5}
    return {**made, **changed}


WRONG: dict[str, Any] = {
    "other type": lambda d: {"x": d.zeros(4, f64)},
    "other type of the same width": lambda d: {"x": d.zeros(4, np.int32)},
    "narrow float": lambda d: {"x": d.zeros(4, np.float16)},
    "too many dimensions": lambda d: {"x": d.zeros((2, 2), f32)},
    "too few dimensions": lambda d: {"m": d.zeros(6, f32)},
    "a stride": lambda d: {"x": d.zeros(8, f32)[::2]},
    "backwards": lambda d: {"y": d.zeros(4, f32)[::-1]},
    "a column": lambda d: {"y": d.zeros((4, 4), f32)[:, 1]},
    "NumPy": lambda d: {"x": np.zeros(4, np.complex64)},
    "a list": lambda d: {"x": [0.0] * 4},
    "None for an array": lambda d: {"x": None},
    "a number for an array": lambda d: {"x": 0},
    "an address for an array": lambda d: {"x": d.zeros(4, f32).address},
    "memory for an array": lambda d: {"x": d.zeros(4, f32).memory},
    "the class of arrays": lambda d: {"x": type(d.zeros(4, f32))},
    "a dict for a struct": lambda d: {"p": {"a": 1.0, "n": 2}},
    "a tuple for a struct": lambda d: {"p": (1.0, 2)},
    "another struct of the same fields": lambda d: {"p": SPACE["Other"](a=1, n=2)},
    "the struct itself": lambda d: {"p": SCALE},
    "an array for a number": lambda d: {"a": np.ones(1)},
    "an array of no dimensions": lambda d: {"a": np.array(1.0)},
    "a device array for a number": lambda d: {"a": d.zeros(1, f32)},
    "a string": lambda d: {"a": "1.5"},
    "None": lambda d: {"a": None},
    "a complex number": lambda d: {"a": 1 + 0j},
    "too large for an f32": lambda d: {"a": 1e39},
    "a float for an integer": lambda d: {"n": 2.0},
    "too large for an i32": lambda d: {"n": 2**31},
    "too small for an i32": lambda d: {"n": -(2**31) - 1},
    "far too large": lambda d: {"n": 2**70},
    "an integer for a bool": lambda d: {"flag": 1},
    "a float for a constant": lambda d: {"c": 1.0},
    "a bool for a constant": lambda d: {"c": True},
    "a string for a constant": lambda d: {"c": "1"},
    "unhashable for a constant": lambda d: {"c": [1]},
    "a short array": lambda d: {"x": d.zeros(3, f32)},
    "an unknown parameter": lambda d: {"z": 1},
    "a device for a stream": lambda d: {"stream": d},
    "a number for a stream": lambda d: {"stream": 3},
}


@DEVICES
@pytest.mark.parametrize("wrong", WRONG)
def test_it_is_named_and_nothing_is_written(device: Any, wrong: str) -> None:
    changed = WRONG[wrong](device)
    given = arguments(device, **changed)
    with pytest.raises((TypeError, OverflowError, kdsl.LaunchError)) as caught:
        KERNEL(**given)
    assert not isinstance(caught.value, AttributeError)
    assert str(caught.value).startswith("k")
    (name,) = changed
    assert name in str(caught.value)
    written = given["y"]
    if written.flat:
        assert written.numpy().tolist() == [7.0] * 4


@DEVICES
def test_counts_orders_and_names(device: Any) -> None:
    a = arguments(device)
    y, x, p, m, s = a.values()
    for given, named, words in (
        ((), {}, "missing 5"),
        ((y, x, p, m), {}, "'a'"),
        ((y, x, p, m, s, 1, True, 2), {}, "8 were given"),
        ((y, x, p, m, s), {"y": y}, "multiple values"),
        ((y, x, p, m, s), {"d": 1}, "unexpected keyword"),
        ((x, p, y, m, s), {}, "parameter [xp]"),  # two are wrong; numbers and structs are looked at first
        ((y, x, p, m, 3, 1.5), {}, "parameter n"),
    ):
        with pytest.raises(TypeError, match=words):
            KERNEL(*given, **named)
    assert y.numpy().tolist() == [7.0] * 4
    KERNEL(y, x, p, m, s)
    KERNEL(a=s, m=m, p=p, x=x, y=y, c=2, n=np.int8(4), flag=np.bool_(True))
    assert y.numpy().tolist() == [1.5 + 4 + 2 + 2] * 4


@DEVICES
def test_freed_arrays_and_parts_of_them(device: Any) -> None:
    for name in ("y", "x", "m"):
        a = arguments(device)
        part = a[name][1:]
        a[name].free()
        for freed in (a[name], part):
            with pytest.raises(kdsl.LaunchError, match=f"the array for {name} has been freed"):
                KERNEL(**{**a, name: freed})


@DEVICES
def test_the_same_through_a_stream_and_a_graph(device: Any) -> None:
    a = arguments(device)
    stream = device.stream()
    with kdsl.Graph(device) as graph:
        node = KERNEL(**a)
    for wrong in ("other type", "too few dimensions", "a dict for a struct", "too large for an i32", "NumPy", "a short array"):
        changed = WRONG[wrong](device)
        with pytest.raises((TypeError, OverflowError, kdsl.LaunchError), match="k: "):
            KERNEL.on(stream)(**{**a, **changed})
        with pytest.raises((TypeError, OverflowError, kdsl.LaunchError), match="k: "):
            graph.update(node, **changed)
    graph.launch()
    assert a["y"].numpy().tolist() == [1.5 + 3 + 2 + 1] * 4


def test_another_device() -> None:
    """Arrays, streams and graphs of two devices do not meet. Needs a GPU; one that is made up serves in tests/kdsl/runtime."""
    from kdsl.testing import devices

    cpu, *gpus = devices()
    if not gpus:
        pytest.skip("there is no GPU")
    gpu = gpus[0]
    for here, there in ((cpu, gpu), (gpu, cpu)):
        a = arguments(here)
        with pytest.raises(kdsl.LaunchError, match=r"all arrays of a launch live on one device; y is on .*, x on "):
            KERNEL(**{**a, "x": there.zeros(4, f32)})
        with pytest.raises(kdsl.LaunchError, match="the stream belongs to"):
            KERNEL.on(there.stream())(**a)
        with kdsl.Graph(here) as graph:
            KERNEL(**a)
        with pytest.raises(kdsl.LaunchError, match="a graph on"):
            graph.launch(there.stream())
