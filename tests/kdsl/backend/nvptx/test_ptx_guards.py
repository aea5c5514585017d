"""Nothing may end the process: what LLVM would abort on, or silently miscompile, is an exception or right code. All in this process, on purpose."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from llvmlite import ir

from kdsl.backend.llvm.module import CodeGenerationError, intrinsic, parse
from kdsl.backend.nvptx import LimitError, TargetError, compile_ptx
from kdsl.backend.nvptx.compile import _verify
from kdsl.backend.nvptx.symbols import symbol
from kdsl.ir import nodes
from kdsl.lang.types import BOOL, F32, F64, I32, I64, U8
from kdsl.testing.ptx import assemble

LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+")


@pytest.mark.parametrize(
    "name",
    [
        "f.<locals>.k",
        "π_kernel",
        "a b",
        "δ",
        "k.1",
        "_",
        "1st",
        "",
        "日本語",
        "\ud800",
        "WARP_SZ",
        "kdsl_record_failure",
        "x" * 5000,
        "a-b",
        'q"',
        "\\",
        "%p1",
    ],
)
def test_any_name_becomes_a_legal_symbol(build: Any, name: str) -> None:
    entry = symbol(name)
    assert LEGAL.fullmatch(entry)
    b = build(name)
    b.store(b.view("y"), b.thread(), b.constant(1.0, F32), checked=True)
    ptx = b.ptx()
    assert f".visible .entry {entry}(" in ptx
    assert ptx.isascii()
    assemble(ptx, "sm_90")


@pytest.mark.parametrize("name", ["saxpy", "add", "min", "_private", "kernel2", "Softmax", "ret", "entry", "global"])
def test_a_name_that_ptx_allows_stays(build: Any, name: str) -> None:
    assert symbol(name) == name
    b = build(name)
    b.store(b.view("y"), b.thread(), b.constant(1.0, F32))
    assemble(b.ptx(), "sm_90")


def test_names_that_sanitise_alike_stay_apart() -> None:
    names = ["δ", "π", "δ ", "k δ", "k π", "k_", "k.", "k:"]
    assert len({symbol(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    "name", ["llvm.sin.f32", "llvm.tanh.f32", "llvm.exp.f32", "llvm.log.f64", "llvm.exp2.f32", "llvm.pow.f32", "llvm.nvvm.no.such.thing", "malloc"]
)  # fmt: skip
def test_what_llvm_cannot_select_cannot_be_declared(name: str) -> None:
    with pytest.raises(CodeGenerationError, match=re.escape(name)):
        intrinsic(ir.Module(), name, ir.FloatType(), [ir.FloatType()])


def test_a_declaration_that_slips_past_is_found_before_llvm_selects() -> None:
    module = ir.Module()
    ir.Function(module, ir.FunctionType(ir.FloatType(), [ir.FloatType()]), "llvm.sin.f32")
    with pytest.raises(CodeGenerationError, match=r"llvm\.sin\.f32"):
        parse(module)


def test_ptx_that_refers_to_something_undefined_does_not_leave_the_compiler() -> None:
    with pytest.raises(CodeGenerationError, match="extern"):
        _verify(".version 7.8\n.extern .func llvm.nvvm.typo\n()\n;\n")
    with pytest.raises(CodeGenerationError, match="ASCII"):
        _verify(".version 7.8\n// π\n")


@pytest.mark.parametrize("target", ["sm_61", "sm_75", "sm_999", "", "sm_90 ", "SM_90", "compute_90", "sm_90\0", None])
def test_an_unknown_target_is_named_with_those_that_are_known(build: Any, target: Any) -> None:
    b = build()
    b.store(b.view("y"), b.thread(), b.constant(1.0, F32))
    with pytest.raises(TargetError) as caught:
        b.ptx(target)
    assert repr(target) in str(caught.value)
    assert "sm_87" in str(caught.value)


@pytest.mark.parametrize("level", [-1, 4, "3", None])
def test_an_unknown_level_is_an_error(build: Any, level: Any) -> None:
    b = build()
    b.store(b.view("y"), b.thread(), b.constant(1.0, F32))
    with pytest.raises(ValueError, match="optimise is 0, 1, 2 or 3"):
        compile_ptx(b.kernel, "sm_90", optimise=level)


def test_too_much_shared_memory_is_told_before_ptxas_refuses(build: Any) -> None:
    b = build()
    y = b.view("y", F64)
    for name in ("a", "b"):
        b.store(b.array(name, F64, 7000), b.thread(), b.load(y, b.thread()))
    message = r"k declares 112000 bytes of shared arrays \(a 56000, b 56000\); a block of sm_86 \(.*\) has at most 101376: use smaller"
    with pytest.raises(LimitError, match=message) as caught:
        b.ptx("sm_86")
    assert "/folder/source.py:11" in str(caught.value)
    assert b.ptx("sm_80")


def test_the_largest_shared_array_assembles(build: Any) -> None:
    b = build()
    y, t, tile = b.view("y", F64), b.thread(), b.array("tile", F64, 48 * 128)
    b.store(tile, t, b.load(y, t))
    b.barrier()
    b.store(y, t, b.load(tile, b.constant(0)))
    assert assemble(b.ptx(), "sm_90").shared == 48 * 1024


def test_too_much_local_memory_is_told(build: Any) -> None:
    b = build()
    b.store(b.array("a", F64, 70_000, space="local"), b.thread(), b.constant(1.0, F64))
    with pytest.raises(LimitError, match="local arrays"):
        b.ptx()


def test_too_many_arguments_are_told(build: Any) -> None:
    b = build()
    for number in range(300):
        b.view(f"y{number}")
    with pytest.raises(LimitError, match=r"takes \d+ bytes of arguments; at most 4096"):
        b.ptx()


def test_too_many_operations_are_told_before_llvm_takes_minutes(build: Any) -> None:
    b = build()
    y, t = b.view("y"), b.thread()
    for _ in range(31_000):
        t = b.binary("add", t, t)
    b.store(y, t, b.constant(1.0, F32))
    with pytest.raises(LimitError, match="unroll less"):
        compile_ptx(b.kernel, "sm_90")


@pytest.mark.parametrize("op", ["floordiv", "mod"])
@pytest.mark.parametrize("of", [I32])
def test_the_smallest_integer_by_minus_one_keeps_the_store(build: Any, op: str, of: Any) -> None:
    b = build()
    y = b.view("y", of)
    b.store(y, b.thread(), b.binary(op, b.constant(of.minimum, of), b.constant(-1, of)))
    expected = of.minimum if op == "floordiv" else 0
    assert re.search(rf"st\.global\.b32 \t?\[%rd\d+\], {expected};", b.ptx())


def test_not_equal_is_true_for_nan(build: Any, check: Any) -> None:
    """`x != x` is the test for NaN; LLVM's ordered comparison would be false for all x.
    CHECK: setp.{{nan|neu}}.f32
    CHECK: st.global.b8
    """
    b = build()
    y, x, t = b.view("y", BOOL), b.view("x", kind="Slice"), b.thread()
    value = b.load(x, t)
    b.store(y, t, b.compare("ne", value, value))
    check(b.ptx())


def test_a_byte_as_index_is_not_negative(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.nc.b8 %r[[I:[a-z]*[0-9]+]]
    CHECK-NOT: cvt.s
    CHECK: ld.global.nc.b32
    """
    b = build()
    y, i, x, t = b.view("y"), b.view("i", U8, "Slice"), b.view("x", kind="Slice"), b.thread()
    b.store(y, t, b.load(x, b.add(nodes.Cast, type=I64, operand=b.load(i, t))))
    check(b.ptx())


def test_subnormals_are_kept(build: Any) -> None:
    b = build()
    y, t = b.view("y"), b.thread()
    x = b.load(y, t)
    b.store(y, t, b.binary("div", b.binary("mul", x, x), b.add(nodes.Unary, type=F32, op="sqrt", operand=x)))
    assert ".ftz" not in b.ptx()


def test_kernels_compile_in_many_threads_at_once(build: Any) -> None:
    def compile_one(number: int) -> str:
        b = build(f"k{number % 4}")
        b.store(b.view("y"), b.thread(), b.constant(float(number % 4), F32), checked=True)
        return b.ptx(("sm_80", "sm_90")[number % 2])  # type: ignore[no-any-return]

    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(compile_one, range(32)))
    assert len(set(texts)) == 4
