"""What a @function must return."""

# ruff: noqa: RET503

from refusal import refused

from kdsl import SliceMut, f32, function, i32, kernel


def test_path_without_return() -> None:
    @function
    def clamped(x: f32) -> f32:
        if x > 0:
            return x

    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = clamped(y[0])

    text = refused(wrong, "`clamped`", "without", at="clamped", hint="every way", also="x")
    assert "in the call of clamped" in text
    assert "y[0] = clamped(y[0])" in text


def test_no_return_at_all() -> None:
    @function
    def empty(x: f32) -> f32:
        x += 1

    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = empty(y[0])

    refused(wrong, "`empty`", "does not", at="empty", hint="-> None")


def test_value_of_a_procedure() -> None:
    @function
    def clear(y: SliceMut[f32]) -> None:
        y[0] = 0.0

    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[1] = clear(y)

    refused(wrong, "None", at="clear(y)", hint="return a value")


def test_result_that_does_not_convert() -> None:
    @function
    def whole(x: f32) -> i32:
        return x

    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = f32(whole(y[0]))

    refused(wrong, "f32", "i32", "result of whole", at="x", hint="i32(x)")


def test_number_of_values() -> None:
    @function
    def both(x: f32) -> tuple[f32, f32]:
        return x, x

    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        a, b, c = both(y[0])
        y[0] = a + b + c

    refused(wrong, "2 values", "3 names", at="both(y[0])", hint="agree")
