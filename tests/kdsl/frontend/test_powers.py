"""`**`: products for a literal exponent (squares from the lowest bit), a loop for integers at run time."""

from __future__ import annotations

import numpy as np
import pytest
from ir_evaluator import run
from text import kernel_of, ops

from kdsl.ir import nodes
from kdsl.lang.types import I32, wrap


@pytest.mark.parametrize(("exponent", "products"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (7, 4), (15, 6), (16, 4)])
def test_a_literal_exponent_is_a_chain_of_products(exponent: int, products: int) -> None:
    kernel = kernel_of(
        f"y[0] = a ** {exponent}\nz[0] = b ** {exponent}", "y: SliceMut[f32], z: SliceMut[i32], a: f32, b: i32", "grid=1, block=1"
    )
    assert len([op for op in ops(kernel, nodes.Binary) if op.op == "mul"]) == 2 * products
    y, z = np.zeros(1, np.float32), np.zeros(1, np.int32)
    run(kernel, y=y, z=z, a=1.5, b=-3)
    assert y[0] == pytest.approx(1.5**exponent, rel=1e-5)
    assert z[0] == wrap(I32, (-3) ** exponent)


def test_beyond_16_only_a_power_of_an_integer_is_a_chain() -> None:
    whole = kernel_of("z[0] = b ** 31", "z: SliceMut[i32], b: i32", "grid=1, block=1")
    assert len(list(ops(whole, nodes.Binary))) == 8
    for exponent in ("17", "-17", "17.0", "1024"):
        found = kernel_of(f"y[0] = a ** {exponent}", "y: SliceMut[f32], a: f32", "grid=1, block=1")
        powers = kernel_of(f"y[0] = pow(a, {exponent})", "y: SliceMut[f32], a: f32", "grid=1, block=1")
        assert [type(op) for op in ops(found, nodes.ValueOp)] == [type(op) for op in ops(powers, nodes.ValueOp)]


def test_a_negative_exponent_of_a_float_is_a_reciprocal() -> None:
    kernel = kernel_of("y[0] = a ** -2", "y: SliceMut[f32], a: f32", "grid=1, block=1")
    y = np.zeros(1, np.float32)
    run(kernel, y=y, a=4.0)
    assert y[0] == 0.0625


@pytest.mark.parametrize("base", [-3, -1, 0, 1, 2, 10])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 31, 200])
def test_an_exponent_at_run_time(base: int, exponent: int) -> None:
    kernel = kernel_of("z[0] = b ** n", "z: SliceMut[i32], b: i32, n: u8", "grid=1, block=1")
    z = np.full(1, 99, np.int32)
    run(kernel, z=z, b=base, n=exponent)
    assert z[0] == wrap(I32, base**exponent)


def test_a_negative_exponent_at_run_time_gives_0() -> None:
    kernel = kernel_of("z[0] = b ** n", "z: SliceMut[i32], b: i32, n: i32", "grid=1, block=1")
    z = np.full(1, 99, np.int32)
    run(kernel, z=z, b=3, n=-1)
    assert z[0] == 0
