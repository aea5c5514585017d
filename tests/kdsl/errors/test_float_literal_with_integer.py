"""A float literal beside an integer asks for a conversion."""

from refusal import refused

from kdsl import SliceMut, i32, kernel


def test_product() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] = y[1] * 2.5

    refused(wrong, "i32", "float literal", at="y[1] * 2.5", hint="f32(y[1])")


def test_assigned_element() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] = 2.5

    refused(wrong, "2.5", "i32", "`y`", at="2.5", hint="i32(2.5)")
