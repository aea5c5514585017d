"""Products of small matrices that there are not: the place, the reason, the way out; and warps that are not whole."""

from typing import Any

import pytest
from refusal import refused

from kdsl import (
    KernelError,
    Slice,
    SliceMut,
    bf16,
    f16,
    f32,
    f64,
    i8,
    i32,
    kernel,
    lane_index,
    ldmatrix,
    mma,
    shared_array,
    stmatrix,
    thread_idx,
    to_tf32,
    u8,
    u32,
    warp_index,
)

ZERO = (0.0, 0.0, 0.0, 0.0)


def test_types_and_shapes_that_there_are() -> None:
    @kernel(grid=1, block=32)
    def of_f32(y: SliceMut[f32]) -> None:
        y[0] = mma((1, 2), (3,), ZERO, "m16n8k8", f32)[0]

    refused(of_f32, "one of f16, bf16, f64, i8, u8", '"tf32"', "this is the type f32", at="f32", hint='"tf32"')

    @kernel(grid=1, block=32)
    def of_i32(y: SliceMut[f32]) -> None:
        y[0] = mma((1, 2), (3,), ZERO, "m16n8k8", i32)[0]

    refused(of_i32, "this is the type i32", at="i32", hint="a pair")

    @kernel(grid=1, block=32)
    def of_two_types(y: SliceMut[f32]) -> None:
        y[0] = mma((1, 2), (3,), ZERO, "m16n8k8", (f16, bf16))[0]

    refused(of_two_types, "does not multiply f16 by bf16", at="(f16, bf16)", hint="both are of one type")

    @kernel(grid=1, block=32)
    def of_another_shape(y: SliceMut[f32]) -> None:
        y[0] = mma((1, 2), (3,), ZERO, "m16n16k16", bf16)[0]

    refused(of_another_shape, '"m16n8k8", "m16n8k16"', 'this is "m16n16k16"', at='"m16n16k16"', hint='shape="m16n8k8"')

    @kernel(grid=1, block=32)
    def of_no_shape(y: SliceMut[f32]) -> None:
        y[0] = mma((1, 2), (3,), ZERO, 16, bf16)[0]

    refused(of_no_shape, "this is the literal 16", at="16", hint="such as")


def test_registers_that_a_form_has() -> None:
    @kernel(grid=1, block=32)
    def too_few(y: SliceMut[f32]) -> None:
        y[0] = mma((1, 2), (3, 4), ZERO, "m16n8k16", bf16)[0]

    refused(too_few, "`a` of mma() m16n8k16 of bf16 is 4 registers (u32) per lane; this is 2", at="(1, 2)", hint="tensor-cores.md")

    @kernel(grid=1, block=32)
    def not_a_tuple(y: SliceMut[f32]) -> None:
        y[0] = mma((1, 2), 3, ZERO, "m16n8k8", bf16)[0]

    refused(not_a_tuple, "`b` of mma() is a tuple of registers, not the literal 3", at="3", hint="ldmatrix")

    @kernel(grid=1, block=32)
    def of_another_type(y: SliceMut[f32], x: Slice[f32]) -> None:
        y[0] = mma((x[0], x[1]), (3,), ZERO, "m16n8k8", bf16)[0]

    refused(of_another_type, "an f32 does not become a u32", at="(x[0], x[1])", hint="u32")

    @kernel(grid=1, block=32)
    def sums_of_another_type(y: SliceMut[i32]) -> None:
        y[0] = mma((1, 2), (3,), (u32(0), u32(0), u32(0), u32(0)), "m16n8k16", (i8, u8))[0]

    refused(sums_of_another_type, "`c` of mma() m16n8k16 of s8", at="(u32(0), u32(0), u32(0), u32(0))", hint="i32")

    @kernel(grid=1, block=32)
    def clamped_floats(y: SliceMut[f32]) -> None:
        y[0] = mma((1, 2), (3,), ZERO, "m16n8k8", bf16, saturate=True)[0]

    refused(clamped_floats, "saturates sums of integers only, not of f32", at="True", hint="leave")

    @kernel(grid=1, block=32)
    def doubles(y: SliceMut[f64], x: Slice[f32]) -> None:
        y[0] = to_tf32(f64(x[0]))

    refused(doubles, "an f64 does not become an f32", at="f64(x[0])", hint="f32(")


def test_matrices_in_shared_arrays() -> None:
    @kernel(grid=1, block=32)
    def of_a_view(y: SliceMut[u32], x: Slice[bf16]) -> None:
        y[0] = ldmatrix(x, lane_index() * 8)[0]

    refused(of_a_view, "ldmatrix() is on a shared array, not on Slice[bf16]", at="x", hint="ldmatrix(array, index")

    @kernel(grid=1, block=32)
    def of_doubles(y: SliceMut[u32]) -> None:
        s = shared_array((32, 2), f64)
        y[0] = ldmatrix(s, (lane_index(), 0))[0]

    refused(of_doubles, "which hold no f64", at="s", hint="1, 2 or 4 bytes")

    @kernel(grid=1, block=32)
    def three(y: SliceMut[u32]) -> None:
        s = shared_array((32, 8), bf16)
        y[0] = ldmatrix(s, (lane_index(), 0), 3)[0]

    refused(three, "the count of ldmatrix() is 1, 2 or 4", "this is 3", at="3", hint="apart")

    @kernel(grid=1, block=32)
    def bytes_transposed(y: SliceMut[u32]) -> None:
        s = shared_array((32, 16), u8)
        y[0] = ldmatrix(s, (lane_index(), 0), transpose=True)[0]

    refused(bytes_transposed, "transposes elements of 16 bits only, and `s` has u8", at="True", hint="transposed")

    @kernel(grid=1, block=32)
    def at_run_time(y: SliceMut[u32], n: i32) -> None:
        s = shared_array((32, 8), bf16)
        y[0] = ldmatrix(s, (lane_index(), 0), 4, n > 0)[0]

    refused(at_run_time, "`transpose` of ldmatrix() is True or False, known to the compiler", at="n > 0", hint="transpose=True")

    @kernel(grid=1, block=32)
    def three_registers(y: SliceMut[u32]) -> None:
        s = shared_array((32, 8), bf16)
        stmatrix(s, (lane_index(), 0), (1, 2, 3))

    refused(three_registers, "1, 2 or 4 in a tuple", "these are 3", at="(1, 2, 3)", hint="apart")

    @kernel(grid=1, block=32)
    def odd_rows(y: SliceMut[u32]) -> None:
        s = shared_array((32, 12), bf16)
        y[0] = ldmatrix(s, (lane_index(), 0))[0]

    refused(odd_rows, "rows have 24 bytes", at="(lane_index(), 0)", hint="a multiple of 8")


def test_warps_are_whole() -> None:
    @kernel(grid=1, block=48)
    def partial(y: SliceMut[f32]) -> None:
        y[0] = mma((1, 2), (3,), ZERO, "m16n8k8", bf16)[0]

    refused(partial, "done by whole warps", "48 threads", at='mma((1, 2), (3,), ZERO, "m16n8k8", bf16)', hint="a multiple of 32 threads")

    @kernel(grid=1, block=64)
    def returned(y: SliceMut[f32], n: i32) -> None:
        if thread_idx.x >= n:
            return
        y[0] = mma((1, 2), (3,), ZERO, "m16n8k8", bf16)[0]

    refused(returned, "of which lanes may have returned", at='mma((1, 2), (3,), ZERO, "m16n8k8", bf16)', hint="zeros", also="return")

    @kernel(grid=1, block=64)
    def apart(y: SliceMut[f32]) -> None:
        s = shared_array((32, 8), bf16)
        if lane_index() < 16:
            y[0] = f32(ldmatrix(s, (lane_index(), 0))[0])

    refused(
        apart, "not all lanes of the warp reach ldmatrix() together", at="ldmatrix(s, (lane_index(), 0))", hint="same for the whole warp"
    )

    @kernel(grid=1, block=64)
    def whole(y: SliceMut[f32], n: i32) -> None:
        if warp_index() >= n:
            return
        y[0] = mma((1, 2), (3,), ZERO, "m16n8k8", bf16)[0]

    assert whole.ir()


def test_a_form_is_refused_below_its_own_floor() -> None:
    def of(shape: str, kind: Any, a: tuple[float, ...], b: tuple[float, ...]) -> Any:
        @kernel(grid=1, block=32)
        def tested(y: SliceMut[f32]) -> None:
            y[0] = f32(mma(a, b, ZERO, shape, kind)[0])

        return tested

    double = of("m16n8k4", f64, (1.0, 2.0), (3.0,))
    with pytest.raises(KernelError, match=r"mma\(\) m16n8k4.f64 cannot be compiled for sm_89 .* it needs compute capability 9.0"):
        double.ptx("sm_89")
    assert ".version 7.8" in double.ptx("sm_90")
    eights = of("m16n8k32", "e4m3", (1, 2, 3, 4), (5, 6))
    with pytest.raises(KernelError, match=r"mma\(\) m16n8k32.e4m3 cannot be compiled for sm_87 .* it needs compute capability 8.9"):
        eights.ptx("sm_87")
    assert ".version 8.4" in eights.ptx("sm_90")
    assert ".version 7.0" in of("m16n8k16", bf16, (1, 2, 3, 4), (5, 6)).ptx("sm_80")
