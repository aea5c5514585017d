"""What structs become: one check per element, loads of the wanted numbers only, parameters by value; PTX that every target assembles."""

from __future__ import annotations

import re
from typing import Any

import pytest
import struct_kernels as kernels
from samples import Pair, Sample, Step

from kdsl import DisjointSlice, Kernel, Slice, SliceMut, atomic_add, elements, f32, i32, kernel, local_array, shared_array, thread_index
from kdsl.backend.cpu import HostCpu, compile_object
from kdsl.backend.nvptx import compile_module
from kdsl.backend.nvptx.targets import TARGETS
from kdsl.ir import nodes
from kdsl.ir.printer import print_kernel
from kdsl.ir.verifier import verify
from kdsl.testing.ptx import assemble, filecheck

KERNELS = [value for value in vars(kernels).values() if isinstance(value, Kernel) and value is not kernels.exchanged]


def ir(of: Any) -> nodes.Kernel:
    return of.ir(**({"T": Sample} if of.declaration.type_variables else {}))  # type: ignore[no-any-return]


def ops(of: Any, kind: type[nodes.Op]) -> list[Any]:
    found = ir(of)
    verify(found)
    return [op for op in nodes.walk(found.body) if isinstance(op, kind)]


def paths(of: Any) -> list[str]:
    return [op.field.path for op in ops(of, nodes.Load)]


def test_one_field_is_one_load_with_one_check() -> None:
    @kernel(grid=elements("y"))
    def k(y: DisjointSlice[f32], x: Slice[Sample]) -> None:
        i = thread_index()
        if i in y:
            y[i] = x[i].momentum.first

    (load,) = ops(k, nodes.Load)
    assert (load.field.path, load.field.offset, load.checked) == ("momentum.first", 24, True)
    assert not ops(k, nodes.Check)


def test_a_whole_element_is_checked_once_and_only_what_is_used_is_loaded() -> None:
    @kernel(grid=elements("y"))
    def k(y: DisjointSlice[f32], x: Slice[Sample]) -> None:
        i = thread_index()
        if i in y:
            s = x[i]
            y[i] = s.value + s.history[1] + s.momentum.first

    assert len(ops(k, nodes.Check)) == 1
    assert paths(k) == ["value", "history", "momentum.first"]
    assert not any(load.checked for load in ops(k, nodes.Load))


def test_what_is_proved_has_no_check() -> None:
    @kernel(grid=elements("s"), requires=("len(x) >= len(s)",))
    def k(s: DisjointSlice[Sample], x: Slice[Sample]) -> None:
        i = thread_index()
        if i in s:
            s[i] = x[i]
            s[i].history[i % 3] = 1.0
            s.unchecked[i].value = x.unchecked[i].value

    assert not ops(k, nodes.Check)
    assert not any(op.checked for op in (*ops(k, nodes.Load), *ops(k, nodes.Store)))


def test_an_element_that_nobody_uses_is_still_checked() -> None:
    @kernel(grid=1, block=32)
    def k(y: SliceMut[f32], x: Slice[Pair]) -> None:
        unused = x[7]  # noqa: F841
        y[0] = 1.0

    assert len(ops(k, nodes.Check)) == 1
    assert not ops(k, nodes.Load)
    assert not ops(k, nodes.If)


def test_constant_indices_keep_a_local_array_in_registers() -> None:
    @kernel(grid=elements("y"))
    def k(y: DisjointSlice[f32], x: Slice[Sample]) -> None:
        i = thread_index()
        own = local_array(2, Sample)
        if i in y and i in x:
            own[0] = x[i]
            own[1].history[2] = own[0].history[1]
            y[i] = own[1].history[2] + own[0].value

    assert not ir(k).arrays
    assert paths(k) == ["value", "history"]


def test_the_text_of_the_ir_shows_the_layout() -> None:
    """Compiled code is cached by it."""
    text = print_kernel(ir(kernels.through_shared))
    assert "x: Slice[Sample]{136, 8} r" in text
    assert "shared @held.0: Sample{136, 8}[96]" in text
    assert re.search(r"store y\[%\d+\]\.matrix\(f64 at 80 \+ 24 \* i < 2 \+ 8 \* i < 3\)|\.matrix\(f64 at 80 \+ 24", text)
    assert "p.momentum.first: f32 at 24 of Sample{136, 8}" in print_kernel(ir(kernels.numbers_of))
    assert "p.pairs: Pair{8, 4}[2] at 64 of Sample{136, 8}" in print_kernel(ir(kernels.numbers_of))


def test_a_struct_is_one_parameter_by_value() -> None:
    """Numbers and arrays, indexed at run time, too, are read from the space of parameters, without a copy.

    CHECK: .visible .entry picked_taps(
    CHECK: .param .u32 picked_taps_param_4
    CHECK-NEXT: .param .align 8 .b8 picked_taps_param_5[136]
    CHECK-NEXT: .param .align 8 .b8 picked_taps_param_6[136]
    CHECK-NOT: .local
    CHECK: mov.b64 [[P:%rd[0-9]+]], picked_taps_param_5;
    CHECK: add.s64 [[AT:%rd[0-9]+]], [[P]],
    CHECK: ld.param.b32 {{%r[0-9]+}}, {{\\[}}[[AT]]+8];
    """
    filecheck(kernels.picked_taps.ptx("sm_80"), test_a_struct_is_one_parameter_by_value.__doc__ or "")


@kernel(grid=elements("y"), requires=("len(x) == len(y)",))
def one_field(y: DisjointSlice[f32], x: Slice[Step]) -> None:
    """CHECK: .entry one_field(
    CHECK: shl.b64 {{%rd[0-9]+}}, {{%rd[0-9]+}}, 3;
    CHECK: ld.global.b32 {{%r[0-9]+}}, [%rd{{[0-9]+}}];
    CHECK-NOT: ld.global
    CHECK: st.global.b32
    """
    i = thread_index()
    if i in y:
        y[i] = x[i].rate


@kernel(grid=elements("s"))
def both_fields(s: DisjointSlice[Step], x: Slice[i32]) -> None:
    """CHECK: .entry both_fields(
    CHECK: st.global.b32 [[[AT:%rd[0-9]+]]], 0
    CHECK: st.global.b32 {{\\[}}[[AT]]+4]
    """
    i = thread_index()
    if i in s and i in x:
        s[i] = Step(0.0, x[i])


@kernel(grid=elements("x"), block=64)
def counted(s: SliceMut[Step], x: Slice[i32]) -> None:
    """CHECK: .entry counted(
    CHECK: atom.relaxed.gpu.global.add.s32
    CHECK: atom.relaxed.cta.shared.add.s32
    """
    held = shared_array(4, Step)
    i = thread_index()
    if i in x:
        atomic_add(s, (x[i], "count"), 1)
        atomic_add(held, (x[i], "count"), 1, scope="block")


@pytest.mark.parametrize("of", [one_field, both_fields, counted], ids=lambda k: k.name)
def test_ptx(of: Any) -> None:
    text = of.ptx("sm_90")
    filecheck(text, of.__wrapped__.__doc__)
    assemble(text, "sm_90")


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_everything_assembles(target: str) -> None:
    ptx = compile_module([ir(of) for of in KERNELS], target)
    report = assemble(ptx, target)
    assert report.spills == 0
    for of in KERNELS:  # a copy of a parameter would show as a depot of local memory
        entry = ptx[ptx.index(f".entry {of.name}(") :]
        entry = entry[: entry.index("\n}\n")]
        if of.name not in ("through_local", "computed", "carried"):
            assert ".local" not in entry, of.name


def test_elements_of_another_block() -> None:
    ptx = kernels.exchanged.ptx("sm_90")
    assert re.search(r"ld\.shared::cluster(\.v2)?\.b32", ptx)
    assert "st.shared::cluster.b32" in ptx
    assert "atom.relaxed.gpu.shared::cluster.add.s32" in ptx
    assert assemble(ptx, "sm_90").spills == 0


@pytest.mark.parametrize("host", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_everything_compiles_for_every_kind_of_cpu(host: str) -> None:
    for of in KERNELS:
        assert compile_object(ir(of), HostCpu(host)).bytes, of.name
