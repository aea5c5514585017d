"""Inline PTX: its results on every GPU, and on the CPU what stands for it there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from written import numbers, poison

import kdsl
from kdsl import (
    DisjointSlice,
    Slice,
    SliceMut,
    elements,
    f16,
    f32,
    f64,
    function,
    inline_ptx,
    kernel,
    shared_address,
    shared_array,
    sync_threads,
    thread_index,
    u32,
    u64,
)
from kdsl.backend.nvptx import compile_ptx
from kdsl.testing import devices
from kdsl.testing.ptx import assemble

every_device = pytest.mark.parametrize("device", devices(), ids=str)
every_gpu = pytest.mark.parametrize("device", [d for d in devices() if d.target != "cpu"], ids=str)
SIZES = (1, 31, 33, 153)


@function
def majority_on_cpu(a: u32, b: u32, c: u32) -> u32:
    return (a & b) | (b & c) | (a & c)


@function
def wide_on_cpu(a: u32, b: u32) -> tuple[u32, u32]:
    product = u64(a) * u64(b)
    return u32(product), u32(product >> 32)


@kernel(grid=elements("y"))
def majority(y: DisjointSlice[u32], a: Slice[u32], b: Slice[u32]) -> None:
    i = thread_index()
    if i in y:
        y[i] = inline_ptx(
            "lop3.b32 {0}, {1}, {2}, {3}, 0xe8;", u32, (a[i], b[i], u32(0x0F0F0F0F)), volatile=False, memory=False, cpu=majority_on_cpu
        )


@kernel(grid=elements("low"))
def wide(low: DisjointSlice[u32], high: DisjointSlice[u32], a: Slice[u32], b: Slice[u32]) -> None:
    i = thread_index()
    if i in low:
        low[i], high[i] = inline_ptx(
            """{
                .reg .u64 product;  // wide enough
                mul.wide.u32 product, {2}, {3};
                mov.b64 {{0}, {1}}, product;
            }""",
            (u32, u32),
            (a[i], b[i]),
            cpu=wide_on_cpu,
        )


@every_device
@pytest.mark.parametrize("size", SIZES)
def test_one_and_two_results(device: Any, size: int) -> None:
    a, b = numbers(size, kdsl.u32, 1), numbers(size, kdsl.u32, 2)
    y = device.array(poison(size, kdsl.u32))
    majority(y, device.array(a), device.array(b))
    c = np.uint32(0x0F0F0F0F)
    np.testing.assert_array_equal(y.numpy(), (a & b) | (b & c) | (a & c))
    low, high = (device.array(poison(size, kdsl.u32)) for _ in range(2))
    wide(low, high, device.array(a), device.array(b))
    product = a.astype(np.uint64) * b.astype(np.uint64)
    np.testing.assert_array_equal(low.numpy(), product.astype(np.uint32))
    np.testing.assert_array_equal(high.numpy(), (product >> np.uint64(32)).astype(np.uint32))


@function
def stored_on_cpu(x: u32) -> None:
    return


@kernel(grid=elements("y"))
def kinds(y: DisjointSlice[f64], h: Slice[f16]) -> None:
    i = thread_index()
    if i in y:
        half = inline_ptx("neg.f16 {0}, {1};", f16, (h[i],), cpu=negated)
        single = inline_ptx("{ .reg .b32 t; mov.b32 t, {1}; mov.b32 {0}, t; }", f32, (f32(half),), cpu=same)
        y[i] = inline_ptx("add.f64 {0}, {1}, {2};", f64, (f64(single), 0.5 * f64(1)), cpu=added)


@function
def negated(x: f16) -> f16:
    return -x


@function
def same(x: f32) -> f32:
    return x


@function
def added(x: f64, y: f64) -> f64:
    return x + y


@every_device
def test_operands_of_every_kind_of_register(device: Any) -> None:
    h = np.arange(-20, 20).astype(np.float16) / np.float16(4)
    y = device.array(poison(40, kdsl.f64))
    kinds(y, device.array(h))
    np.testing.assert_array_equal(y.numpy(), 0.5 - h.astype(np.float64))


@kernel(grid=1, block=64)
def reversed_through_addresses(x: Slice[f32], y: SliceMut[f32]) -> None:
    s = shared_array((2, 32), f32)
    t = thread_index()
    inline_ptx("st.shared.f32 [{0}], {1};", None, (shared_address(s, (t // 32, t % 32)), x[t]))
    sync_threads()
    y[t] = s[1 - t // 32, 31 - t % 32]


@every_gpu
def test_memory_by_address(device: Any) -> None:
    x = np.arange(64, dtype=np.float32)
    y = device.array(poison(64, kdsl.f32))
    reversed_through_addresses(device.array(x), y)
    np.testing.assert_array_equal(y.numpy(), x[::-1])


def test_the_text_is_kept_and_assembles() -> None:
    for kernel_ in (majority, wide, kinds, reversed_through_addresses):
        for optimise in (0, 3):
            ptx = compile_ptx(kernel_.ir(), "sm_80", optimise=optimise)
            assemble(ptx, "sm_80")
    text = majority.ptx("sm_80")
    assert text.count("lop3.b32") == 1
    assert "232" not in text.split("lop3.b32")[1].splitlines()[0]  # 0xe8 as it was written


def test_what_has_no_effect_and_no_use_is_left_out() -> None:
    @kernel(grid=1, block=32)
    def unused(y: SliceMut[u32]) -> None:
        z = inline_ptx("lop3.b32 {0}, {1}, {1}, {1}, 0xe8;", u32, (y[0],), volatile=False, memory=False)
        inline_ptx("mov.b32 {0}, %clock;", u32, ())
        y[1] = u32(0) * z

    text = unused.ptx("sm_80")
    assert "lop3" not in text
    assert "%clock" in text


def test_floors_that_the_call_names() -> None:
    @kernel(grid=1, block=32)
    def late(y: SliceMut[u32]) -> None:
        y[0] = inline_ptx("mov.u32 {0}, %cluster_ctarank;", u32, (), target="sm_90", ptx="8.1")

    assert ".version 8.1" in late.ptx("sm_90")
    with pytest.raises(kdsl.KernelError, match=r"inline_ptx\(\) cannot be compiled for sm_80 .*needs compute capability 9.0"):
        late.ptx("sm_80")

    @kernel(grid=1, block=32)
    def specific(y: SliceMut[u32]) -> None:
        inline_ptx("setmaxnreg.inc.sync.aligned.u32 232;", None, (), target="sm_90a", together="warp")

    with pytest.raises(kdsl.KernelError, match="only sm_90a has it"):
        specific.ptx("sm_90")


def test_without_a_cpu_meaning_it_is_gpu_only() -> None:
    @kernel(grid=1, block=32)
    def gpu_only(y: SliceMut[u32]) -> None:
        inline_ptx("membar.gl;", None, ())

    with pytest.raises(kdsl.KernelError, match=r"inline_ptx\(\) is GPU only"):
        gpu_only.compile("cpu")
