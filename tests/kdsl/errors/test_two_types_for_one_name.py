"""A name has one type; both places are shown."""

from refusal import refused

from kdsl import SliceMut, f32, f64, i32, i64, kernel, u32


def test_two_floats() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        value = f32(1)
        if n > 2:
            value = f64(2)
        y[0] = f32(value)

    text = refused(wrong, "`value`", "f32", "f64", at="value", hint="another name", also="value")
    assert "value = f32(1)" in text
    assert "value = f64(2)" in text


def test_in_the_other_order() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        if n > 2:
            value = f64(2)
        else:
            value = f32(1)
        y[0] = f32(value)

    refused(wrong, "`value`", "f64 and f32", at="value", hint="another name")


def test_grows_in_a_loop() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i64], n: u32) -> None:
        total = n
        for i in range(4):
            total = total + i
        y[0] = i64(total)

    refused(wrong, "`total`", "u32 and i64", at="total", hint="another name")


def test_literal_and_incompatible_value() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        total = 1.5
        for _ in range(3):
            total = y[0]
        y[1] = total

    refused(wrong, "`total`", at="total", hint="another name")


def test_tuple_and_number() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        pair = (y[0], y[1])
        pair = y[0]
        y[1] = pair

    refused(wrong, "`pair`", "tuple", at="pair", hint="another name", also="pair")
