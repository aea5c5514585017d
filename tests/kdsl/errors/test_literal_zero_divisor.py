"""A divisor that is always zero is a mistake."""

from refusal import refused

from kdsl import SliceMut, i32, kernel

NOTHING = 0


def test_quotient() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] = y[1] // 0

    refused(wrong, "`//` by zero", at="y[1] // 0", hint="always 0")


def test_captured() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] %= NOTHING

    refused(wrong, "`%` by zero", at="y[0] %= NOTHING", hint="always 0")
