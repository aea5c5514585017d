"""A Slice is only read."""

from refusal import refused

from kdsl import Slice, SliceMut, f32, function, kernel


def test_assignment() -> None:
    @kernel(grid=1)
    def wrong(x: Slice[f32]) -> None:
        x[0] = 1.0

    refused(wrong, "`x`", "Slice", at="x[0]", hint="SliceMut[f32]")


def test_augmented_assignment() -> None:
    @kernel(grid=1)
    def wrong(x: Slice[f32]) -> None:
        x[0] += 1.0

    refused(wrong, "`x`", "Slice", at="x[0]", hint="SliceMut[f32]")


def test_inside_a_function_that_took_it_as_a_slice() -> None:
    @function
    def clear(x: Slice[f32]) -> None:
        x[0] = 0.0

    @kernel(grid=1)
    def wrong(x: SliceMut[f32]) -> None:
        clear(x)

    text = refused(wrong, "`x`", "Slice", at="x[0]", hint="SliceMut[f32]")
    assert "in the call of clear" in text
