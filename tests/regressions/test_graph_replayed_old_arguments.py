"""Elsewhere there were no graphs, or a replayed launch kept what a struct had held when it was captured, unless everything was captured anew.

A captured launch takes other numbers, structs and arrays without another capture; the contract is checked again, and what is refused leaves it as it was.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from from_text import DEVICES

import kdsl
from kdsl import DisjointSlice, FixedArray, Slice, elements, f32, i32, kernel, struct, thread_index


@struct
class Scale:
    """How numbers are scaled."""

    factor: f32
    """By what."""
    taps: FixedArray[f32, Literal[3]]
    """What is added, in turn."""
    rows: i32
    """How many are."""


@kernel(grid=elements("y"), requires=("p.rows <= len(y)", "len(x) == len(y)"))
def scaled(y: DisjointSlice[f32], x: Slice[f32], p: Scale, more: f32) -> None:
    i = thread_index()
    if i in y and i < p.rows:
        y[i] = p.factor * x[i] + p.taps[i % 3] + more


def expected(x: Any, p: Scale, more: float, before: Any) -> Any:
    n = p.rows
    found = before.copy()
    found[:n] = np.float32(p.factor) * x[:n] + np.array(p.taps, np.float32)[np.arange(n) % 3] + np.float32(more)
    return found


@DEVICES
def test_arguments_are_exchanged(device: Any) -> None:
    x, other = np.arange(40, dtype=np.float32), np.arange(40, dtype=np.float32) * 8
    y, given = device.zeros(40, f32), device.array(x)
    first, second = Scale(2, (1, 2, 4), 40), Scale(0.5, (8, 16, 32), 10)
    with kdsl.Graph(device) as graph:
        step = scaled(y, given, first, 0.0)
    graph.launch()
    held = expected(x, first, 0, np.zeros(40, np.float32))
    np.testing.assert_array_equal(y.numpy(), held)
    graph.update(step, p=second)
    graph.launch()
    held = expected(x, second, 0, held)
    np.testing.assert_array_equal(y.numpy(), held)
    graph.update(step, x=device.array(other), more=0.25)
    graph.launch()
    held = expected(other, second, 0.25, held)
    np.testing.assert_array_equal(y.numpy(), held)
    for wrong in ({"p": Scale(1, (0, 0, 0), 41)}, {"x": device.zeros(39, f32)}, {"more": "1"}, {"p": 3}, {"q": 1}):
        with pytest.raises((kdsl.LaunchError, TypeError)):
            graph.update(step, **wrong)
    graph.launch()
    np.testing.assert_array_equal(y.numpy(), held)
