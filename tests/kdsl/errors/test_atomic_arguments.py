"""Atomic operations on what they do not work on: the place, the reason, the way out."""

import pytest
from refusal import refused

import kdsl
from kdsl import (
    DisjointSlice,
    Slice,
    SliceMut,
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_inc,
    atomic_load,
    atomic_max,
    elements,
    f32,
    fence_device,
    function,
    i8,
    i32,
    i64,
    kernel,
    local_array,
    shared_array,
    thread_index,
    u32,
)  # fmt: skip


def test_a_type_that_has_no_such_operation_names_all_three() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: SliceMut[f32]) -> None:
        atomic_max(y, 0, 1.0)

    refused(wrong, "atomic_max()", "f32", "GPU targets", "CPU", "i32, u32, i64, u64", at="y", hint="atomic_cas")

    @kernel(grid=elements("y"))
    def narrow(y: SliceMut[i8]) -> None:
        atomic_add(y, 0, 1)

    refused(narrow, "atomic_add()", "i8", at="y", hint="make it an array of i32")

    @kernel(grid=elements("y"))
    def signed(y: SliceMut[i32]) -> None:
        atomic_inc(y, 0, 1)

    refused(signed, "atomic_inc()", "i32", "it takes u32", at="y", hint="make it an array of u32")

    @kernel(grid=elements("y"))
    def bits(y: SliceMut[f32]) -> None:
        atomic_and(y, 0, 1)

    refused(bits, "atomic_and()", "f32", at="y", hint="make it an array of i32")


def test_memory_that_is_not_shared_or_not_to_be_changed() -> None:
    @kernel(grid=elements("y"))
    def disjoint(y: DisjointSlice[i32]) -> None:
        atomic_add(y, thread_index(), 1)

    refused(disjoint, "DisjointSlice", "belongs to one thread", at="y", hint="SliceMut[i32]")

    @kernel(grid=elements("y"))
    def read_only(y: Slice[i32]) -> None:
        atomic_load(y, 0)

    refused(read_only, "a Slice", "only read", at="y", hint="SliceMut[i32]")

    @kernel(grid=elements("y"))
    def local(y: SliceMut[i32]) -> None:
        mine = local_array(4, i32)
        atomic_add(mine, 0, 1)

    refused(local, "local array", at="mine", hint="shared_array")

    @kernel(grid=elements("y"))
    def number(y: SliceMut[i32]) -> None:
        atomic_add(y[0], 0, 1)

    refused(number, "not i32", at="y[0]", hint="array, index, value")


def test_an_array_that_came_as_a_slice() -> None:
    @function
    def count(x: Slice[i32]) -> None:
        atomic_add(x, 0, 1)

    @kernel(grid=elements("y"))
    def wrong(y: SliceMut[i32]) -> None:
        count(y)

    refused(wrong, "only read", at="x", hint="SliceMut[i32]")

    @kernel(grid=elements("y"))
    def shared(y: SliceMut[i32]) -> None:
        mine = shared_array(4, i32)
        count(mine)

    refused(shared, "came here as a Slice", at="x", hint="SliceMut[i32]")


def test_scope_and_order() -> None:
    @kernel(grid=elements("y"))
    def scope(y: SliceMut[i32]) -> None:
        atomic_add(y, 0, 1, scope="warp")

    refused(scope, "scope", '"block", "cluster", "device", "system"', "'warp'", at='"warp"', hint='scope="block"')

    @kernel(grid=elements("y"))
    def order(y: SliceMut[i32]) -> None:
        atomic_load(y, 0, order="release")

    refused(order, "order", '"relaxed", "acquire", "seq_cst"', at='"release"', hint='order="relaxed"')

    @kernel(grid=elements("y"))
    def fence(y: SliceMut[i32]) -> None:
        fence_device(order="relaxed")

    refused(fence, "the order of fence_device()", '"acq_rel", "seq_cst"', at='"relaxed"', hint='order="acq_rel"')


def test_values_and_indices() -> None:
    @kernel(grid=elements("y"))
    def value(y: SliceMut[i32], v: i64) -> None:
        atomic_add(y, 0, v)

    refused(value, "i64", "`value` of atomic_add() on `y` is i32", at="v", hint="i32(v)")

    @kernel(grid=elements("y"))
    def index(y: SliceMut[i32], f: f32) -> None:
        atomic_add(y, f, 1)

    refused(index, "an index of `y` must be an integer", at="f", hint="i64(f)")

    @kernel(grid=elements("y"))
    def negative(y: SliceMut[i32]) -> None:
        atomic_add(y, -1, 1)

    refused(negative, "negative", at="-1", hint="indices start at 0")

    @kernel(grid=elements("y"))
    def dimensions(y: SliceMut[u32]) -> None:
        mine = shared_array((2, 2), u32)
        atomic_cas(mine, 1, 2, 3)

    refused(dimensions, "2 dimensions", at="1", hint="(2, 2)")

    @kernel(grid=elements("y"))
    def missing(y: SliceMut[u32]) -> None:
        atomic_cas(y, 0, 3)

    refused(missing, "lacks `value`", at="atomic_cas(y, 0, 3)", hint="compare: T, value: T")


def test_overlap_is_refused_even_for_a_load() -> None:
    """Something else may be changing what is loaded atomically, so the view counts as written."""

    @kernel(grid=elements("y"))
    def loads(y: SliceMut[i32], x: Slice[i32]) -> None:
        atomic_load(y, x[0])

    view = loads.ir().parameters[0]
    assert (view.read, view.written, view.witness) == (True, True, None)
    array = kdsl.device("cpu").zeros(4, i32)
    with pytest.raises(kdsl.LaunchError, match="overlap"):
        loads(array, array)
