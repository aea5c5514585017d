"""What the compiler makes of vectors: IR, proofs, PTX that is one access, PTX for old and new GPUs, code for every kind of processor."""

from __future__ import annotations

import re
from typing import Any

import pytest
import vector_kernels

import kdsl
from kdsl import (
    D2,
    DisjointSlice,
    Slice,
    SliceMut,
    as_vectors,
    elements,
    f32,
    f32x2,
    f32x4,
    i32,
    kernel,
    shared_array,
    sweep,
    sync_threads,
    thread_idx,
    thread_index,
)
from kdsl.backend.cpu import HostCpu
from kdsl.backend.cpu.compile import compile_assembly, compile_object
from kdsl.backend.nvptx import compile_ptx
from kdsl.cli.explain import explain
from kdsl.ir import nodes
from kdsl.ir.printer import print_kernel
from kdsl.ir.verifier import VerificationError, verify
from kdsl.lang.vectors import VECTORS
from kdsl.testing.ptx import assemble, filecheck

EVERY = pytest.mark.parametrize("of", VECTORS.values(), ids=str)
NAMES = sorted(vars(vector_kernels.of(f32x4)))  # type: ignore[arg-type]  # to a type checker it is a class


@kernel(grid=elements("y"), requires="len(x) >= len(y)")
def scaled(x: Slice[f32x4], y: DisjointSlice[f32x4], s: f32) -> None:
    i = thread_index()
    if i in y:
        y[i] = s * x[i] + 1.0


@kernel(grid=elements("y"))
def turned(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
    s = shared_array(256, f32x4)
    s[thread_idx.x] = x.unchecked[thread_index()]
    sync_threads()
    y.unchecked[thread_index() ^ 1] = s[thread_idx.x ^ 3]  # through no witness, or `x` might be `y`


def test_a_load_and_a_store_are_one_access_of_128_bits() -> None:
    filecheck(
        scaled.ptx("sm_80"),
        """
        CHECK: .param .u64 .ptr .global .align 16 scaled_param_0,
        CHECK: ld.global.v4.b32 {[[A:%r[0-9]+]], [[B:%r[0-9]+]], [[C:%r[0-9]+]], [[D:%r[0-9]+]]}
        CHECK-COUNT-4: fma.rn.f32
        CHECK-NOT: fma
        CHECK: st.global.v4.b32
        CHECK-NOT: call
        CHECK: ret
        """,
    )


def test_what_nothing_writes_goes_through_the_read_only_path() -> None:
    filecheck(
        turned.ptx("sm_90"),
        """
        CHECK: ld.global.nc.v4.b32
        CHECK: st.shared.v4.b32
        CHECK: bar.sync
        CHECK: ld.shared.v4.b32
        CHECK: st.global.v4.b32
        """,
    )


def test_a_check_is_one_for_the_whole_vector() -> None:
    ptx = vector_kernels.of(f32x4).checked_copy.ptx("sm_90")
    first, second = ptx[ptx.index(".visible .entry") :].split("// second run")
    assert len(re.findall(r"setp\.", first)) == 1, "of the shorter of the two"
    assert (first.count("// kdsl_record_failure"), second.count("// kdsl_record_failure")) == (0, 2)
    for run in (first, second):
        assert len(re.findall(r"ld\.global\S*v4", run)) == len(re.findall(r"st\.global\S*v4", run)) == 1


_WORDS = {16: r"\.v4\.b32|\.v2\.b64", 8: r"\.v2\.b32|\.v4\.b16|\.b64", 4: r"\.b32|\.v2\.b16", 2: r"\.v2\.b8|\.b16"}


@EVERY
def test_accesses_of_every_type_are_one_instruction(of: Any) -> None:
    for name, space in (("copy", "global"), ("through_shared", "shared"), ("through_local", "local")):
        kernels = vector_kernels.of(of)
        ptx = compile_ptx(getattr(kernels, name).ir(), "sm_90a")
        found = re.findall(rf"(ld|st)\.{space}(?:\.nc)?(\.\S+)", ptx)
        if space == "global":  # the record of a failed check aside
            found = [access for access in found if access[0] == "ld"] + [
                ("st", s) for s in re.findall(r"st\.global(\.\S+)\s+\[%rd\d+\],", ptx)
            ]
        kinds = {operation for operation, words in found if re.fullmatch(_WORDS[of.itemsize], words)}
        assert kinds == {"ld", "st"}, (name, found)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("of", [VECTORS[name] for name in ("f32x4", "f64x2", "f16x8", "u8x16")], ids=str)
def test_ptx_assembles_without_spills(of: Any, target: str) -> None:
    kernels = vector_kernels.of(of)
    for name in NAMES:
        report = assemble(getattr(kernels, name).ptx(target), target)
        # the function that records a failure may save a register or two of its caller
        assert report.spills == 0 or name == "matrix_as_vectors", name


@EVERY
def test_ptx_of_every_type_assembles(of: Any) -> None:
    kernels = vector_kernels.of(of)
    for name in ("picked", "through_shared", "through_local"):
        for level in (0, 3):
            assemble(compile_ptx(getattr(kernels, name).ir(), "sm_80", optimise=level), "sm_80")


@pytest.mark.parametrize("generation", ["x86-64-v3", "x86-64-v4", "aarch64"])
@pytest.mark.parametrize("of", [VECTORS[name] for name in ("f32x2", "f32x4", "i64x2", "f16x2", "bf16x8", "i8x2", "u8x16")], ids=str)
def test_every_processor_has_code(of: Any, generation: str) -> None:
    kernels, host = vector_kernels.of(of), HostCpu(generation)
    for name in ("picked", "broadcast", "rows_of_eight", "through_local"):
        assert compile_object(getattr(kernels, name).ir(), host, optimise=1).bytes


def test_neighbours_are_loaded_as_a_block_and_taken_apart_by_shuffles() -> None:
    text = compile_assembly(scaled.ir(), HostCpu("x86-64-v4"))
    assert "vgather" not in text
    assert "vscatter" not in text
    assert len(re.findall(r"vperm[it]2ps|vunpck[lh]ps|vshuff?\w*ps|vperm\w+", text)) >= 8
    narrow = compile_assembly(scaled.ir(), HostCpu("aarch64"))
    assert re.search(r"uzp1|ld4", narrow)


# ------------------------------------------------------------------------------------------------------------------------------------- IR


def test_the_ir_shows_widths_and_alignment() -> None:
    text = print_kernel(scaled.ir())
    assert (
        "x: Slice[f32x4] r by thread_index as f32x4 aligned to 16, y: DisjointSlice[f32x4] w by thread_index as f32x4 aligned to 16" in text
    )
    assert re.search(r"load 4 of x\[%\d+\]\n", text)
    assert re.search(r"store 4 of y\[%\d+\] = \(%\d+, %\d+, %\d+, %\d+\)\n", text)


@kernel(grid=sweep(blocks=1), requires="len(x) == len(w)")
def proved(x: Slice[f32], w: Slice[f32], z: Slice[f32x4], y: SliceMut[f32x4]) -> None:
    i = thread_index()
    xv, wv = as_vectors(x, f32x4), as_vectors(w, f32x4)
    if i in xv and i < len(y):
        y[i] = wv[i] + as_vectors(x, f32x2)[i].x + z[i]
    if i < len(w) // 4:
        y[0] = xv[i]


def test_guards_and_the_contract_prove_vectors() -> None:
    state = [(op.memory.name, op.checked) for op in nodes.walk(proved.ir().body) if isinstance(op, nodes.Access)]
    # of twice as many pairs the guard says nothing that is known yet
    assert state == [("w", False), ("x", True), ("z", True), ("y", False), ("x", False), ("y", True)]


def test_a_guard_on_numbers_proves_no_vectors() -> None:
    @kernel(grid=elements("y"))
    def wrong(x: Slice[f32], y: SliceMut[f32]) -> None:
        i = thread_index()
        if i in x and i in y:
            as_vectors(y, f32x4)[i] = as_vectors(x, f32x4)[i]

    assert [op.checked for op in nodes.walk(wrong.ir().body) if isinstance(op, nodes.Access)] == [True, True]


def test_explain_shows_vectors() -> None:
    found = explain(scaled, {}, ["sm_90"])
    assert [view.annotation for view in found.views] == ["Slice[f32x4]", "DisjointSlice[f32x4]"]
    assert [(access.operation, access.array, access.state) for access in found.accesses] == [
        ("write", "y", "proved"),
        ("read", "x", "proved"),
    ]


def test_names_that_mean_the_same_make_the_same_code() -> None:
    def made(annotation: Any, take: bool) -> str:
        def f(y: Any, n: i32) -> None:
            v = as_vectors(y, f32x4) if take else y
            v[0] = f32x4(1)

        f.__annotations__ = {"y": annotation, "n": i32, "return": None}
        return kernel(grid=sweep(blocks=1))(f).ptx("sm_90")

    def body(ptx: str) -> str:
        return re.sub(r"\.loc.*\n|//.*\n", "", ptx)

    assert body(made(SliceMut[f32x4], False)) == body(made(SliceMut[f32], True))


def test_the_verifier_knows_wide_accesses() -> None:
    ir = scaled.ir()
    load = next(op for op in nodes.walk(ir.body) if isinstance(op, nodes.LoadVector))
    assert isinstance(load.memory, nodes.View)
    load.memory.alignment = 8
    try:
        with pytest.raises(VerificationError, match="alignment"):
            verify(ir)
    finally:
        load.memory.alignment = 16
    verify(ir)


def test_launchers_are_python_that_says_what_it_checks() -> None:
    source = scaled.launcher_source
    assert "x_vectors = x_length // 4" in source
    assert "if x_address % 16 or x_length % 4:" in source
    assert "An array of f32: rows of multiples of 4, aligned to 16 bytes." in (scaled.__doc__ or "")

    @kernel(grid=sweep(blocks=1))
    def f(x: Slice[f32x4, D2], y: SliceMut[f32]) -> None:
        y[0] = x[0, 0].x

    assert "if x_address % 16 or x_shape_1 % 4 or x_stride_1 != 1 or x_stride_0 % 4:" in f.launcher_source
    assert "plan.aligned" in f.launcher_source


def test_every_type_is_exported() -> None:
    for name, of in VECTORS.items():
        assert getattr(kdsl, name) is of
        assert name in kdsl.__all__
    assert len(VECTORS) == 29
