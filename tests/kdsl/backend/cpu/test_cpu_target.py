"""Processors, object code, and the environment in which it runs."""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest
from cpu_builder import Builder
from cpu_run import Runner
from test_cpu_random import Generator

import kdsl
from kdsl.backend.cpu import HostCpu, UnsupportedCpuError, compile_assembly, compile_object, host, load
from kdsl.backend.cpu.compile import CpuObject
from kdsl.backend.cpu.object_file import undefined_symbols
from kdsl.backend.llvm.module import CodeGenerationError
from kdsl.ir import nodes
from kdsl.lang.types import F32

HOSTS = ["x86-64-v3", "x86-64-v4", "aarch64"]


def scale() -> nodes.Kernel:
    k = Builder("scale", (64, 1, 1))
    y, factor = k.view("y"), k.scalar("factor", F32)
    i = k.thread_index()
    with k.if_(i < k.length(y)):
        k.store(y, i, k.load(y, i) * factor)
    return k.kernel


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("seed", range(4))
def test_emits_for_every_processor(name: str, seed: int) -> None:
    kernel = Generator(5000 + seed, barriers=seed % 2 == 0, exchanges=seed == 3).k.kernel
    compiled = compile_object(kernel, HostCpu(name))
    assert compiled.bytes[:5] == b"\x7fELF\x02"
    assert undefined_symbols(compiled.bytes) == []


@pytest.mark.parametrize(("name", "register"), [("x86-64-v3", "ymm"), ("x86-64-v4", "zmm"), ("aarch64", ".4s")])
def test_uses_whole_vectors(name: str, register: str) -> None:
    assert register in compile_assembly(scale(), HostCpu(name))


def test_narrower_vectors() -> None:
    narrow = HostCpu("x86-64-v4", narrow=256)
    assert (narrow.lanes, narrow.vector_bits) == (8, 256)
    assert "zmm" not in compile_assembly(scale(), narrow)
    half = HostCpu("x86-64-v3", narrow=128)  # LLVM may still join two of its vectors
    assert half.lanes == 4
    assert compile_object(scale(), half) != compile_object(scale(), HostCpu("x86-64-v3"))


ALL_OF_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
ALL_OF_V4 = (*ALL_OF_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Make this machine another one: its kind, and what its processor has."""

    def become(machine: str, name: str = "", features: Sequence[str] = ()) -> None:
        known = llvm.FeatureMap({**dict.fromkeys(ALL_OF_V4, False), **dict.fromkeys(features, True)})
        monkeypatch.setattr(platform, "machine", lambda: machine)
        monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: name)
        monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: known)
        forget()

    def forget() -> None:
        host._detect.cache_clear()
        host._chosen.cache_clear()

    monkeypatch.delenv("KDSL_CPU", raising=False)
    yield become
    monkeypatch.undo()
    forget()


def test_the_generation_is_that_of_the_processor(on: Callable[..., None]) -> None:
    on("x86_64", "haswell", ALL_OF_V3)
    assert HostCpu.detect().generation == "x86-64-v3"
    on("AMD64", "skylake-avx512", ALL_OF_V4)
    assert HostCpu.detect().generation == "x86-64-v4"
    on("x86_64", "some", ALL_OF_V4[:-1])
    assert HostCpu.detect().generation == "x86-64-v3"
    on("aarch64", "neoverse-n1")
    assert (HostCpu.detect().generation, HostCpu.detect().cpu) == ("aarch64", "neoverse-n1")


@pytest.mark.parametrize(
    ("machine", "name", "features", "words"),
    [
        (
            "x86_64",
            "nehalem",
            (),
            f"the CPU target needs x86-64-v3 (AVX2 and FMA), and this processor (nehalem) lacks {', '.join(ALL_OF_V3)}",
        ),
        (
            "x86_64",
            "sandybridge",
            ("avx",),
            f"the CPU target needs x86-64-v3 (AVX2 and FMA), and this processor (sandybridge) lacks {', '.join(ALL_OF_V3[1:])}",
        ),
        (
            "AMD64",
            "x86-64",
            [feature for feature in ALL_OF_V4 if feature != "fma"],
            "the CPU target needs x86-64-v3 (AVX2 and FMA), and this processor (x86-64) lacks fma",
        ),
        ("riscv64", "generic", (), "the CPU target runs on x86-64 and AArch64, and this machine is 'riscv64'"),
        ("armv7l", "cortex-a7", (), "the CPU target runs on x86-64 and AArch64, and this machine is 'armv7l'"),
    ],
)
def test_a_lesser_processor_is_refused(on: Callable[..., None], machine: str, name: str, features: Sequence[str], words: str) -> None:
    """At the first launch, since nothing of a kernel is compiled for the CPU before."""

    @kdsl.kernel(grid=1, block=32)
    def nothing(y: kdsl.SliceMut[kdsl.f32]) -> None:
        y[kdsl.thread_idx.x] = 0.0

    y = kdsl.device("cpu").zeros(32, kdsl.f32)
    on(machine, name, features)
    with pytest.raises(UnsupportedCpuError, match=f"^{re.escape(words)}$"):
        nothing(y)
    with pytest.raises(UnsupportedCpuError, match=f"^{re.escape(words)}$"):
        HostCpu.detect()


def test_a_processor_is_chosen_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = HostCpu.detect()
    monkeypatch.setenv("KDSL_CPU", f"{usual.generation}:128")
    assert HostCpu.detect() == replace(usual, narrow=128)
    monkeypatch.setenv("KDSL_CPU", "aarch64" if usual.is_x86 else "x86-64-v3")
    with pytest.raises(UnsupportedCpuError, match="does not run code for"):
        HostCpu.detect()
    for wrong in ("pentium", f"{usual.generation}:64", f"{usual.generation}:wide", f"{usual.generation}:1024"):
        monkeypatch.setenv("KDSL_CPU", wrong)
        with pytest.raises(UnsupportedCpuError):
            HostCpu.detect()


def test_is_deterministic() -> None:
    first, second = (compile_object(Generator(6000, barriers=True).k.kernel, HostCpu("x86-64-v3")) for _ in range(2))
    assert first == second


def test_unknown_processor() -> None:
    with pytest.raises(UnsupportedCpuError, match=r"pentium.*x86-64-v3"):
        HostCpu("pentium")


def test_missing_symbols_are_refused() -> None:
    from llvmlite import ir

    from kdsl.backend.cpu.function import native_type

    module = ir.Module()
    missing = ir.Function(module, native_type(), "nowhere")
    function = ir.Function(module, native_type(), "entry")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.call(missing, function.args)
    builder.ret_void()
    import llvmlite.binding as llvm

    machine = HostCpu.detect().machine(1)
    contents = machine.emit_object(llvm.parse_assembly(str(module)))
    assert undefined_symbols(contents) == ["nowhere"]
    with pytest.raises(CodeGenerationError, match="nowhere"):
        load(CpuObject(contents, "entry", 0))


def test_other_files_are_refused() -> None:
    with pytest.raises(CodeGenerationError, match="ELF"):
        load(CpuObject(b"MZ nothing", "entry", 0))


def test_keeps_subnormals_whatever_others_have_set() -> None:
    """A library may have set flush-to-zero in this thread (as compilers do for -ffast-math); kernels keep subnormals, and leave the setting as it was."""
    host = HostCpu.detect()
    run = Runner(scale())
    from llvmlite import ir

    from kdsl.backend.cpu.lanes import I32, I64
    from kdsl.backend.llvm.module import call_intrinsic, parse

    # a function that sets the control register to `value` and gives back what it was
    module = ir.Module()
    module.triple = host.platform
    kind = I32 if host.is_x86 else I64
    function = ir.Function(module, ir.FunctionType(kind, [kind]), "exchange_control")
    b = ir.IRBuilder(function.append_basic_block())
    if host.is_x86:
        before, after = b.alloca(I32), b.alloca(I32)
        call_intrinsic(b, "llvm.x86.sse.stmxcsr", ir.VoidType(), before)
        b.store(function.args[0], after)
        call_intrinsic(b, "llvm.x86.sse.ldmxcsr", ir.VoidType(), after)
        b.ret(b.load(before, typ=I32))
        flush = 0x9FC0
    else:
        control = call_intrinsic(b, "llvm.aarch64.get.fpcr", I64)
        call_intrinsic(b, "llvm.aarch64.set.fpcr", ir.VoidType(), function.args[0])
        b.ret(control)
        flush = 1 << 24
    code = load(CpuObject(host.machine(1).emit_object(parse(module)), "exchange_control", 0))
    number = ctypes.c_uint32 if host.is_x86 else ctypes.c_uint64
    exchange = ctypes.CFUNCTYPE(number, number)(code.address)
    tiny = np.full(64, 2e-38, np.float32)
    before = exchange(flush)
    try:
        run(1, y=tiny, factor=0.25)
        during = exchange(before)
    finally:
        exchange(before)
    assert during & ~0x3F == flush & ~0x3F  # the exception flags aside
    np.testing.assert_array_equal(tiny, np.full(64, np.float32(2e-38) * np.float32(0.25)))
    assert tiny[0] > 0
