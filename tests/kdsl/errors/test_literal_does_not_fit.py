"""An integer literal that its type cannot hold exactly is an error."""

from refusal import refused

from kdsl import SliceMut, f32, f64, i8, kernel, u8


def test_sum() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[u8]) -> None:
        y[0] = y[1] + 300

    refused(wrong, "300", "u8", "255", at="300", hint="wider")


def test_comparison() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i8]) -> None:
        if y[0] < 128:
            y[0] = 1

    refused(wrong, "128", "i8", "127", at="128", hint="wider")


def test_float_that_would_round() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = 16777217

    refused(wrong, "16777217", "f32", at="16777217", hint="16777217.0")


def test_conversion() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[u8]) -> None:
        y[0] = u8(256)

    refused(wrong, "256", "u8", at="256", hint="wider")


def test_float_too_large() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = 1e39

    refused(wrong, "1e+39", "too large", at="1e39", hint="inf")


def test_a_float_beyond_all_floats() -> None:
    """Python reads it as infinite without a word."""

    @kernel(grid=1)
    def wrong(y: SliceMut[f64]) -> None:
        y[0] = 1e400

    refused(wrong, "1e400", "larger than any float", at="1e400", hint='f32("inf")')
