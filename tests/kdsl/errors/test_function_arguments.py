"""Calls that do not fit a @function; the chain of calls is shown."""

from refusal import refused

from kdsl import Slice, SliceMut, f32, f64, function, i32, kernel


@function
def increment(x: f32) -> f32:
    return x + 1


@function
def inner(x):
    return x * 2.5


@function
def outer(x):
    return inner(x) + 1


@function
def factorial(n: i32) -> i32:
    return 1 if n < 2 else n * factorial(n - 1)


def test_too_many() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = increment(y[0], 2)

    refused(wrong, "increment(x)", "too many", at="increment(y[0], 2)", hint="each parameter", also="increment")


def test_type() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        y[0] = increment(n)

    refused(wrong, "`x` of increment", "i32", at="n", hint="f32(n)")


def test_mistake_two_calls_deep() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        y[0] = f32(outer(n))

    text = refused(wrong, "float literal", at="x * 2.5", hint="f32(x)")
    assert (
        text.index("return x * 2.5") < text.index("in the call of inner") < text.index("in the call of outer") < text.index("f32(outer(n))")
    )


def test_array_of_another_type() -> None:
    @function
    def first(x: Slice[f64]) -> f64:
        return x[0]

    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = f32(first(y))

    refused(wrong, "`x` of first", "Slice[f64]", "SliceMut[f32]", at="y", hint="Slice[f64]")


def test_recursion() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] = factorial(y[0])

    text = refused(wrong, "`factorial`", "recursion", at="factorial(n - 1)", hint="loop")
    assert "in the call of factorial" in text
