"""A loop runs over range or unroll, with integers."""

from refusal import refused

from kdsl import SliceMut, f32, kernel


def test_array() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        for value in y:
            y[0] = value

    refused(wrong, "range(…) or unroll(…)", at="y", hint="range(len(y))")


def test_float_bound() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        for i in range(y[0]):
            y[i] = 0.0

    refused(wrong, "stop of range()", "f32", at="y[0]", hint="i64(y[0])")


def test_tuple_target() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        for i, j in range(3):
            y[i] = f32(j)

    refused(wrong, "name", at="i, j", hint="for i in range(n)")
