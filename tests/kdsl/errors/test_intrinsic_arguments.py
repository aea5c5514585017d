"""Calls that do not fit an intrinsic."""

from refusal import refused

from kdsl import SliceMut, f32, fma, i32, kernel, local_array, sqrt, thread_index, warp_sum


def test_too_few() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = fma(y[0], y[1])

    refused(wrong, "fma()", "3 arguments", at="fma(y[0], y[1])", hint="fma(a: F, b: F, c: F)")


def test_too_many() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[thread_index(1)] = 0.0

    refused(wrong, "thread_index()", at="thread_index(1)", hint="thread_index()")


def test_unknown_name() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = sqrt(value=y[0])

    refused(wrong, "sqrt()", "`value`", at="sqrt(value=y[0])", hint="sqrt(x: F)")


def test_sum_of_bools() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] = warp_sum(y[0] > 1)

    refused(wrong, "warp_sum()", "bool", at="y[0] > 1", hint="warp_ballot")


def test_element_type() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        own = local_array(4, 5)
        y[0] = own[0]

    refused(wrong, "element type", at="local_array(4, 5)", hint="f32")
