"""Numbers convert unasked only where no value can be lost."""

from refusal import refused

from kdsl import Slice, SliceMut, f32, f64, i32, i64, kernel, u32, u64


def test_integer_with_float() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        y[0] = y[1] * n

    refused(wrong, "f32", "i32", at="y[1] * n", hint="f32(n)")


def test_mixed_signs_of_64_bits() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i64], x: Slice[u64]) -> None:
        y[0] = y[1] + x[0]

    refused(wrong, "i64", "u64", at="y[1] + x[0]", hint="i64(x[0])")


def test_comparison_of_mixed_signs() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i64], x: Slice[u64]) -> None:
        if x[0] < y[0]:
            y[0] = 0

    refused(wrong, "u64", "i64", at="x[0] < y[0]", hint="i64(x[0])")


def test_narrower_element() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], x: Slice[f64]) -> None:
        y[0] = x[0]

    refused(wrong, "f64", "f32", "`y`", at="x[0]", hint="f32(x[0])")


def test_sign() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[u32], n: i32) -> None:
        y[0] = n

    refused(wrong, "i32", "u32", at="n", hint="u32(n)")
