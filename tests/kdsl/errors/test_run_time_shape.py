"""Shapes, trips of unroll and Const arguments must be known to the compiler."""

from refusal import refused

from kdsl import Const, SliceMut, f32, function, i32, kernel, local_array, unroll


def test_shape() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        tile = local_array(n, f32)
        y[0] = tile[0]

    refused(wrong, "shape", "i32", at="local_array(n, f32)", hint="Const")


def test_unroll() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        for i in unroll(n):
            y[i] = 0.0

    refused(wrong, "unroll()", "i32", at="n", hint="range()")


def test_const_argument() -> None:
    @function
    def power(x: f32, exponent: Const[int]) -> f32:
        return x**exponent

    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        y[0] = power(y[0], n)

    refused(wrong, "`exponent`", "Const", at="n", hint="literal")
