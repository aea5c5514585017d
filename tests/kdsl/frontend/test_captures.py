"""Captured names: numbers are frozen when a function is decorated, and one that has changed is named."""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np
from text import define, ops

from kdsl import SliceMut, f32, kernel
from kdsl.ir import nodes

COUNT = 3
SIZES = (4, (5, 6.5))
SCALAR = np.float32(0.25)
BIG = np.uint8(200)


def floats(kernel_: Any) -> list[float]:
    return [op.value for op in ops(kernel_.ir(), nodes.Constant) if op.type.is_float]


def test_numbers_tuples_and_numpy_scalars() -> None:
    @kernel(grid=1)
    def k(y: SliceMut[f32]) -> None:
        y[0] = COUNT
        y[1] = SIZES[1][1]
        y[2] = SCALAR
        y[3] = BIG
        y[4] = math.pi

    assert floats(k) == [3.0, 6.5, 0.25, 200.0, float(np.float32(math.pi))]


def test_a_changed_global_is_named() -> None:
    names = define("N = 4\nM = 2\n@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = N + M\n")
    captures = names["k"]._source.captures
    assert captures.changed() == []
    names["k"]._source.function.__globals__["N"] = 5
    (change,) = captures.changed()
    assert (change.name, change.frozen, change.now) == ("N", 4, 5)
    assert floats(names["k"]) == [6.0]


def test_an_equal_value_is_no_change_but_another_type_is() -> None:
    names = define("N = 4.0\nX = float('nan')\n@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = N + X\n")
    captures = names["k"]._source.captures
    space = names["k"]._source.function.__globals__
    space["N"], space["X"] = 2.0 * 2, float("nan")
    assert captures.changed() == []
    space["N"] = 4
    assert [change.name for change in captures.changed()] == ["N"]


def test_attributes_of_modules_and_closures_are_watched() -> None:
    settings = types.ModuleType("settings")
    settings.WIDTH = 3  # type: ignore[attr-defined]

    def make(depth: int) -> Any:
        @kernel(grid=1)
        def k(y: SliceMut[f32]) -> None:
            y[0] = settings.WIDTH * depth

        def change() -> None:
            nonlocal depth
            depth += 1

        return k, change

    k, change = make(2)
    captures = k._source.captures
    assert captures.changed() == []
    settings.WIDTH = 4  # type: ignore[attr-defined]
    change()
    assert {(c.name, c.frozen, c.now) for c in captures.changed()} == {("settings.WIDTH", 3, 4), ("depth", 2, 3)}
    assert floats(k) == [6.0]


def test_captures_of_called_functions_count() -> None:
    names = define(
        "N = 4\n@function\ndef f(x: f32) -> f32:\n    return x + N\n@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = f(y[0])\n"
    )
    names["k"]._source.function.__globals__["N"] = 5
    assert [change.name for change in names["k"]._source.captures.changed()] == ["N"]


def test_a_number_that_is_defined_later_is_frozen_at_the_first_compilation() -> None:
    names = define(
        "@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = f(y[0])\n"
        "@function\ndef f(x: f32) -> f32:\n    return x + LATE\nLATE = 3\n"
    )
    assert floats(names["k"]) == [3.0]
    names["LATE"] = 4
    assert [(c.name, c.frozen, c.now) for c in names["k"]._source.captures.changed()] == [("LATE", 3, 4)]


def test_names_in_annotations_and_parameters_are_no_captures() -> None:
    names = define("N = 4\ny = 3\n@kernel(grid=1)\ndef k(y: SliceMut[f32], N: f32) -> None:\n    y[0] = N\n")
    assert not names["k"]._source.captures.values


def test_a_local_name_hides_a_builtin() -> None:
    names = define("@kernel(grid=1)\ndef k(y: SliceMut[f32], len: f32) -> None:\n    min = len + 1\n    y[0] = min\n")
    assert not names["k"]._source.captures.values
