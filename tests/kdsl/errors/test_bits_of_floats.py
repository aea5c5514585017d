"""Floats have no bits to shift or mask."""

from refusal import refused

from kdsl import SliceMut, f32, kernel


def test_shift() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = y[1] << 1

    refused(wrong, "`<<`", "f32", at="y[1] << 1", hint="float_bits")


def test_invert() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = ~y[1]

    refused(wrong, "`~`", "f32", at="~y[1]", hint="integers")
