"""A name that exists nowhere."""

import math

from refusal import refused

from kdsl import SliceMut, f32, kernel


def test_unknown_name() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = missing  # noqa: F821

    refused(wrong, "`missing`", "not defined", at="missing", hint="spelling")


def test_unknown_name_in_a_module() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = math.missing

    refused(wrong, "`math`", "`missing`", at="math.missing", hint="name")
