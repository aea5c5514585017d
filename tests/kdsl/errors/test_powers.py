"""Powers that integers or floats do not have."""

from refusal import refused

from kdsl import SliceMut, f32, i32, kernel


def test_negative_power_of_an_integer() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] = y[1] ** -2

    refused(wrong, "negative power", at="y[1] ** -2", hint="f32(y[1])")


def test_run_time_integer_power_of_a_float() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        y[0] = y[1] ** n

    refused(wrong, "f32", "run time", at="y[1] ** n", hint="f32(n)")


def test_float_power_of_an_integer() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] = y[1] ** 0.5

    refused(wrong, "i32", "power", at="y[1] ** 0.5", hint="f32(y[1])")
