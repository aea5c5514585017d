"""What a kernel names from outside must be a number, a type or a function."""

import math

import numpy as np
from refusal import refused

from kdsl import SliceMut, f32, i32, kernel

WEIGHTS = [1.0, 2.0]


class Settings:
    size = 3


def twice(x: float) -> float:
    return 2 * x


def test_list() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = WEIGHTS[0]

    refused(wrong, "`WEIGHTS`", "list", at="WEIGHTS", hint="pass `WEIGHTS` as an argument")


def test_plain_function() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = twice(y[1])

    refused(wrong, "`twice`", "plain Python function", at="twice", hint="@function")


def test_python_mathematics() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = math.sqrt(y[1])

    refused(wrong, "`math.sqrt`", at="math.sqrt", hint="kdsl.sqrt")


def test_built_in_function() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        sorted(y)

    refused(wrong, "`sorted`", at="sorted", hint="@functions")


def test_another_kernel() -> None:
    @kernel(grid=1)
    def inner(y: SliceMut[i32]) -> None:
        y[0] = 1

    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        inner(y)

    refused(wrong, "`inner`", "Kernel", at="inner", hint="@function")


def test_class() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = Settings.size

    refused(wrong, "class `Settings`", at="Settings", hint="argument")


def test_a_type_of_numpy() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = np.float32(3)

    refused(wrong, "`np.float32`", at="np.float32", hint="kdsl.f32")


def test_a_type_of_numpy_that_there_is_not() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = np.complex64(3)

    refused(wrong, "`np.complex64`", at="np.complex64", hint="such as kdsl.f32")
