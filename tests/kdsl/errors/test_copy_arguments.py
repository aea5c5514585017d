"""Asynchronous copies that cannot be: the place, the reason, the way out."""

import pytest
from refusal import refused

from kdsl import (
    DisjointSlice,
    KernelError,
    Slice,
    SliceMut,
    bf16,
    copy_async,
    elements,
    f32,
    f64,
    function,
    i32,
    kernel,
    local_array,
    shared_array,
    thread_idx,
    thread_index,
    wait_copies,
)


def test_from_an_array_parameter_to_a_shared_array() -> None:
    @kernel(grid=1)
    def to_a_view(y: SliceMut[f32], x: Slice[f32]) -> None:
        copy_async(y, 0, x, 0, 4)

    refused(to_a_view, "copies to a shared array, not to SliceMut[f32]", at="y", hint="copy_async(array, index, source, source_index")

    @kernel(grid=1)
    def to_a_local_array(y: SliceMut[f32], x: Slice[f32]) -> None:
        s = local_array(4, f32)
        copy_async(s, 0, x, 0, 4)

    refused(to_a_local_array, "not to a local array of f32", at="s", hint="copy_async(array")

    @kernel(grid=1)
    def from_a_shared_array(y: SliceMut[f32], x: Slice[f32]) -> None:
        s = shared_array(8, f32)
        copy_async(s, 0, s, 4, 4)

    refused(from_a_shared_array, "copies from an array parameter, not from a shared array of f32", at="s", hint="copy_async(array")

    @kernel(grid=elements("x"))
    def from_a_disjoint_slice(x: DisjointSlice[f32]) -> None:
        s = shared_array(1024, f32)
        copy_async(s, thread_idx.x, x, thread_index(), 1)

    refused(from_a_disjoint_slice, "a DisjointSlice", at="x", hint="Slice[f32]")


@function
def reads_only(s: Slice[f32], x: Slice[f32]) -> None:
    copy_async(s, 0, x, 0, 4)


def test_to_what_came_as_a_slice() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], x: Slice[f32]) -> None:
        s = shared_array(8, f32)
        reads_only(s, x)

    refused(wrong, "came here as a Slice", at="s", hint="SliceMut[f32]")


def test_elements_are_not_converted() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], x: Slice[f32]) -> None:
        s = shared_array(8, bf16)
        copy_async(s, 0, x, 0, 4)

    refused(wrong, "`s` has bf16, `x` has f32", at="x", hint="load, convert and store")


def test_4_8_or_16_bytes() -> None:
    @kernel(grid=1)
    def of_three(y: SliceMut[f32], x: Slice[f32]) -> None:
        s = shared_array(8, f32)
        copy_async(s, 0, x, 0, 3)

    refused(of_three, "the count of copy_async() is 1 or 2 or 4, known to the compiler; this is 3", at="3", hint="4, 8 or 16 bytes")

    @kernel(grid=1)
    def of_eight_doubles(y: SliceMut[f64], x: Slice[f64]) -> None:
        s = shared_array(8, f64)
        copy_async(s, 0, x, 0, 8)

    refused(of_eight_doubles, "1 or 2, known", at="8", hint="4, 8 or 16 bytes")

    @kernel(grid=1)
    def of_two_bytes(y: SliceMut[bf16], x: Slice[bf16], n: i32) -> None:
        s = shared_array(8, bf16)
        copy_async(s, 0, x, 0, n)

    refused(of_two_bytes, "2 or 4 or 8, known to the compiler; this is i32", at="n", hint="Const")


def test_places_that_cannot_be() -> None:
    @kernel(grid=1)
    def beyond_the_end(y: SliceMut[f32], x: Slice[f32]) -> None:
        s = shared_array((4, 8), f32)
        copy_async(s, (0, 6), x, 0, 4)

    refused(beyond_the_end, "4 elements from element 6 on leaves `s`, whose last extent is 8", at="(0, 6)", hint="begin at 4 at most")

    @kernel(grid=1)
    def not_aligned(y: SliceMut[f32], x: Slice[f32]) -> None:
        s = shared_array((4, 8), f32)
        copy_async(s, (0, 0), x, 2, 4)

    refused(not_aligned, "begins at element 2 of `x`, 8 bytes from its start", at="2", hint="a multiple of 4 elements")

    @kernel(grid=1)
    def in_odd_rows(y: SliceMut[f32], x: Slice[f32]) -> None:
        s = shared_array((4, 9), f32)
        copy_async(s, (thread_idx.x % 4, 0), x, 0, 4)

    refused(in_odd_rows, "`s`, whose rows have 36 bytes", at="(thread_idx.x % 4, 0)", hint="a multiple of 4 elements")


def test_how_many_groups_to_leave_is_known() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        wait_copies(n)

    refused(wrong, "a number of groups under way that the compiler knows", "this is i32", at="n", hint="literal")

    @kernel(grid=1)
    def negative(y: SliceMut[f32]) -> None:
        wait_copies(-1)

    with pytest.raises(KernelError, match="from 0 on"):
        negative.ir()
