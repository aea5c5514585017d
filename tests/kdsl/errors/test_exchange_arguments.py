"""Lane exchange and operations on bits with arguments that they do not take."""

from refusal import refused

from kdsl import SliceMut, elements, f32, i64, kernel, multiply_high, popcount, shuffle, warp_and, warp_prefix_sum


def test_a_width_that_is_no_segment() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = shuffle(y[1], 2, width=12)

    refused(wrong, "the width of shuffle()", "2, 4, 8, 16 and 32", "this is 12", at="12", hint="literal")

    @kernel(grid=elements("y"))
    def unknown(y: SliceMut[f32], n: i64) -> None:
        y[0] = shuffle(y[1], 2, n)

    refused(unknown, "known to the compiler", "this is i64", at="n", hint="Const")


def test_bits_of_floats() -> None:
    @kernel(grid=elements("y"))
    def reduction(y: SliceMut[f32]) -> None:
        y[0] = warp_and(y[1])

    refused(reduction, "warp_and() takes integers, not an f32", at="y[1]", hint="float_bits")

    @kernel(grid=elements("y"))
    def count(y: SliceMut[f32]) -> None:
        y[0] = popcount(y[1])

    refused(count, "popcount() takes integers, not an f32", at="y[1]", hint="u32(y[1])")

    @kernel(grid=elements("y"))
    def product(y: SliceMut[f32], n: i64) -> None:
        y[0] = f32(multiply_high(n, True))

    refused(product, "multiply_high() takes integers, not a bool", at="True", hint="u32(True)")


def test_a_prefix_sum_of_bools() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: SliceMut[i64]) -> None:
        y[0] = i64(warp_prefix_sum(y[0] > 3))

    refused(wrong, "warp_prefix_sum() of a bool", at="y[0] > 3", hint="convert it")
