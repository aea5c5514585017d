"""The PTX of `kdsl.fast`: the instructions of the row and nothing of the accurate function."""

import re
from typing import Any, TypeVar

import pytest

import kdsl
from kdsl import DisjointSlice, Slice, bf16, elements, f16, f32, fast, kernel, thread_index
from kdsl.testing.ptx import assemble, filecheck

N = TypeVar("N", f16, bf16, f32)


def one(function: Any) -> Any:
    """A kernel y = function(x) over elements."""

    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def apply(y: DisjointSlice[N], x: Slice[N]) -> None:
        i = thread_index()
        if i in y:
            y[i] = function(x[i])

    return apply


def two(function: Any) -> Any:
    """A kernel y = function(a, b) over elements."""

    @kernel(grid=elements("y"), requires=("len(a) == len(y)", "len(b) == len(y)"))
    def apply(y: DisjointSlice[f32], a: Slice[f32], b: Slice[f32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = function(a[i], b[i])

    return apply


INSTRUCTIONS = {
    "exp": "{ .reg .f32 t; mul.rn.f32 t, [[X]], 0f3FB8AA3B; ex2.approx.f32 [[Y:%r[0-9]+]], t; }",
    "exp2": "ex2.approx.f32 [[Y:%r[0-9]+]], [[X]];",
    "log": "{ .reg .f32 t; lg2.approx.f32 t, [[X]]; mul.rn.f32 [[Y:%r[0-9]+]], t, 0f3F317218; }",
    "log2": "lg2.approx.f32 [[Y:%r[0-9]+]], [[X]];",
    "log10": "{ .reg .f32 t; lg2.approx.f32 t, [[X]]; mul.rn.f32 [[Y:%r[0-9]+]], t, 0f3E9A209B; }",
    "sin": "sin.approx.f32 [[Y:%r[0-9]+]], [[X]];",
    "cos": "cos.approx.f32 [[Y:%r[0-9]+]], [[X]];",
    "tanh": "tanh.approx.f32 [[Y:%r[0-9]+]], [[X]];",
    "sqrt": "sqrt.approx.f32 [[Y:%r[0-9]+]], [[X]];",
    "rsqrt": "rsqrt.approx.f32 [[Y:%r[0-9]+]], [[X]];",
    "reciprocal": "rcp.approx.f32 [[Y:%r[0-9]+]], [[X]];",
}
"""Of functions of one f32."""
OTHER = r"fma|\.f64|\.ftz|div\.|rcp\.rn|sqrt\.rn|bra|call|abs|cvt\.rn"
"""What accurate functions are made of; `bra` but for the guard of the element."""


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_one_operand(name: str) -> None:
    ptx = one(getattr(fast, name)).ptx("sm_80", N=f32)
    checks = f"""
    CHECK: ld.global.b32 [[X:%r[0-9]+]],
    CHECK: begin inline asm
    CHECK-NEXT: {INSTRUCTIONS[name]}
    CHECK-NEXT: end inline asm
    CHECK-NOT: asm
    CHECK: st.global.b32 {{{{.*}}}}, [[Y]];
    CHECK-NEXT: BB
    """
    filecheck("\n".join(line for line in ptx.splitlines() if ".loc" not in line and "tmp" not in line), checks)
    assert len(re.findall(OTHER, ptx)) == 1
    assemble(ptx, "sm_80")


@pytest.mark.parametrize(
    ("name", "instructions"),
    [
        ("divide", "div.approx.f32 $Y, $A, $B;"),
        ("pow", "{ .reg .f32 t; lg2.approx.f32 t, $A; mul.rn.f32 t, t, $B; ex2.approx.f32 $Y, t; }"),
    ],
)
def test_two_operands(name: str, instructions: str) -> None:
    ptx = two(getattr(fast, name)).ptx("sm_80")
    text = instructions.replace("$Y", "[[Y:%r[0-9]+]]").replace("$A", "[[A]]").replace("$B", "[[B]]")
    checks = f"""
    CHECK: ld.global.b32 [[A:%r[0-9]+]],
    CHECK: ld.global.b32 [[B:%r[0-9]+]],
    CHECK: {text}
    CHECK: st.global.b32 {{{{.*}}}}, [[Y]];
    """
    filecheck(ptx, checks)
    assert len(re.findall(OTHER, ptx.replace("div.approx", ""))) == 1
    assemble(ptx, "sm_80")


@pytest.mark.parametrize(
    ("name", "of", "instruction", "target", "version"),
    [
        ("exp2", f16, "ex2.approx.f16", "sm_80", "7.0"),
        ("exp2", bf16, "ex2.approx.ftz.bf16", "sm_90", "7.8"),
        ("tanh", f16, "tanh.approx.f16", "sm_80", "7.0"),
        ("tanh", bf16, "tanh.approx.bf16", "sm_90", "7.8"),
    ],
)
def test_sixteen_bits(name: str, of: Any, instruction: str, target: str, version: str) -> None:
    ptx = one(getattr(fast, name)).ptx(target, N=of)
    checks = f"""
    CHECK: .version {version}
    CHECK: ld.global.b16 [[X:%rs[0-9]+]],
    CHECK: {instruction} [[Y:%rs[0-9]+]], [[X]];
    CHECK: st.global.b16 {{{{.*}}}}, [[Y]];
    """
    filecheck(ptx, checks)
    assert "f32" not in ptx
    assemble(ptx, target)


@pytest.mark.parametrize("name", ["exp2", "tanh"])
def test_bf16_is_refused_below_what_has_it(name: str) -> None:
    with pytest.raises(
        kdsl.KernelError, match=rf"fast\.{name}\(\) bf16 cannot be compiled for sm_89 .*needs compute capability 9.0"
    ) as caught:
        one(getattr(fast, name)).ptx("sm_89", N=bf16)
    assert caught.value.location.line > 1


def test_what_is_not_used_is_left_out_and_what_is_alike_is_computed_once() -> None:
    @kernel(grid=elements("y"), requires=("len(x) == len(y)",))
    def apply(y: DisjointSlice[f32], x: Slice[f32]) -> None:
        i = thread_index()
        if i in y:
            unused = fast.sin(x[i])
            y[i] = fast.exp2(x[i]) * fast.exp2(x[i]) + 0.0 * f32(unused > 2.0 and False)

    ptx = apply.ptx("sm_90")
    assert ptx.count("ex2.approx") == 1
    assert "sin" not in ptx
