"""A step that is always zero."""

from refusal import refused

from kdsl import SliceMut, f32, kernel, unroll


def test_range() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        for i in range(0, 5, 0):
            y[i] = 0.0

    refused(wrong, "step of range() is zero", at="0", hint="would not end")


def test_unroll() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        for i in unroll(0, 5, 0):
            y[i] = 0.0

    refused(wrong, "step of unroll() is zero", at="0", hint="would not end")
