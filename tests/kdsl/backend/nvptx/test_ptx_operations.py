"""Every pure operation on every element type: compiles for every target at every level, and assembles."""

from typing import Any

import pytest

from kdsl.backend.nvptx import TARGETS
from kdsl.ir import nodes
from kdsl.lang.types import BOOL, DTYPES, F32, F64, I32, I64, U8, U32, DType
from kdsl.testing.ptx import assemble

FLOAT_ONLY = {"sqrt", "floor", "ceil", "trunc", "rint", "div", "fmin", "fmax"}
INTEGER_ONLY = {
    "invert", "floordiv", "mod", "shl", "shr", "popcount", "leading_zeros", "trailing_zeros", "reverse_bits", "multiply_high",
}  # fmt: skip
NO_BOOL = {"neg", "abs", "add", "sub", "mul", "min", "max"}
NO_FLOAT = {"and", "or", "xor"}


def fits(op: str, of: DType) -> bool:
    if op == "not":
        return of.is_bool
    if op == "tf32":
        return of is F32
    if op in FLOAT_ONLY:
        return of.is_float
    if op in INTEGER_ONLY:
        return of.is_integer
    return not (of.is_bool if op in NO_BOOL else of.is_float and op in NO_FLOAT)


def everything(build: Any) -> Any:
    b = build("everything")
    thread = b.thread()
    inputs = {of: b.view(f"in_{of}", of, "Slice") for of in DTYPES.values()}
    outputs = {of: b.view(f"out_{of}", of) for of in DTYPES.values()}
    count = 0

    def put(value: Any) -> None:
        nonlocal count
        count += 1
        b.store(outputs[value.type], b.binary("add", b.binary("mul", thread, b.constant(1000)), b.constant(count)), value)

    condition = b.load(inputs[BOOL], thread)
    for of, view in inputs.items():
        x, y = b.load(view, thread), b.load(view, b.binary("add", thread, b.constant(7)))
        for op in nodes.UNARY:
            if fits(op, of):
                put(b.add(nodes.Unary, type=of, op=op, operand=x))
        for op in nodes.BINARY:
            if fits(op, of):
                put(b.binary(op, x, y))
        if of.is_float:
            put(b.add(nodes.Fma, type=of, a=x, b=y, c=x))
        for op in ("lt", "le", "gt", "ge", "eq", "ne"):
            put(b.compare(op, x, y))
        put(b.add(nodes.Select, type=of, condition=condition, then=x, orelse=y))
        for to in DTYPES.values():
            put(b.add(nodes.Cast, type=to, operand=x))
            if to.bits == of.bits and not to.is_bool:
                put(b.add(nodes.Bitcast, type=to, operand=x))
    return b


@pytest.mark.parametrize("target", TARGETS)
def test_every_operation_assembles_for_every_target(build: Any, target: str) -> None:
    report = assemble(everything(build).ptx(target), target)
    assert report.spills == 0


@pytest.mark.parametrize("optimise", [0, 1, 2])
def test_every_operation_assembles_at_every_level(build: Any, optimise: int) -> None:
    assemble(everything(build).ptx("sm_90", optimise=optimise), "sm_90")


def unary(build: Any, of: DType, op: str) -> str:
    b = build()
    y, t = b.view("y", of), b.thread()
    b.store(y, t, b.add(nodes.Unary, type=of, op=op, operand=b.load(y, t)))
    return b.ptx()


def binary(build: Any, of: DType, op: str, right: Any = None, limits: tuple[int, int] | None = None) -> str:
    b = build()
    y, x, t = b.view("y", of), b.view("x", of, "Slice"), b.thread()
    other = b.load(x, t) if right is None else b.constant(right, of)
    other.range = limits
    b.store(y, t, b.binary(op, b.load(y, t), other))
    return b.ptx()


@pytest.mark.parametrize(
    ("of", "op", "instruction"),
    [
        (F32, "sqrt", "sqrt.rn.f32"), (F64, "sqrt", "sqrt.rn.f64"), (F32, "neg", "neg.f32"), (F32, "abs", "abs.f32"), (F32, "floor", "cvt.rmi.f32.f32"),
        (F32, "ceil", "cvt.rpi.f32.f32"), (F32, "trunc", "cvt.rzi.f32.f32"), (F32, "rint", "cvt.rni.f32.f32"), (I32, "invert", "not.b32"),
    ],
)  # fmt: skip
def test_unary_operations_have_their_instruction(build: Any, of: DType, op: str, instruction: str) -> None:
    assert instruction in unary(build, of, op)


@pytest.mark.parametrize(
    ("of", "op", "instruction"),
    [
        (F32, "div", "div.rn.f32"), (F64, "div", "div.rn.f64"), (F32, "add", "add.rn.f32"), (F32, "mul", "mul.rn.f32"), (F32, "min", "min.NaN.f32"),
        (F32, "max", "max.NaN.f32"), (I32, "min", "min.s32"), (U32, "max", "max.u32"), (I64, "mul", "mul.lo.s64"),
    ],
)  # fmt: skip
def test_binary_operations_have_their_instruction(build: Any, of: DType, op: str, instruction: str) -> None:
    assert instruction in binary(build, of, op)


def test_f32_arithmetic_contains_no_f64(build: Any) -> None:
    for op in ("add", "sub", "mul", "div", "min", "max", "fmin", "fmax"):
        assert ".f64" not in binary(build, F32, op)


def test_a_product_and_a_sum_are_not_fused(build: Any, check: Any) -> None:
    """
    CHECK: mul.rn.f32
    CHECK-NOT: fma
    CHECK: add.rn.f32
    CHECK-NOT: fma
    """
    b = build()
    y, t = b.view("y"), b.thread()
    x = b.load(y, t)
    b.store(y, t, b.binary("add", b.binary("mul", x, x), x))
    check(b.ptx())


def test_fma_is_one_instruction(build: Any, check: Any) -> None:
    """
    CHECK-NOT: mul.rn
    CHECK: fma.rn.f32
    CHECK-NOT: add.rn
    """
    b = build()
    y, t = b.view("y"), b.thread()
    x = b.load(y, t)
    b.store(y, t, b.add(nodes.Fma, type=F32, a=x, b=x, c=x))
    check(b.ptx())


@pytest.mark.parametrize("limits", [None, (0, 31)])
def test_a_shift_is_one_instruction(build: Any, limits: tuple[int, int] | None, check: Any) -> None:
    """PTX clamps the amount to the width, which is what the language says, and LLVM knows it.
    CHECK-NOT: selp
    CHECK: shl.b32
    CHECK-NOT: selp
    """
    check(binary(build, I32, "shl", limits=limits))


def test_an_unsigned_shift_to_the_right_is_logical(build: Any) -> None:
    ptx = binary(build, U32, "shr", right=3)
    assert "shr.u32" in ptx
    assert "shr.s32" not in ptx


def test_division_by_a_power_of_two_shifts(build: Any, check: Any) -> None:
    """
    CHECK-NOT: div
    CHECK: shr.s32
    CHECK-NOT: div
    """
    check(binary(build, I32, "floordiv", right=8))


def test_division_by_an_unknown_selects_for_zero(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.nc.b32 %r[[Y:[0-9]+]]
    CHECK: setp.{{eq|ne}}.b32 {{.*}}, 0
    CHECK: div.s32
    CHECK: st.global.b32
    """
    check(binary(build, I32, "floordiv"))


def test_a_constant_zero_divisor_gives_zero_and_keeps_the_store(build: Any, check: Any) -> None:
    """
    CHECK-NOT: div
    CHECK: st.global.b32 {{.*}}, 0;
    """
    check(binary(build, I32, "floordiv", right=0))


def test_a_constant_shift_beyond_the_width_keeps_the_store(build: Any, check: Any) -> None:
    """
    CHECK: st.global.b32 {{.*}}, 0;
    """
    check(binary(build, I32, "shl", right=40))


def test_a_float_that_is_not_a_number_converts_to_zero(build: Any, check: Any) -> None:
    """
    CHECK: st.global.b32 {{.*}}, 0;
    """
    b = build()
    y = b.view("y", I32)
    b.store(y, b.thread(), b.add(nodes.Cast, type=I32, operand=b.constant(float("nan"), F32)))
    check(b.ptx())


def test_a_float_saturates_on_conversion(build: Any, check: Any) -> None:
    """
    CHECK: st.global.b8 {{.*}}, 255;
    """
    b = build()
    y = b.view("y", U8)
    b.store(y, b.thread(), b.add(nodes.Cast, type=U8, operand=b.constant(1e9, F32)))
    check(b.ptx())


def test_an_unsigned_byte_converts_to_a_positive_float(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.nc.b8 %rs
    CHECK: cvt.rn.f32.u16
    """
    b = build()
    y, x, t = b.view("y"), b.view("x", U8, "Slice"), b.thread()
    b.store(y, t, b.add(nodes.Cast, type=F32, operand=b.load(x, t)))
    check(b.ptx())


def test_an_f32_becomes_a_32_bit_integer_in_one_instruction(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.b32 %r[[X:[0-9]+]]
    CHECK-NOT: setp
    CHECK: cvt.rzi.s32.f32 %r[[I:[0-9]+]], %r[[X]];
    CHECK-NOT: selp
    CHECK: cvt.rn.f32.s32
    """
    b = build()
    y, t = b.view("y"), b.thread()
    whole = b.add(nodes.Cast, type=I32, operand=b.load(y, t))
    b.store(y, t, b.add(nodes.Cast, type=F32, operand=whole))
    check(b.ptx())


def test_to_64_bits_not_a_number_is_selected_away(build: Any, check: Any) -> None:
    """
    CHECK: setp.nan.f32
    CHECK: selp.b64 {{.*}}, 0,
    """
    b = build()
    y, x, t = b.view("y", I64), b.view("x"), b.thread()
    b.store(y, t, b.add(nodes.Cast, type=I64, operand=b.load(x, t)))
    check(b.ptx())
