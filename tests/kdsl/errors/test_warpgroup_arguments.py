"""Matrix products of a warpgroup that the hardware does not have, or that not all of its warps reach."""

from refusal import refused

import kdsl
from kdsl import (
    SliceMut,
    bf16,
    f16,
    f32,
    f64,
    function,
    i8,
    i32,
    kernel,
    local_array,
    shared_array,
    thread_idx,
    u8,
    u32,
    warp_group_index,
    warp_index,
    wgmma,
    wgmma_commit,
    wgmma_fence,
    wgmma_wait,
)


def test_blocks_of_whole_warpgroups() -> None:
    @kernel(grid=1, block=192)
    def wrong(y: SliceMut[f32]) -> None:
        wgmma_fence()

    refused(wrong, "warpgroups of 128 threads, and the block has 192", at="wgmma_fence()", hint="multiple of 128")


def test_all_warps_of_the_group_reach_it() -> None:
    @kernel(grid=1, block=256)
    def right(y: SliceMut[f32], n: i32) -> None:
        if warp_group_index() == 1 and n > 2:
            for _ in range(n):
                wgmma_fence()

    assert right.ir()

    @kernel(grid=1, block=256)
    def by_warp(y: SliceMut[f32]) -> None:
        if warp_index() < 4:
            wgmma_fence()

    refused(
        by_warp,
        "not all warps of the warpgroup reach wgmma_fence() together",
        at="wgmma_fence()",
        hint="warp_group_index()",
        also="warp_index() < 4",
    )

    @kernel(grid=1, block=256)
    def by_thread(y: SliceMut[f32]) -> None:
        for _ in range(thread_idx.x):
            wgmma_wait(0)

    refused(by_thread, "not all warps of the warpgroup", at="wgmma_wait(0)", hint="warp_group_index()", also="range(thread_idx.x)")


def test_accumulators() -> None:
    @function
    def multiply(c: SliceMut[f32]) -> None:
        s = shared_array((64, 64), bf16, swizzle=128)
        wgmma(c, s, (0, 0), s, (0, 0))

    @kernel(grid=1, block=128)
    def shared(y: SliceMut[f32]) -> None:
        multiply(shared_array(32, f32))

    refused(shared, "are a local array of f32 of one dimension, not a shared array of f32", at="c", hint="local_array(N // 2, f32)")

    @kernel(grid=1, block=128)
    def count(y: SliceMut[f32]) -> None:
        multiply(local_array(6, f32))

    refused(count, "6 accumulators per thread are a product of 12 columns", at="c", hint="multiple of 8 of at most 256")

    @kernel(grid=1, block=128)
    def too_many(y: SliceMut[f32]) -> None:
        multiply(local_array(132, f32))

    refused(too_many, "264 columns", at="c", hint="at most 256")

    @kernel(grid=1, block=128)
    def indexed(y: SliceMut[f32], n: i32) -> None:
        c = local_array(32, f32)
        multiply(c)
        y[0] = c[n]

    refused(indexed, "`c` does not lie in registers", at="c", hint="unroll()")

    @kernel(grid=1, block=128)
    def integers(y: SliceMut[f32]) -> None:
        s = shared_array((64, 128), i8, swizzle=128)
        wgmma(local_array(20, i32), s, (0, 0), s, (0, 0))

    refused(integers, "40 columns", at="local_array(20, i32)", hint="multiple of 16")

    @kernel(grid=1, block=128)
    def pairs(y: SliceMut[f32]) -> None:
        s = shared_array((64, 64), f16, swizzle=128)
        wgmma(local_array(3, u32), s, (0, 0), s, (0, 0))

    refused(pairs, "3 accumulators per thread are a product of 12 columns", at="local_array(3, u32)", hint="N // 4 accumulators")

    @kernel(grid=1, block=128)
    def pairs_of_bf16(y: SliceMut[f32]) -> None:
        s = shared_array((64, 64), bf16, swizzle=128)
        wgmma(local_array(2, u32), s, (0, 0), s, (0, 0))

    refused(
        pairs_of_bf16,
        "are a local array of f32 of one dimension, not a local array of u32",
        at="local_array(2, u32)",
        hint="local_array(N // 2, f32)",
    )


def test_operands() -> None:
    @kernel(grid=1, block=128)
    def element(y: SliceMut[f32]) -> None:
        s = shared_array((64, 16), f64, swizzle=128)
        wgmma(local_array(32, f32), s, (0, 0), s, (0, 0))

    refused(element, "wgmma() of f64", at="s", hint="bf16, f16, f32, i8, u8")

    @kernel(grid=1, block=128)
    def both(y: SliceMut[f32]) -> None:
        a, b = shared_array((64, 64), bf16, swizzle=128), shared_array((64, 32), f32, swizzle=128)
        wgmma(local_array(32, f32), a, (0, 0), b, (0, 0))

    refused(both, "wgmma() of bf16 and f32", at="a", hint="one element type")

    @kernel(grid=1, block=128)
    def width(y: SliceMut[f32]) -> None:
        s = shared_array((64, 32), bf16)
        wgmma(local_array(32, f32), s, (0, 0), s, (0, 0))

    refused(width, "the last extent of `s` is 32", at="s", hint="8 elements of bf16")

    @kernel(grid=1, block=128)
    def rows(y: SliceMut[f32]) -> None:
        a, b = shared_array((32, 64), bf16, swizzle=128), shared_array((64, 64), bf16, swizzle=128)
        wgmma(local_array(32, f32), a, (0, 0), b, (0, 0))

    refused(rows, "index 0 is outside", at="0", hint="it has 32 elements there; 64 are wanted")

    @kernel(grid=1, block=128)
    def step(y: SliceMut[f32]) -> None:
        s = shared_array((72, 64), bf16, swizzle=128)
        for k in range(0, 64, 8):
            wgmma(local_array(32, f32), s, (0, k), s, (0, 0))

    refused(step, "must be a multiple of 16", at="k", hint="16 * i")

    @kernel(grid=1, block=128)
    def row(y: SliceMut[f32], n: u32) -> None:
        s = shared_array((72, 64), bf16, swizzle=128)
        wgmma(local_array(32, f32), s, (n % 8, 0), s, (0, 0))

    refused(row, "must be a multiple of 8", at="n % 8", hint="8 * i")

    @kernel(grid=1, block=128)
    def unproved(y: SliceMut[f32], n: u32) -> None:
        s = shared_array((4, 64, 64), bf16, swizzle=128)
        wgmma(local_array(32, f32), s, (n, 0, 0), s, (0, 0, 0))

    refused(unproved, "cannot see that this tile is inside `s`", at="(n, 0, 0)", hint="stage % 4, or write s.unchecked")

    @kernel(grid=1, block=128)
    def unchecked(y: SliceMut[f32], n: u32) -> None:
        s = shared_array((4, 64, 64), bf16, swizzle=128)
        wgmma(local_array(32, f32), s.unchecked, (n, 0, 0), s, (0, 0, 0))

    assert len(unchecked.ir().sites) == 0
    kdsl.checked()
    try:
        assert len(unchecked.ir().sites) == 1
    finally:
        kdsl.checked(False)

    @kernel(grid=1, block=128)
    def across(y: SliceMut[f32]) -> None:
        s = shared_array((64, 32), f32, swizzle=128)
        wgmma(local_array(32, f32), s, (0, 0), s, (0, 0), transpose_b=True)

    refused(across, "`transpose_b` of f32", at="True", hint="16 bits")

    @kernel(grid=1, block=128)
    def pieces(y: SliceMut[f32]) -> None:
        s = shared_array((64, 64), bf16, swizzle=128)
        wgmma(local_array(64, f32), s, (0, 0), s, (0, 0), transpose_b=True)

    refused(pieces, "2 pieces of 64 rows of the product", at="s", hint="add a dimension")

    @kernel(grid=1, block=128)
    def fragment(y: SliceMut[f32]) -> None:
        s = shared_array((64, 64), bf16, swizzle=128)
        wgmma(local_array(32, f32), (u32(0), u32(1)), (), s, (0, 0))

    refused(fragment, "a fragment of A has 4 registers, not 2", at="(u32(0), u32(1))", hint="ldmatrix")


def test_numbers_of_groups() -> None:
    @kernel(grid=1, block=128)
    def wrong(y: SliceMut[f32]) -> None:
        wgmma_commit()
        wgmma_wait(8)

    refused(wrong, "`pending` of wgmma_wait() is a number of 0 to 7", "8", at="8", hint="literal")


def test_what_bytes_are_multiplied_as() -> None:
    @kernel(grid=1, block=128)
    def unknown(y: SliceMut[f32]) -> None:
        s = shared_array((64, 128), u8, swizzle=128)
        wgmma(local_array(32, f32), s, (0, 0), s, (0, 0), type="e3m4")

    refused(unknown, "the type of wgmma() is one of", '"e4m3", "e5m2"', at='"e3m4"', hint="a pair")

    @kernel(grid=1, block=128)
    def pair(y: SliceMut[f32]) -> None:
        s = shared_array((64, 128), u8, swizzle=128)
        wgmma(local_array(32, f32), s, (0, 0), s, (0, 0), type=("e4m3", u8))

    refused(pair, "wgmma() does not multiply e4m3 by u8", at='("e4m3", u8)', hint="floats of 8")

    @kernel(grid=1, block=128)
    def doubles(y: SliceMut[f32]) -> None:
        s = shared_array((64, 128), u8, swizzle=128)
        wgmma(local_array(32, f32), s, (0, 0), s, (0, 0), type=f64)

    refused(doubles, "wgmma() does not multiply f64 by f64", at="f64", hint="one type")

    @kernel(grid=1, block=128)
    def halves(y: SliceMut[f32]) -> None:
        a = shared_array((64, 128), u8, swizzle=128)
        b = shared_array((64, 128), i8, swizzle=128)
        wgmma(local_array(32, f32), a, (0, 0), b, (0, 0), type="e4m3")

    refused(halves, "`b` is multiplied as e4m3, and its elements are i8", at="b", hint="a float of 8 bits is a byte")

    @kernel(grid=1, block=128)
    def integers(y: SliceMut[f32]) -> None:
        s = shared_array((64, 128), u8, swizzle=128)
        wgmma(local_array(32, i32), s, (0, 0), s, (0, 0), type="e5m2")

    refused(integers, "are a local array of f32 of one dimension, not a local array of i32", at="local_array(32, i32)", hint="f32")

    @kernel(grid=1, block=128)
    def across(y: SliceMut[f32]) -> None:
        s = shared_array((64, 128), u8, swizzle=128)
        wgmma(local_array(32, f32), s, (0, 0), s, (0, 0), type="e5m2", transpose_a=True)

    refused(across, "`transpose_a` of e5m2", at="True", hint="16 bits")

    @kernel(grid=1, block=128)
    def step(y: SliceMut[f32]) -> None:
        s = shared_array((64, 128), u8, swizzle=128)
        wgmma(local_array(32, f32), s, (0, 16), s, (0, 0), type="e4m3")

    refused(step, "must be a multiple of 32", at="16", hint="32 * i")
