"""Calls of `@function`s: parameters, results, what may be passed, and how they are expanded."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pytest
from ir_evaluator import run
from text import define, kernel_of, ops

import kdsl
from kdsl import Const, Slice, SliceMut, f32, f64, function, i32, i64, kernel, struct
from kdsl.frontend.function import Overloaded
from kdsl.ir import nodes
from kdsl.lang.types import F32, F64

T = TypeVar("T", f32, f64, i32)


@struct
class Line:
    """A line."""

    slope: f32
    """Its slope."""
    offset: f32
    """Its value at 0."""


@function
def along(line: Line, x: f32) -> f32:
    return line.slope * x + line.offset


@function
def scaled(x: f32, factor: f32 = 2.0, *, shift: f32 = 0.0) -> f32:
    return x * factor + shift


@function
def square(x: T) -> T:
    return x * x


@function
def quotient_and_rest(a: i64, b: i64) -> tuple[i64, i64]:
    if b == 0:
        return 0, a
    return a // b, a % b


@function
def copy(into: SliceMut[T], source: Slice[T], count: i64) -> None:
    for i in range(count):
        into[i] = source[i]


@function
def power(x, exponent: Const[int]):
    result = x.dtype(1)
    for _ in kdsl.unroll(exponent):
        result *= x
    return result


@function
def last_index_of(y: Slice[f32], wanted: f32) -> i64:
    found = -1
    for i in range(len(y)):
        if y[i] == wanted:
            found = i
    return found


def results(kernel_: object, **arguments: object) -> list[float]:
    y = np.zeros(8, np.float32)
    assert not run(kernel_.ir(), y=y, **arguments)  # type: ignore[attr-defined]
    return y.tolist()


def test_positional_by_name_and_defaults() -> None:
    @kernel(grid=1, block=1, requires="len(y) >= 8")
    def k(y: SliceMut[f32]) -> None:
        y[0] = scaled(3.0)
        y[1] = scaled(3.0, 4)
        y[2] = scaled(factor=5.0, x=3.0)
        y[3] = scaled(3.0, shift=1.0)

    assert results(k)[:4] == [6, 12, 15, 7]


def test_structs_and_arrays_pass_through() -> None:
    @kernel(grid=1, block=1, requires="len(y) >= 8")
    def k(y: SliceMut[f32], x: Slice[f32], line: Line) -> None:
        copy(y, x, 3)
        y[3] = along(line, y[2])
        own = kdsl.local_array(2, f32)
        copy(own, x, 2)
        y[4] = own[1]
        y[5] = f32(last_index_of(x, 2.0))

    arguments = {"x": np.array([1, 2, 3], np.float32), "line.slope": 10.0, "line.offset": 0.5}
    assert results(k, **arguments)[:6] == [1, 2, 3, 30.5, 2, 1]


def test_tuples_come_back_through_early_returns() -> None:
    @kernel(grid=1, block=1, requires="len(y) >= 8")
    def k(y: SliceMut[f32], n: i64) -> None:
        q, r = quotient_and_rest(17, n)
        y[0], y[1] = f32(q), f32(r)
        pair = quotient_and_rest(-17, 5)
        y[2], y[3] = f32(pair[0]), f32(pair[-1])

    assert results(k, n=5)[:4] == [3, 2, -4, 3]
    assert results(k, n=0)[:4] == [0, 17, -4, 3]


def test_type_variables_follow_the_argument() -> None:
    kernel_ = kernel_of("y[0] = f32(square(a)) + square(b) + f32(square(c))", "y: SliceMut[f32], a: f64, b: f32, c: i32", square=square)
    assert [op.type.name for op in ops(kernel_, nodes.Binary) if op.op == "mul"] == ["f64", "f32", "i32"]


def test_type_variables_are_limited() -> None:
    with pytest.raises(kdsl.KernelError, match="T is one of f32, f64, i32, not i64"):
        kernel_of("y[0] = f32(square(n))", "y: SliceMut[f32], n: i64", square=square)


def test_a_literal_stays_compile_time_in_an_unannotated_parameter() -> None:
    @kernel(grid=1, block=1, requires="len(y) >= 8")
    def k(y: SliceMut[f32]) -> None:
        y[0] = power(y[0] + 3, 4)

    assert results(k)[0] == 81


def test_a_single_return_at_the_end_needs_no_scope() -> None:
    kernel_ = kernel_of("y[0] = along(line, y[1])", "y: SliceMut[f32], line: Line", along=along, Line=Line)
    assert not ops(kernel_, nodes.Scope)
    assert not kernel_.variables


def test_every_operation_knows_the_call_that_led_to_it() -> None:
    kernel_ = kernel_of("y[0] = along(line, y[1])", "y: SliceMut[f32], line: Line", along=along, Line=Line)
    (fma,) = ops(kernel_, nodes.Fma)
    assert fma.location.function == "along"
    assert fma.location.caller is not None
    assert fma.location.caller.function == "tested"
    assert fma.location.caller.file.startswith("<text")


def test_variables_of_two_calls_are_apart() -> None:
    text = "@function\ndef count(n: i64) -> i64:\n    total = 0\n    for i in range(n):\n        total += i\n    return total\n"
    kernel_ = kernel_of("y[0] = count(3) * 100 + count(5)", "y: SliceMut[i64]", "grid=1, block=1", count=define(text)["count"])
    y = np.zeros(1, np.int64)
    run(kernel_, y=y)
    assert y[0] == 310


def test_overloads_are_chosen_by_the_first_argument() -> None:
    names = define("@function\ndef one(x: f32) -> f32:\n    return x + 1\n@function\ndef two(x: f64) -> f64:\n    return x + 2\n")
    add = Overloaded("add", {F32: names["one"], F64: names["two"]})
    kernel_ = kernel_of("y[0] = f32(add(a)) + add(b) + add(1)", "y: SliceMut[f32], a: f64, b: f32", add=add)
    assert {c.value for c in ops(kernel_, nodes.Constant) if c.type.is_float} == {1.0, 2.0}


def test_functions_are_found_through_modules_and_may_be_defined_later() -> None:
    names = define(
        "@kernel(grid=1, block=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = kdsl.sqrt(later(y[0])) + math.pi\n"
        "@function\ndef later(x: f32) -> f32:\n    return x + 4\n",
        kdsl=kdsl,
        math=__import__("math"),
    )
    y = np.zeros(1, np.float32)
    run(names["k"].ir(), y=y)
    assert y[0] == pytest.approx(2 + np.pi, rel=1e-6)


def test_a_call_on_the_host_says_where_it_belongs() -> None:
    with pytest.raises(TypeError, match="only inside a kernel"):
        square(2.0)
