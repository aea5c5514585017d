"""Swizzled layouts that a shared array cannot have."""

from refusal import refused

from kdsl import SliceMut, bf16, f32, i32, kernel, shared_array


def test_spans() -> None:
    @kernel(grid=1, block=32)
    def unknown(y: SliceMut[f32], n: i32) -> None:
        shared_array((8, 32), f32, swizzle=n)

    refused(unknown, "the swizzle of a shared array is 0, 32, 64, 128, and this is i32", at="n", hint="swizzle=128")

    @kernel(grid=1, block=32)
    def other(y: SliceMut[f32]) -> None:
        shared_array((8, 32), f32, swizzle=256)

    refused(other, "and this is 256", at="256", hint="swizzle=128")

    @kernel(grid=1, block=32)
    def rows(y: SliceMut[f32]) -> None:
        tile = shared_array((8, 32), bf16, swizzle=128)
        y[0] = f32(tile[0, 0])

    refused(rows, "the rows of `tile` are 64 bytes long", at="128", hint="64 elements of bf16")
