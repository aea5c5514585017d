"""`/` of integers is refused, with `//` and the conversion to write."""

from refusal import refused

from kdsl import SliceMut, i32, kernel


def test_variables() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] = y[1] / y[2]

    refused(wrong, "`/` of integers", "i32", at="y[1] / y[2]", hint="f32(y[1]) / f32(y[2])")


def test_literals() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] = 7 / 2

    refused(wrong, "`/` of integers", at="7 / 2", hint="//")
