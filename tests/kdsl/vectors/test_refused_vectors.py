"""What is refused about vectors: in kernels with place and hint, at launches with the argument, its alignment and what is needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from refusal import refused
from vector_kernels import of as kernels_of

import kdsl
from kdsl import (
    D1,
    D2,
    DisjointSlice,
    Slice,
    SliceMut,
    as_vectors,
    atomic_add,
    atomic_and,
    atomic_max,
    copysign,
    elements,
    f16x4,
    f16x8,
    f32,
    f32x2,
    f32x4,
    f64,
    f64x2,
    function,
    i32,
    i32x4,
    i64,
    kernel,
    local_array,
    shared_array,
    sqrt,
    sweep,
    thread_index,
    u32x4,
    warp_sum,
)
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
V = TypeVar("V", f32x4, f64x2)
T = TypeVar("T")


def one(body: Callable[..., None]) -> Any:
    return kernel(grid=sweep(blocks=1))(body)


# -------------------------------------------------------------------------------------------------------------------------------- values


def test_a_comparison() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
        if x[0] < x[1]:
            y[0] = x[0]

    refused(wrong, "vectors are not compared with `<`", at="x[0] < x[1]", hint="compare numbers, such as x[0][0]")


def test_a_condition() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
        v = x[0]
        if v:
            y[0] = v

    refused(wrong, "f32x4 is neither true nor false", at="v", hint="v[0] > 0")


def test_too_few_numbers() -> None:
    @one
    def wrong(y: SliceMut[f32x4]) -> None:
        y[0] = f32x4(1, 2, 3)

    refused(wrong, "f32x4() takes 4 numbers, or one for all, not 3", at="f32x4(1, 2, 3)", hint="f32x4(a, b, c, d) or f32x4(a)")


def test_a_vector_of_another_length() -> None:
    @one
    def wrong(y: SliceMut[f32x4]) -> None:
        y[0] = f32x4(f32x2(1, 2))

    refused(wrong, "f32x4() of an f32x2", at="f32x2(1, 2)", hint="a vector of 4 numbers")


def test_an_integer_that_does_not_fit() -> None:
    @one
    def wrong(y: SliceMut[kdsl.u8x4]) -> None:
        y[0] = kdsl.u8x4(300)

    refused(wrong, "300 does not fit a u8", at="300", hint="wider")


def test_vectors_of_different_lengths() -> None:
    @one
    def wrong(x: Slice[f32x4], w: Slice[f32x2], y: SliceMut[f32x4]) -> None:
        y[0] = x[0] + w[0]

    refused(wrong, "`+` of an f32x4 and an f32x2", at="w[0]", hint="as many numbers")


def test_a_float_with_integers() -> None:
    @one
    def wrong(x: Slice[i32x4], y: SliceMut[f32x4], s: f32) -> None:
        y[0] = x[0] * s

    refused(wrong, "`*` of an i32x4 and an f32", at="x[0] * s", hint="write f32x4(x[0])")


def test_a_float_literal_with_integers() -> None:
    @one
    def wrong(x: Slice[i32x4], y: SliceMut[f32x4]) -> None:
        y[0] = 0.5 * x[0] + 1

    refused(wrong, "`*` of an i32x4 and a float literal", at="0.5 * x[0] + 1", hint="write f32x4(x[0])")


def test_an_integer_with_floats() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4], n: i32) -> None:
        y[0] = x[0] - n

    refused(wrong, "`-` of an f32x4 and an i32", at="x[0] - n", hint="write f32(n)")


def test_a_result_of_more_than_16_bytes() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4], s: f64) -> None:
        y[0] = f32x4(x[0] * s)

    refused(wrong, "no vector f64x4", "more than 16 bytes", at="x[0] * s", hint="narrower")


def test_short_floats_times_an_f32() -> None:
    @one
    def wrong(x: Slice[f16x8], y: SliceMut[f16x8], s: f32) -> None:
        y[0] = x[0] * s

    refused(wrong, "no vector f32x8", at="x[0] * s", hint="narrower")


def test_an_attribute() -> None:
    @one
    def wrong(x: Slice[f32x2], y: SliceMut[f32]) -> None:
        y[0] = x[0].z

    refused(wrong, "an f32x2 has no `z`", at="x[0].z", hint="it has .x, .y and .dtype")


def test_an_attribute_of_a_long_vector() -> None:
    @one
    def wrong(x: Slice[f16x8], y: SliceMut[kdsl.f16]) -> None:
        y[0] = x[0].x

    refused(wrong, "an f16x8 has no `x`", at="x[0].x", hint="v[0] to v[7]")


def test_an_index_at_run_time() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32], n: i32) -> None:
        y[0] = x[0][n]

    refused(wrong, "a number that the compiler knows", at="n", hint="local_array")


@pytest.mark.parametrize("place", [4, -1])
def test_an_index_outside(place: int) -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32]) -> None:
        y[0] = x[0][place]

    refused(wrong, f"index {place} of an f32x4", at="place", hint="0 to 3")


def test_changing_a_number() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
        v = x[0]
        v[1] = 5.0
        y[0] = v

    refused(wrong, "a vector cannot be changed", at="v[1]", hint="make a new one: f32x4(…)")


def test_changing_an_attribute() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
        v = x[0]
        v.x += 1
        y[0] = v

    refused(wrong, "`v.x` cannot be assigned: a vector is not changed in place", at="v.x", hint="make a new one: f32x4(…)")


def test_taking_apart_into_too_few_names() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32]) -> None:
        a, b = x[0]
        y[0] = a + b

    refused(wrong, "4 values cannot be assigned to 2 names", at="x[0]", hint="agree")


def test_a_sum_that_starts_as_a_number() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
        total = 0.0
        for i in range(9):
            total += x[i]
        y[0] = total

    refused(wrong, "`total` was a number (f32) and would become f32x4", at="total", hint="let it begin as f32x4(…)", also="total")


def test_two_vector_types_for_one_name() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
        v = x[0]
        if x[0].x > 0:
            v = f16x4(1, 2, 3, 4)
        y[0] = v

    refused(wrong, "`v` was f32x4 and would become f16x4", at="v", hint="write f32x4(…)", also="v")


def test_a_declared_name() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f16x4]) -> None:
        v: f16x4 = x[0]
        y[0] = v

    refused(wrong, "an f32x4 does not become an f16x4 by itself (`v` is f16x4)", at="x[0]", hint="write f16x4(x[0])")


def test_the_sides_of_a_conditional_expression() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
        y[0] = x[0] if x[0].x > 0 else 0.0

    refused(wrong, "f32x4 and the literal 0.0", at="x[0] if x[0].x > 0 else 0.0", hint="write f32x4(0.0)")


def test_storing_a_number() -> None:
    @one
    def wrong(y: SliceMut[f32x4]) -> None:
        y[0] = 0.0

    refused(wrong, "a number is not an f32x4 (an element of `y` is f32x4)", at="0.0", hint="write f32x4(0.0)")


def test_storing_other_numbers() -> None:
    @one
    def wrong(x: Slice[i32x4], y: SliceMut[f32x4]) -> None:
        y[0] = x[0]

    refused(wrong, "an i32x4 does not become an f32x4 by itself", at="x[0]", hint="write f32x4(x[0])")


def test_storing_a_vector_as_a_number() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32]) -> None:
        y[0] = x[0]

    refused(wrong, "an element of `y` must be a number, not f32x4", at="x[0]", hint="x[0][0] to x[0][3]")


def test_a_function_of_floats() -> None:
    @one
    def wrong(x: Slice[i32x4], y: SliceMut[f32x4]) -> None:
        y[0] = sqrt(x[0])

    refused(wrong, "sqrt() does not take an i32x4", at="x[0]", hint="write sqrt(f32x4(x[0]))")

    @one
    def narrow(x: Slice[f16x4], y: SliceMut[f32x4]) -> None:
        y[0] = copysign(x[0], x[0])

    refused(narrow, "copysign() does not take an f16x4", at="x[0]", hint="write copysign(f32x4(x[0]))")


def test_as_vectors_by_name() -> None:
    @one
    def wrong(x: Slice[f32], y: SliceMut[f32x4]) -> None:
        y[0] = as_vectors(type=f64x2, array=x)[0]

    refused(wrong, "`x` has elements of f32", at="as_vectors(type=f64x2, array=x)", hint="as_vectors(x, f32x4)")


def test_an_exchange() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
        y[0] = warp_sum(x[0])

    refused(wrong, "the value of warp_sum() must be a number, not f32x4", at="x[0]", hint="one by one")


def test_an_atomic_operation() -> None:
    @one
    def wrong(y: SliceMut[f32x4]) -> None:
        atomic_max(y, 0, f32x4(1.0))

    refused(wrong, "atomic_max() of f32x4 elements is on no target", "of vectors it takes f16x2", at="y", hint="SliceMut of f32")

    @one
    def type_(y: SliceMut[f64x2]) -> None:
        atomic_add(y, 0, f64x2(1.0))

    refused(type_, "atomic_add() of f64x2 elements is on no target", "f16x2, bf16x2", at="y", hint="SliceMut of f64")

    @one
    def bitwise(y: SliceMut[u32x4]) -> None:
        atomic_and(y, 0, u32x4(1))

    refused(bitwise, "atomic_and() of u32x4 elements is on no target", "it is on numbers", at="y", hint="SliceMut of u32")

    @one
    def shared(y: SliceMut[f32x4]) -> None:
        tile = shared_array(8, f32x4)
        atomic_add(tile, 0, y[0])

    refused(shared, "device memory only", "`tile`", at="tile", hint="vectors in shared memory are f16x2 and bf16x2")

    @one
    def number(y: SliceMut[f32x4]) -> None:
        atomic_add(y, 0, 1.0)

    refused(number, "`value` of atomic_add() on `y` is f32x4", at="1.0", hint="f32x4(1.0)")

    @one
    def order(y: SliceMut[f32x4]) -> None:
        atomic_add(y, 0, y[1], order="sc")

    refused(order, "the order of atomic_add()", at='"sc"', hint='order="relaxed"')


@function
def of_vectors(v: f32x4) -> f32x4:
    return v


def test_an_argument() -> None:
    @one
    def wrong(x: Slice[f32], y: SliceMut[f32x4]) -> None:
        y[0] = of_vectors(x[0])

    refused(wrong, "a number is not an f32x4 (`v` of of_vectors is f32x4)", at="x[0]", hint="write f32x4(x[0])")


@function
def wrong_result(v: f32x4) -> f32x4:
    return v.x


def test_a_result() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
        y[0] = wrong_result(x[0])

    refused(wrong, "a number is not an f32x4 (the result of wrong_result is f32x4)", at="v.x", hint="write f32x4(v.x)")


@function
def same_types(a: T, b: T) -> T:
    return a + b


def test_a_type_variable_of_two_types() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4], s: f32) -> None:
        y[0] = same_types(x[0], s)

    refused(wrong, "T is f32x4 by another argument, and f32 by `b`", at="s", hint="f32x4(...)")


# -------------------------------------------------------------------------------------------------------------------------------- arrays


def test_as_vectors_of_other_elements() -> None:
    @one
    def wrong(x: Slice[f64], y: SliceMut[f32x4]) -> None:
        y[0] = as_vectors(x, f32x4)[0]

    refused(wrong, "`x` has elements of f64, and an f32x4 consists of f32", at="as_vectors(x, f32x4)", hint="as_vectors(x, f64x2)")


def test_as_vectors_of_vectors() -> None:
    @one
    def wrong(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
        y[0] = as_vectors(x, f32x2)[0]

    refused(wrong, "`x` is Slice[f32x4] already", at="x", hint="f32x4")


@pytest.mark.parametrize("lanes", [3, 8, 0])
def test_as_vectors_of_so_many(lanes: int) -> None:
    @one
    def wrong(x: Slice[f32], y: SliceMut[f32x4]) -> None:
        y[0] = as_vectors(x, lanes)[0]

    refused(wrong, f"the vectors of f32 are f32x2, f32x4; this is {lanes}", at="lanes", hint="as_vectors(x, f32x4)")


def test_as_vectors_of_a_number() -> None:
    @one
    def wrong(x: Slice[f32], y: SliceMut[f32x4]) -> None:
        y[0] = as_vectors(x[0], f32x4)[0]

    refused(wrong, "as_vectors() takes an array, not f32", at="x[0]", hint="as_vectors(x, f32x4)")


def test_a_shared_array_whose_rows_do_not_fit() -> None:
    @one
    def wrong(y: SliceMut[f32x4]) -> None:
        s = shared_array((4, 6), f32)
        y[0] = as_vectors(s, f32x4)[0, 0]

    refused(wrong, "`s` cannot be taken as f32x4: its last extent is 6", at="as_vectors(s, f32x4)", hint="a multiple of 4")


def test_a_local_array_that_is_too_short() -> None:
    @one
    def wrong(y: SliceMut[f32x4]) -> None:
        s = local_array(3, f32)
        y[0] = as_vectors(s, f32x4)[0]

    refused(wrong, "`s` cannot be taken as f32x4: it has 3", at="as_vectors(s, f32x4)", hint="at least 4 elements")


def test_an_index_beyond_the_vectors_of_an_array() -> None:
    @one
    def wrong(y: SliceMut[f32x4]) -> None:
        s = shared_array(9, f32)
        y[0] = as_vectors(s, f32x4)[2]

    refused(wrong, "index 2 is outside `s`, whose extent there is 2", at="2", hint="0 to 1")


def test_shared_memory_is_counted_in_bytes() -> None:
    @one
    def wrong(y: SliceMut[f32x4]) -> None:
        s = shared_array(14529, f32x4)
        y[0] = s[0]

    refused(wrong, "232464 bytes", at="shared_array(14529, f32x4)", hint="smaller")


def test_writing_to_a_slice() -> None:
    @one
    def wrong(x: Slice[f32x4]) -> None:
        x[0] = f32x4(0)

    refused(wrong, "`x` is a Slice", at="x[0]", hint="SliceMut[f32x4], or as DisjointSlice[f32x4]")


def test_too_many_indices() -> None:
    @one
    def wrong(y: SliceMut[f32x4]) -> None:
        y[0, 1] = f32x4(0)

    refused(wrong, "`y` has one dimension, not 2", at="0, 1", hint="SliceMut[f32x4, D2]")


def test_one_witness_for_numbers_and_for_vectors() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: DisjointSlice[f32]) -> None:
        i = thread_index()
        y[i] = 0.0
        as_vectors(y, f32x4)[i] = f32x4(1)

    refused(
        wrong, "`y` is accessed through thread_index() as f32x4 here and through thread_index() elsewhere",
        at="as_vectors(y, f32x4)[i]", hint="SliceMut[f32]", also="y[i]",
    )  # fmt: skip


def test_one_witness_for_two_kinds_of_vectors() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: DisjointSlice[f32]) -> None:
        i = thread_index()
        as_vectors(y, f32x2)[i] = f32x2(0)
        as_vectors(y, f32x4)[i] = f32x4(1)

    refused(wrong, "as f32x4 here and through thread_index() as f32x2 elsewhere", at="as_vectors(y, f32x4)[i]", hint="one kind of witness")


def test_no_witness() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: DisjointSlice[f32x4]) -> None:
        y[thread_index() + 1] = f32x4(0)

    refused(wrong, "is not a witness", at="y[thread_index() + 1]", hint="SliceMut[f32x4]")


# ---------------------------------------------------------------------------------------------------------------------------- declarations


def test_a_vector_by_value() -> None:
    def wrong() -> Any:
        @kernel(grid=1)
        def f(v: f32x4, y: SliceMut[f32x4]) -> None:
            y[0] = v

    refused(wrong, "`v` is f32x4, and a kernel takes vectors in arrays only", at="v: f32x4", hint="Slice[f32x4]")


def test_a_type_variable_of_vectors() -> None:
    def wrong() -> Any:
        @kernel(grid=1)
        def f(y: SliceMut[V]) -> None:
            y[0] = y[1]

    refused(wrong, "a type variable of a kernel stands for numbers", at="y: SliceMut[V]", hint="as_vectors()")


def test_vectors_with_a_stride() -> None:
    with pytest.raises(TypeError, match="vectors lie side by side"):
        Slice[f32x4, D1]


def test_vectors_are_no_element_type_on_the_host() -> None:
    with pytest.raises(TypeError, match="f32x4 is not an element type"):
        kdsl.device("cpu").zeros(4, f32x4)


# -------------------------------------------------------------------------------------------------------------------------------- launches


@kernel(grid=elements("y"))
def copied(x: Slice[f32], y: DisjointSlice[f32x4]) -> None:
    i = thread_index()
    xv = as_vectors(x, f32x4)
    if i in y:
        y[i] = xv[i]


@kernel(grid=sweep(blocks=1))
def of_rows(x: Slice[f32, D2], y: SliceMut[f32x4, D2]) -> None:
    xv = as_vectors(x, f32x4)
    for i in range(y.shape[0]):
        for j in range(thread_index(), y.shape[1], 256):
            y[i, j] = xv[i, j]


def say(words: str, launch: Callable[[], object]) -> None:
    with pytest.raises(kdsl.LaunchError, match=re.escape(words)):
        launch()


@DEVICES
def test_misaligned_arrays(device: Any) -> None:
    a = device.zeros(64, f32)
    copied(a[8:24], a[40:56])
    say(
        "copied: the kernel moves 16 bytes of x at once, so its first element lies at a multiple of 16 bytes; that of the argument lies 4 behind one; "
        "pass a copy: device.array(x.numpy())",
        lambda: copied(a[9:25], a[40:56]),
    )
    say("the kernel moves 16 bytes of y at once", lambda: copied(a[8:24], a[42:58]))
    say("that of the argument lies 8 behind one", lambda: copied(a[8:24], a[42:58]))
    say(
        "copied: parameter y is DisjointSlice[f32x4], 4 f32 to an element; the argument has 15 elements, no multiple of 4; pad it, or pass y[:12]",
        lambda: copied(a[8:24], a[40:55]),
    )
    assert device.synchronize() is None


@DEVICES
def test_arrays_without_elements_may_lie_anywhere(device: Any) -> None:
    a = device.zeros(64, f32)
    copied(a[9:9], a[3:3])
    matrix = device.zeros((8, 7), f32)
    of_rows(matrix[1:1, 1:], device.zeros((0, 4), f32))
    of_rows(matrix[:1, :4], device.zeros((1, 4), f32))  # one row: its stride does not matter


@DEVICES
def test_rows_that_are_not_aligned(device: Any) -> None:
    wide, y = device.zeros((8, 30), f32), device.zeros((8, 28), f32)
    say(
        "each row begins at a multiple of 16 bytes; the strides of the argument, (30, 1), are no multiples of 4",
        lambda: of_rows(wide[:, :28], y),
    )
    say("the kernel moves 16 bytes of x at once", lambda: of_rows(wide, y))
    say("so the elements of a row lie side by side; the argument has a stride of 2", lambda: of_rows(device.zeros((8, 64), f32)[:, ::2], y))
    say("the argument has a stride of 8; pass a copy: device.array(x.numpy())", lambda: of_rows(device.zeros((28, 8), f32).T, y))
    say(
        "the kernel moves 16 bytes of y at once, so the elements of a row lie side by side",
        lambda: of_rows(y, device.zeros((28, 8), f32).T),
    )
    say(
        "y is SliceMut[f32x4, D2], 4 f32 to an element; the argument has 30 elements in a row, no multiple of 4; pad it, or pass y[..., :28]",
        lambda: of_rows(y, wide),
    )
    of_rows(y[::-1], y[:0])


@DEVICES
def test_other_elements(device: Any) -> None:
    say(
        "parameter y is DisjointSlice[f32x4], an array of f32; the argument is an array of i32",
        lambda: copied(device.zeros(4, f32), device.zeros(4, i32)),
    )
    say("y is DisjointSlice[f32x4], which has 1 dimension and elements side by side; the argument has a stride of 2 elements; pass a copy",
        lambda: copied(device.zeros(4, f32), device.zeros(8, f32)[::2]))  # fmt: skip


@DEVICES
def test_overlap(device: Any) -> None:
    a = device.zeros(64, f32)
    copied(a, a)  # each thread touches its own vector
    say("overlap", lambda: copied(a[:32], a[4:36]))
    kernels = kernels_of(f32x4)
    kernels.copy(a, a)
    say("overlap", lambda: kernels.copy(a[:32], a[16:48]))


@DEVICES
def test_numbers_and_vectors_of_one_array_through_one_witness(device: Any) -> None:
    @kernel(grid=elements("y"))
    def mixed(x: Slice[f32], y: DisjointSlice[f32x4]) -> None:
        i = thread_index()
        if i in y:
            y[i] = f32x4(x[i])

    a = device.zeros(64, f32)
    with pytest.raises(kdsl.LaunchError, match="The kernel touches x through thread_index and y through thread_index as f32x4"):
        mixed(a, a)


@DEVICES
def test_the_contract_counts_vectors(device: Any) -> None:
    @kernel(grid=elements("y"), requires="4 * len(y) == len(x)")
    def counted(x: Slice[f32], y: DisjointSlice[f32x4], n: i64) -> None:
        i = thread_index()
        if i in y:
            y[i] = f32x4(x[4 * i]) + f32(n)

    a, y = device.array(np.arange(32, dtype=np.float32)), device.zeros(32, f32)
    counted(a, y, 1)
    assert np.array_equal(y.numpy(), np.repeat(np.arange(0, 32, 4), 4) + 1.0)
    say("4 * len(y) is 28, len(x) is 32", lambda: counted(a, y[:28], 1))
