"""Which type an expression has: literals, promotion, indices, conversions, names that start as literals."""

from __future__ import annotations

import pytest
from text import kernel_of, ops

from kdsl.ir import nodes
from kdsl.lang.types import DTYPES

SCALARS = ", ".join(f"{name}v: {name}" for name in DTYPES)
PARAMETERS = f"y: SliceMut[i32], x: Slice[f32], {SCALARS}"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # literals take the type that they meet
        ("u8v + 1", "u8"),
        ("1 - i16v", "i16"),
        ("2 * f32v", "f32"),
        ("f64v + 0.1", "f64"),
        ("f32v * 0.1", "f32"),
        ("u32v << 3", "u32"),
        ("(1 if boolv else 2) * f32v", "f32"),
        ("min(u8v, 7)", "u8"),
        # alone they are i64 and f32
        ("1 + 2", "i64"),
        ("1.5", "f32"),
        ("1 + 2.5", "f32"),
        ("True", "bool"),
        # promotion, only where no value is lost
        ("u32v + i64v", "i64"),
        ("i32v + u32v", "i64"),
        ("u8v + i8v", "i16"),
        ("u8v * u16v", "u16"),
        ("i16v * f32v", "f32"),
        ("u16v + f32v", "f32"),
        ("i32v * f64v", "f64"),
        ("f32v + f64v", "f64"),
        ("max(i8v, u8v)", "i16"),
        ("i32v if boolv else i64v", "i64"),
        # bools
        ("boolv and i32v > 0", "bool"),
        ("not i32v", "bool"),
        ("boolv & (u8v == 1)", "bool"),
        ("1 < i32v <= 7", "bool"),
        # indices are i64
        ("thread_index()", "i64"),
        ("thread_idx.x * 4 + 1", "i64"),
        ("block_dim.y", "i64"),
        ("len(x) - 1", "i64"),
        ("u32v * len(x)", "i64"),
        ("WARP_SIZE + lane_index()", "i64"),
        # conversions
        ("f32(i64v)", "f32"),
        ("u8(f32v)", "u8"),
        ("bool(f32v)", "bool"),
        ("int(f32v)", "i64"),
        ("float(i32v)", "f32"),
        ("float(f64v)", "f64"),
        ('f32("-inf")', "f32"),
        ("x.dtype(1)", "f32"),
        ("i16v.dtype(3.5)", "i16"),
        # functions
        ("sqrt(f64v)", "f64"),
        ("sqrt(2)", "f32"),
        ("fma(f32v, 2, 1)", "f32"),
        ("fmin(1.0, f64v)", "f64"),
        ("float_bits(f32v)", "i32"),
        ("f16_bits(f16v)", "u16"),
        ("bits_bf16(u16v)", "bf16"),
        ("abs(i8v)", "i8"),
        ("i32v ** 3", "i32"),
        ("2 ** u8v", "u8"),
        ("i32v ** u8v", "i32"),
        ("f32v ** 3", "f32"),
        ("warp_ballot(i32v > 0)", "u32"),
        ("warp_any(boolv)", "bool"),
        ("warp_sum(f64v)", "f64"),
        ("shuffle_xor(i32v, 1)", "i32"),
    ],
)
def test_type(expression: str, expected: str) -> None:
    kernel = kernel_of(f"if ({expression}).dtype == {expected}:\n    y[0] = 1\nelse:\n    y[0] = 0", PARAMETERS)
    (store,) = ops(kernel, nodes.Store)
    assert store.value.value == 1, f"{expression} is not {expected}"


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("value = 0\nfor i in range(3):\n    value += i32v", "i32"),
        ("value = 0\nfor i in range(3):\n    value += i", "i64"),
        ("value = 0\nfor i in range(3):\n    value += f64v", "f64"),
        ("value = 1\nif boolv:\n    value = 2.5", "f32"),
        ("value = 0\nwhile value < u8v:\n    value = value + 1\n    value = value * u8v", "u8"),
        ("value = 0\nif boolv:\n    value = i16v\nelse:\n    value = i32v", "i32"),
        ("value = 1.5\nfor i in range(2):\n    value = value * f64v", "f64"),
        ("a = 0\nvalue = 0\nfor i in range(2):\n    a += i16v\n    value += a", "i16"),
        ("value = -1\nif boolv:\n    value = -value", "i64"),
        ("value: u16 = 3\nvalue += 1", "u16"),
        ("value: f64 = f32v\nvalue += f32v", "f64"),
        ("value, other = 0, 1\nfor i in range(2):\n    value, other = other, value + i32v", "i32"),
        ("value = True\nif i32v > 2:\n    value = i32v < 5", "bool"),
    ],
)
def test_names_that_start_as_literals(statements: str, expected: str) -> None:
    kernel = kernel_of(f"{statements}\nif value.dtype == {expected}:\n    y[0] = 1\nelse:\n    y[0] = 0", PARAMETERS)
    assert [store.value.value for store in ops(kernel, nodes.Store)] == [1]


def test_a_literal_of_an_f64_kernel_keeps_its_digits() -> None:
    kernel = kernel_of("y[0] = y[0] * 0.1", "y: SliceMut[f64]")
    assert [c.value for c in ops(kernel, nodes.Constant) if c.type.is_float] == [0.1]


def test_a_name_for_a_single_literal_stays_untyped() -> None:
    kernel = kernel_of("tenth = 0.1\ny[0] = y[0] * tenth", "y: SliceMut[f64]")
    assert [c.value for c in ops(kernel, nodes.Constant) if c.type.is_float] == [0.1]


def test_an_f32_kernel_computes_in_f32() -> None:
    kernel = kernel_of("y[0] = y[0] * 0.1 + 1.5 - 3 / y[1] + HALF", "y: SliceMut[f32]", HALF=0.5)
    assert {op.type.name for op in ops(kernel, nodes.ValueOp)} <= {"f32", "i64"}
