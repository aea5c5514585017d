"""Where a product fuses with a sum or difference: decided by how the source is written, and nowhere else."""

from __future__ import annotations

import pytest
from text import kernel_of, ops

from kdsl.ir import nodes

PARAMETERS = "y: SliceMut[f32], a: f32, b: f32, c: f32, d: f32, n: i32, h: i16, w: f64"


@pytest.mark.parametrize(
    ("statement", "fused", "products"),
    [
        ("y[0] = a * b + c", 1, 0),
        ("y[0] = c + a * b", 1, 0),
        ("y[0] = a * b - c", 1, 0),
        ("y[0] = c - a * b", 1, 0),
        ("y[0] = a * b + c * d", 1, 1),
        ("y[0] = a * b - c * d", 1, 1),
        ("y[0] = a * b + c + d", 1, 0),
        ("y[0] = a * b + c * d + a * d", 2, 1),
        ("y[0] = (a * b) + c", 1, 0),
        ("y[0] = (a + b) * c + d", 1, 0),
        ("y[0] = 2 * a + 1", 1, 0),
        ("y[0] = h * a + c", 1, 0),
        ("y[0] = a * b + h", 1, 0),
        ("y[0] = 0.5 * a * b - c", 1, 1),
        ("y[0] += a * b", 1, 0),
        ("y[0] -= a * b", 1, 0),
        ("t = a * b\ny[0] = t + c", 0, 1),
        ("y[0] = f32(a * b) + c", 0, 1),
        ("y[0] = -(a * b) + c", 0, 1),
        ("y[0] = -a * b + c", 1, 0),
        ("y[0] = a * b * c", 0, 2),
        ("y[0] = twice(a) + c", 0, 1),
        ("y[0] = f32(a * b + w)", 0, 1),  # the product is an f32, rounded before it becomes an f64
        ("y[0] = f32(n * n + n)", 0, 1),
        ("y[0] = 2.0 * 3.0 + c", 0, 0),
    ],
)
def test_count(statement: str, fused: int, products: int) -> None:
    text = "@function\ndef twice(x: f32) -> f32:\n    return 2 * x\n"
    from text import define

    kernel = kernel_of(statement, PARAMETERS, twice=define(text)["twice"])
    assert len(ops(kernel, nodes.Fma)) == fused
    assert len([op for op in ops(kernel, nodes.Binary) if op.op == "mul"]) == products


def test_the_left_of_two_products_fuses() -> None:
    (fma,) = ops(kernel_of("y[0] = a * b - c * d", PARAMETERS), nodes.Fma)
    assert [fma.a.parameter.name, fma.b.parameter.name] == ["a", "b"]
    assert fma.c.op == "neg"
    assert fma.c.operand.op == "mul"


def test_a_difference_negates_a_factor() -> None:
    (fma,) = ops(kernel_of("y[0] = c - a * b", PARAMETERS), nodes.Fma)
    assert (fma.a.op, fma.a.operand.parameter.name) == ("neg", "a")
    assert fma.c.parameter.name == "c"


def test_contraction_can_be_turned_off() -> None:
    kernel = kernel_of("y[0] = a * b + c\ny[1] += a * b\ny[2] = fma(a, b, c)", PARAMETERS, "grid=1, contract=False")
    assert len(ops(kernel, nodes.Fma)) == 1
