"""Attributes that do not exist, and fields that cannot change."""

from refusal import refused

from kdsl import SliceMut, f32, kernel, struct, thread_idx, tile_index


@struct
class Scale:
    """A factor."""

    factor: f32
    """The factor."""


def test_field() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], p: Scale) -> None:
        y[0] = p.size

    refused(wrong, "Scale", "`size`", at="p.size", hint="factor")


def test_array() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = y.size

    refused(wrong, "`size`", at="y.size", hint=".dtype")


def test_axis() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[thread_idx.w] = 0.0

    refused(wrong, "thread_idx", "`w`", at="thread_idx.w", hint="thread_idx.x")


def test_assignment_to_a_field() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], p: Scale) -> None:
        p.factor = 2.0
        y[0] = p.factor

    refused(wrong, "field", at="p.factor", hint="read only")


def test_tile_without_tiles() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        y[tile_index().row] = 0.0

    refused(wrong, "grid of tiles", at="tile_index()", hint="tiles(")
