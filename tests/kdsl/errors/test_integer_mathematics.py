"""Mathematics takes floats."""

from refusal import refused

from kdsl import SliceMut, exp, f32, i32, kernel, sqrt


def test_intrinsic() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        y[0] = sqrt(n)

    refused(wrong, "sqrt()", "i32", at="n", hint="sqrt(f32(n))")


def test_function_of_the_library() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        y[0] = exp(n)

    refused(wrong, "exp()", "i32", at="exp(n)", hint="exp(f32(n))")
