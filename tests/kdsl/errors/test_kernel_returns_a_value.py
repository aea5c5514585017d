"""A kernel returns nothing."""

# ruff: noqa: RET503

from refusal import refused

from kdsl import SliceMut, f32, kernel


def test_statement() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        if y[0] > 1:
            return 3

    refused(wrong, "returns nothing", at="return 3", hint="array")


def test_annotation() -> None:
    def wrong(y: SliceMut[f32]) -> f32:
        return y[0]

    refused(lambda: kernel(grid=1)(wrong), "returns nothing", at="wrong", hint="-> None")
