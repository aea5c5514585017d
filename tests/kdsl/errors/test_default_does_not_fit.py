"""A default that its parameter's type does not hold is refused when the kernel is declared."""

from typing import Any

from refusal import refused

from kdsl import SliceMut, f32, i32, kernel, u8


def fraction() -> Any:
    @kernel(grid=1)
    def k(y: SliceMut[f32], n: i32 = 2.5) -> None:  # type: ignore[assignment]
        y[0] = f32(n)

    return k


def too_large() -> Any:
    @kernel(grid=1)
    def k(y: SliceMut[f32], n: u8 = 300) -> None:
        y[0] = f32(n)

    return k


def test_a_fraction_for_an_integer() -> None:
    refused(fraction, "`n`", "whole number", at="n: i32", hint="i32")


def test_a_number_that_is_too_large() -> None:
    refused(too_large, "`n`", "0 to 255", at="n: u8", hint="u8")
