"""True and False are no numbers."""

from refusal import refused

from kdsl import Slice, SliceMut, i32, kernel


def test_sum_of_bools() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32], flags: Slice[bool]) -> None:
        y[0] = flags[0] + flags[1]

    refused(wrong, "two bools", at="flags[0] + flags[1]", hint="i32(flags[0])")


def test_bool_with_number() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32], flags: Slice[bool]) -> None:
        y[0] = y[1] * flags[0]

    refused(wrong, "bool", at="y[1] * flags[0]", hint="i32(flags[0])")


def test_number_for_bool() -> None:
    @kernel(grid=1)
    def wrong(flags: SliceMut[bool], n: i32) -> None:
        flags[0] = n

    refused(wrong, "i32", "bool", at="n", hint="bool(n)")


def test_invert() -> None:
    @kernel(grid=1)
    def wrong(flags: SliceMut[bool]) -> None:
        flags[0] = ~flags[1]

    refused(wrong, "`~` of a bool", at="~flags[1]", hint="not")
