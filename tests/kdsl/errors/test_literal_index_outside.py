"""Indices that are known to be outside."""

from refusal import refused

from kdsl import SliceMut, f32, i32, kernel, local_array, shared_array, unroll


def test_negative_index() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[-1] = 0.0

    refused(wrong, "-1", "`y`", "negative", at="-1", hint="y[len(y) - 1]")


def test_shared_array() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        tile = shared_array((4, 8), f32)
        y[0] = tile[3, 8]

    refused(wrong, "8", "`tile`", at="8", hint="0 to 7")


def test_unrolled_index() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        own = local_array(3, f32)
        for i in unroll(4):
            own[i] = 0.0
        y[0] = own[0]

    refused(wrong, "3", "`own`", at="i", hint="0 to 2")


def test_tuple() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        pair = (y[0], y[1])
        y[2] = pair[2]

    refused(wrong, "2", "tuple", at="2", hint="0 to 1")


def test_dimensions() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0, 1] = 0.0

    refused(wrong, "`y`", "one dimension", at="0, 1", hint="row * columns + column")
