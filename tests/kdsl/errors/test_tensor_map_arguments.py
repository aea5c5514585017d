"""Copies by tensor maps that cannot be: boxes, places, element types; each with its place and the way out."""

import pytest
from refusal import refused

import kdsl
from kdsl import (
    D2,
    D3,
    Slice,
    SliceMut,
    TensorMap,
    bf16,
    bulk_load,
    f32,
    f64,
    function,
    i32,
    kernel,
    local_array,
    shared_array,
    shared_barriers,
    tma_load,
    tma_reduce,
    tma_store,
    u8,
)


def test_what_is_no_tensor_map() -> None:
    @kernel(grid=1, block=32)
    def view(a: SliceMut[f32, D2]) -> None:
        tma_load(shared_array((8, 32), f32), (), a, (0, 0), shared_barriers(1), 0)

    refused(view, "takes a tensor map, not SliceMut[f32, D2]", at="a", hint="TensorMap[f32, D2]")

    @kernel(grid=1, block=32)
    def element(a: TensorMap[f32, D2], y: SliceMut[f32]) -> None:
        y[0] = a[0, 0]

    refused(element, "TensorMap[f32, D2] has no elements", at="a", hint="copy a box of it to a shared array with tma_load()")

    @kernel(grid=1, block=32)
    def attribute(a: TensorMap[f32, D2], y: SliceMut[f32]) -> None:
        y[0] = f32(a.strides[0])

    refused(attribute, "a tensor map has no `strides`", at="a.strides", hint=".shape")

    @function
    def load(a: TensorMap[f32, D3]) -> None:
        return

    @kernel(grid=1, block=32)
    def passed_on(a: TensorMap[f32, D2]) -> None:
        load(a)

    refused(passed_on, "`a` of load is TensorMap[f32, D3], not TensorMap[f32, D2]", at="a", hint="annotate")

    def bare() -> None:
        @kernel(grid=1, block=32)
        def wrong(a: TensorMap) -> None:  # type: ignore[type-arg]
            return

    refused(bare, "a kernel cannot take a TensorMap", at="a: TensorMap", hint="TensorMap[f32]")


def test_boxes() -> None:
    @kernel(grid=1, block=32)
    def local(a: TensorMap[f32, D2]) -> None:
        tma_load(local_array((8, 32), f32), (), a, (0, 0), shared_barriers(1), 0)

    refused(local, "takes a shared array here, not a local array of f32", at="local_array((8, 32), f32)", hint="shared_array")

    @kernel(grid=1, block=32)
    def types(a: TensorMap[f32, D2]) -> None:
        tma_load(shared_array((8, 32), bf16), (), a, (0, 0), shared_barriers(1), 0)

    refused(types, "holds bf16, `a` f32", at="shared_array((8, 32), bf16)", hint="one element type")

    @kernel(grid=1, block=32)
    def rank(a: TensorMap[f32, D2]) -> None:
        s = shared_array((2, 2, 8, 32), f32)
        tma_load(s, 0, a, (0, 0), shared_barriers(1), 0)

    refused(rank, "the part of `s` has 3 dimensions, `a` has 2", at="s", hint="leading indices")

    @kernel(grid=1, block=32)
    def nothing(a: TensorMap[f32, D2]) -> None:
        s = shared_array((8, 32), f32)
        tma_load(s, (0, 0), a, (0, 0), shared_barriers(1), 0)

    refused(nothing, "2 indices leave nothing of `s`", at="(0, 0)", hint="() for the whole array")

    @kernel(grid=1, block=32)
    def large(a: TensorMap[u8, D2]) -> None:
        tma_load(shared_array((8, 272), u8), (), a, (0, 0), shared_barriers(1), 0)

    refused(large, "a box of 8 x 272 elements", at="shared_array((8, 272), u8)", hint="at most 256")

    @kernel(grid=1, block=32)
    def row(a: TensorMap[f32, D2]) -> None:
        tma_load(shared_array((8, 30), f32), (), a, (0, 0), shared_barriers(1), 0)

    refused(row, "rows of 120 bytes", at="shared_array((8, 30), f32)", hint="multiple of 16 bytes")

    @kernel(grid=1, block=32)
    def stages(a: TensorMap[f32, D2]) -> None:
        s = shared_array((2, 3, 20), f32)
        tma_load(s, 0, a, (0, 0), shared_barriers(1), 0)

    refused(stages, "the parts of `s` take 240 bytes", at="s", hint="a multiple of 128 bytes")

    @kernel(grid=1, block=32)
    def swizzled_stages(a: TensorMap[f32, D2]) -> None:
        s = shared_array((2, 4, 32), f32, swizzle=128)
        tma_load(s, 0, a, (0, 0), shared_barriers(1), 0)

    refused(swizzled_stages, "the parts of `s` take 512 bytes", at="s", hint="a multiple of 1024 bytes")

    @kernel(grid=1, block=32)
    def two(a: TensorMap[f32, D2]) -> None:
        tma_load(shared_array((8, 32), f32), (), a, (0, 0), shared_barriers(1), 0)
        tma_store(a, (0, 0), shared_array((8, 32), f32, swizzle=128), ())

    refused(
        two,
        "boxes of 8 x 32 elsewhere, and of 8 x 32 with swizzle 128 here",
        at="shared_array((8, 32), f32, swizzle=128)",
        hint="another parameter",
    )


def test_places() -> None:
    @kernel(grid=1, block=32)
    def coordinates(a: TensorMap[f32, D2]) -> None:
        tma_load(shared_array((8, 32), f32), (), a, 0, shared_barriers(1), 0)

    refused(coordinates, "has 2 dimensions, and 1 coordinates", at="0", hint="write (i, j)")

    @kernel(grid=1, block=32)
    def floating(a: TensorMap[f32, D2]) -> None:
        tma_load(shared_array((8, 32), f32), (), a, (0.5, 0), shared_barriers(1), 0)

    refused(floating, "a coordinate of tma_load() must be an integer", at="0.5", hint="i64(0.5)")

    @kernel(grid=1, block=32)
    def stage(a: TensorMap[f32, D2]) -> None:
        tma_load(shared_array((2, 8, 32), f32), 2, a, (0, 0), shared_barriers(1), 0)

    refused(stage, "index 2 is outside", at="2", hint="indices are 0 to 1")

    @kernel(grid=1, block=32)
    def cache(a: TensorMap[f32, D2]) -> None:
        tma_load(shared_array((8, 32), f32), (), a, (0, 0), shared_barriers(1), 0, evict="never")

    refused(cache, "`evict` of tma_load() is one of", "'never'", at='"never"', hint='"last"')


def test_reductions() -> None:
    @kernel(grid=1, block=32)
    def wide(a: TensorMap[f64, D2]) -> None:
        tma_reduce(a, (0, 0), shared_array((8, 16), f64), ())

    refused(wide, 'op="add" of f64', at="tma_reduce(a, (0, 0), shared_array((8, 16), f64), ())", hint="i32, u32, u64, f16, bf16, f32")

    @kernel(grid=1, block=32)
    def unknown(a: TensorMap[f32, D2]) -> None:
        tma_reduce(a, (0, 0), shared_array((8, 32), f32), (), op="mul")

    refused(unknown, "`op` of tma_reduce() is one of", at='"mul"', hint="such as")


def test_an_array_that_came_as_a_slice_is_not_written() -> None:
    @function
    def load(s: Slice[f32], a: TensorMap[f32]) -> None:
        tma_load(s, (), a, 0, shared_barriers(1), 0)

    @kernel(grid=1, block=32)
    def wrong(a: TensorMap[f32]) -> None:
        load(shared_array(64, f32), a)

    refused(wrong, "which came here as a Slice and is only read", at="s", hint="SliceMut[f32]")


def test_runs_of_elements() -> None:
    @kernel(grid=1, block=32)
    def several(x: Slice[f32, D2]) -> None:
        bulk_load(shared_array(64, f32), 0, x, 0, 64, shared_barriers(1), 0)

    refused(several, "takes a view of one dimension here, not Slice[f32, D2]", at="x", hint="SliceMut parameter")

    @kernel(grid=1, block=32)
    def types(x: Slice[i32]) -> None:
        bulk_load(shared_array(64, f32), 0, x, 0, 64, shared_barriers(1), 0)

    refused(types, "holds f32, `x` i32", at="shared_array(64, f32)", hint="one element type")

    @kernel(grid=1, block=32)
    def swizzled(x: Slice[f32]) -> None:
        s = shared_array((8, 32), f32, swizzle=128)
        bulk_load(s, (0, 0), x, 0, 64, shared_barriers(1), 0)

    refused(swizzled, "the rows of `s` are swizzled", at="s", hint="tensor map")

    @kernel(grid=1, block=32)
    def part(x: Slice[f32]) -> None:
        s = shared_array((8, 32), f32)
        bulk_load(s, 0, x, 0, 64, shared_barriers(1), 0)

    refused(part, "begins at an element of `s`, which has 2 dimensions", at="0", hint="one index per dimension")


def test_a_kernel_with_a_tensor_map_is_for_gpus() -> None:
    @kernel(grid=1, block=32)
    def unused(a: TensorMap[f32, D2], y: SliceMut[f32]) -> None:
        y[0] = f32(a.shape[0])

    assert unused.compile("sm_80").code
    with pytest.raises(kdsl.KernelError, match="parameter `a` is a tensor map, which only a GPU has") as caught:
        unused.compile("cpu")
    assert "SliceMut[f32, D2]" in caught.value.hint
