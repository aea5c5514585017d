"""Statements without meaning."""

from refusal import refused

from kdsl import SliceMut, f32, kernel


def test_expression_without_effect() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] == 1.0  # noqa: B015

    refused(wrong, "no effect", at="y[0] == 1.0", hint="assign")


def test_assertion_that_never_holds() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        assert 1 > 2, "one is small"
        y[0] = 0.0

    refused(wrong, "one is small", at='assert 1 > 2, "one is small"', hint="known")
