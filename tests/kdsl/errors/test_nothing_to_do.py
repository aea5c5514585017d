"""Statements without meaning."""

from refusal import refused

from kdsl import SliceMut, f32, kernel, sync_threads


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


def test_a_function_that_is_not_called() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = 1.0
        sync_threads  # noqa: B018

    refused(wrong, "no effect", at="sync_threads", hint="call it: sync_threads()")
