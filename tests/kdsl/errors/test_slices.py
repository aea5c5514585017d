"""Slices of what has none, and bounds that are none."""

from refusal import refused

from kdsl import SliceMut, f32, i32, kernel, local_array, shared_array


def test_only_local_arrays_have_slices() -> None:
    @kernel(grid=1)
    def of_a_view(y: SliceMut[f32]) -> None:
        y[0:2] = 1.0

    refused(of_a_view, "a slice of SliceMut[f32]", "only local arrays", at="0:2", hint="slice of the array to the launch")

    @kernel(grid=1)
    def of_a_shared_array(y: SliceMut[f32]) -> None:
        s = shared_array((4, 4), f32)
        y[0] = s[0, :][1]

    refused(of_a_shared_array, "a slice of a shared array of f32", at=":", hint="index single elements")

    @kernel(grid=1)
    def of_a_tuple(y: SliceMut[f32]) -> None:
        pair = (1.0, 2.0)
        y[0] = pair[0:1][0]

    refused(of_a_tuple, "a slice of a tuple of 2", at="0:1", hint="single elements")


def test_a_slice_is_along_the_last_dimension_with_bounds_that_are_known() -> None:
    @kernel(grid=1)
    def along_the_first(y: SliceMut[f32]) -> None:
        s = local_array((4, 4), f32)
        y[0] = s[0:2, 1][0]

    refused(along_the_first, "another dimension of `s` than the last", at="0:2", hint="one by one")

    @kernel(grid=1)
    def with_a_step(y: SliceMut[f32]) -> None:
        s = local_array(4, f32)
        y[0] = s[0:4:2][0]

    refused(with_a_step, "a slice with a step", at="2", hint="one by one")

    @kernel(grid=1)
    def at_run_time(y: SliceMut[f32], n: i32) -> None:
        s = local_array(4, f32)
        y[0] = s[0:n][0]

    refused(at_run_time, "a bound of a slice is known to the compiler, and this is i32", at="n", hint="counter of an unroll")

    @kernel(grid=1)
    def outside(y: SliceMut[f32]) -> None:
        s = local_array((2, 4), f32)
        y[0] = s[1, 2:5][0]

    refused(outside, "5 is no bound of a slice of `s`, whose extent there is 4", at="5", hint="0 to 4")

    @kernel(grid=1)
    def of_too_few_dimensions(y: SliceMut[f32]) -> None:
        s = local_array((2, 4), f32)
        y[0] = s[0:2][0]

    refused(of_too_few_dimensions, "`s` has 2 dimensions, not 1", at="0:2", hint="(2, 4)")


def test_a_slice_is_assigned_as_many_values() -> None:
    @kernel(grid=1)
    def too_many(y: SliceMut[f32]) -> None:
        s = local_array(4, f32)
        s[0:2] = (1.0, 2.0, 3.0)
        y[0] = s[0]

    refused(too_many, "3 values cannot be assigned to 2", at="(1.0, 2.0, 3.0)", hint="agree")

    @kernel(grid=1)
    def one(y: SliceMut[f32]) -> None:
        s = local_array(4, f32)
        s[:] = 1.0
        y[0] = s[0]

    refused(one, "cannot be taken apart", at="1.0", hint="only a tuple")

    @kernel(grid=1)
    def in_place(y: SliceMut[f32]) -> None:
        s = local_array(4, f32)
        s[:] += 1.0
        y[0] = s[0]

    refused(in_place, "a slice cannot be changed in place", at="s[:]", hint="assign a tuple")
