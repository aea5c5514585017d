"""Signatures and geometry that make no sense are refused when the kernel is decorated."""

from refusal import refused

from kdsl import Slice, SliceMut, elements, f32, kernel, sweep
from kdsl.frontend.declare import declare


def test_parameter_without_type() -> None:
    def wrong(y) -> None:
        y[0] = 0.0

    refused(lambda: kernel(grid=1)(wrong), "`y`", "no type", at="y", hint="Slice[f32]")


def test_python_int() -> None:
    def wrong(y: SliceMut[f32], n: int) -> None:
        y[n] = 0.0

    refused(lambda: kernel(grid=1)(wrong), "int", at="n: int", hint="i32 or i64")


def test_view_without_element() -> None:
    def wrong(y: SliceMut) -> None:
        y[0] = 0.0

    refused(lambda: kernel(grid=1)(wrong), "SliceMut", at="y: SliceMut", hint="SliceMut[f32]")


def test_default_of_an_array() -> None:
    def wrong(y: SliceMut[f32], x: Slice[f32] = None) -> None:
        y[0] = x[0]

    refused(lambda: kernel(grid=1)(wrong), "`x`", "default", at="x: Slice[f32]", hint="each launch")


def test_elements_of_nothing() -> None:
    def wrong(y: SliceMut[f32], n: f32) -> None:
        y[0] = n

    refused(lambda: kernel(grid=elements("n"))(wrong), "elements('n')", at="wrong", hint="y")


def test_no_blocks() -> None:
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = 0.0

    refused(lambda: declare(wrong, sweep(blocks=0)), "blocks", at="wrong", hint="at least 1")


def test_too_many_threads() -> None:
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = 0.0

    refused(lambda: declare(wrong, 1, (64, 32)), "2048", at="wrong", hint="1024")


def test_unresolved_annotation() -> None:
    def wrong(y: "Missing[f32]") -> None:  # noqa: F821
        y[0] = 0.0

    refused(lambda: kernel(grid=1)(wrong), "Missing", at='y: "Missing[f32]"', hint="global")


def test_annotation_that_is_wrong_in_itself() -> None:
    """The hint about imports would lead nowhere."""

    def wrong(y: "Slice[f32, 2]") -> None:
        y[0, 0]

    refused(lambda: kernel(grid=1)(wrong), "D2, D3, D4 or D5", at='y: "Slice[f32, 2]"', hint="use a view")


def test_elements_of_no_width() -> None:
    """A parameter `float` is refused; `Slice[float]` was an f64 without a word."""

    def wrong(y: "SliceMut[float]") -> None:
        y[0] = 1.0

    refused(lambda: kernel(grid=1)(wrong), "how wide", "SliceMut[f32] or SliceMut[f64]", at='y: "SliceMut[float]"', hint="use a view")


def test_methods() -> None:
    def wrong(self, y: SliceMut[f32]) -> None:
        y[0] = 1.0

    refused(lambda: kernel(grid=1)(wrong), "`self`", "no type", at="self", hint="leave `self` out")
