"""What ptxas refuses or only notes, and spills where they are forbidden, as errors of the kernel with a place and a hint."""

from __future__ import annotations

import pytest
from refusal import marked

import kdsl
from kdsl import (
    Slice,
    SliceMut,
    bf16,
    f32,
    inline_ptx,
    kernel,
    local_array,
    shared_array,
    sync_threads,
    thread_index,
    u32,
    unroll,
    wgmma,
    wgmma_fence,
)
from kdsl.backend.nvptx import assembled, compile_ptx
from kdsl.backend.nvptx.ptxas import assemble, spills_of


def test_an_instruction_that_does_not_exist() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: SliceMut[u32]) -> None:
        y[0] = inline_ptx("frobnicate.b32 {0}, {1};", u32, (y[0],))

    assert wrong.ir()
    with pytest.raises(kdsl.KernelError, match=r"ptxas on kernel wrong for sm_90: .*frobnicate") as caught:
        wrong.ptx()
    assert marked(caught.value.location) == "i"
    assert "inline_ptx" in str(caught.value)
    assert "see the PTX ISA" in caught.value.hint


def test_a_note_that_products_were_serialised() -> None:
    @kernel(grid=1, block=128)
    def hasty(y: SliceMut[f32]) -> None:
        tile = shared_array((64, 64), bf16, swizzle=128)
        sums = local_array(4, f32)
        wgmma_fence()
        wgmma(sums, tile, (0, 0), tile, (0, 0))
        for i in unroll(4):
            y[4 * thread_index() + i] = sums[i]

    with pytest.raises(kdsl.KernelError, match=r"ptxas on kernel hasty for sm_90a: .*\(C7517\)") as caught:
        hasty.ptx("sm_90a")
    assert "wgmma_wait(0)" in caught.value.hint


@kernel(grid=1, block=128, spills=False)
def crowded(x: Slice[f32], y: SliceMut[f32]) -> None:
    values = local_array(256, f32)
    t = thread_index()
    for i in unroll(256):
        values[i] = x[t + 128 * i]
    sync_threads()
    for i in unroll(256):
        y[t * 256 + i] = values[i * 37 % 256] * values[i] + values[255 - i]


def test_spills_that_the_kernel_forbids() -> None:
    with pytest.raises(kdsl.KernelError, match=r"kernel crowded spills \d+ bytes of registers for sm_80 .* and forbids it") as caught:
        crowded.ptx("sm_80")
    assert marked(caught.value.location) == "crowded"
    assert "smaller tiles" in caught.value.hint


def test_spills_are_those_of_the_kernel() -> None:
    report = assemble(compile_ptx(crowded.ir(), "sm_80"), "sm_80")
    by_function = spills_of(report.log)
    assert set(by_function) == {"crowded"}
    assert report.spills == by_function["crowded"] > 0


def test_without_an_assembler_nobody_complains(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise FileNotFoundError

    monkeypatch.setattr(assembled, "find_ptxas", absent)
    assert "crowded" in crowded.ptx("sm_80")


def test_a_kernel_that_asks_for_nothing_is_not_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    def used(*_: object) -> None:
        raise AssertionError("it was assembled")

    monkeypatch.setattr(assembled, "check", used)

    @kernel(grid=1, block=32)
    def plain(y: SliceMut[f32]) -> None:
        y[0] = 1.0

    assert plain.ptx()


def test_a_target_that_lacks_products() -> None:
    @kernel(grid=1, block=128)
    def fenced(y: SliceMut[f32]) -> None:
        wgmma_fence()

    with pytest.raises(kdsl.KernelError, match=r"wgmma_fence\(\) cannot be compiled for sm_90 .*only sm_90a has it"):
        fenced.ptx("sm_90")
