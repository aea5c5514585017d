"""Values that are no numbers, where one is wanted."""

from refusal import refused

from kdsl import Slice, SliceMut, f32, kernel, thread_idx


def test_array() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], x: Slice[f32]) -> None:
        y[0] = x

    refused(wrong, "number", "Slice[f32]", at="x", hint="x[i]")


def test_truth_of_an_array() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        if y:
            y[0] = 0.0

    refused(wrong, "neither true nor false", at="y", hint="len(y)")


def test_index_triple() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[thread_idx] = 0.0

    refused(wrong, "thread_idx", at="thread_idx", hint="thread_idx.x")


def test_string() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = "inf"

    refused(wrong, "string 'inf'", at='"inf"', hint='f32("inf")')


def test_type() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = f32

    refused(wrong, "type f32", at="f32", hint="f32(x)")


def test_float_index() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[y[0]] = 0.0

    refused(wrong, "index of `y`", "f32", at="y[0]", hint="i64(y[0])")
