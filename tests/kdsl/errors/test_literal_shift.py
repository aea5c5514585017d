"""A shift by the width or more, or by a negative amount, is a mistake where the amount is known."""

from refusal import refused

from kdsl import SliceMut, i32, kernel, u8


def test_by_the_width() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] = y[1] << 32

    refused(wrong, "shift", "i32", "32", at="y[1] << 32", hint="0 to 31")


def test_by_a_negative_amount() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[u8]) -> None:
        y[0] = y[1] >> -1

    refused(wrong, "shift", at="y[1] >> -1", hint="0 to 7")
