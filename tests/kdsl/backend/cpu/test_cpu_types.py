"""Arithmetic of every element type in lanes, compared with the interpreter on values near the limits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cpu_builder import Builder
from cpu_reference import Interpreter
from cpu_run import Runner

from kdsl.lang.types import BOOL, DTYPES, F32, F64, I32, I64, DType

INTEGERS = [t for t in DTYPES.values() if t.is_integer]
FLOATS = [F32, F64]


def edge_values(of: DType) -> np.ndarray:
    """Values that have gone wrong somewhere before."""
    if of.is_bool:
        return np.array([False, True])
    if of.is_float:
        inner = [
            0.0,
            -0.0,
            0.5,
            1.0,
            -1.5,
            2.5,
            127.5,
            255.99,
            -129.0,
            32768.0,
            2147483520.0,
            2147483648.0,
            -2147483648.0,
            4294967296.0,
            9.3e18,
        ]
        inner += [1.8446744e19, -9.3e18, 3e38, 1e-40, -1e-40, float("inf"), float("-inf"), float("nan")]
        return np.array(inner, of.numpy)
    numbers = {0, 1, 2, 3, 7, of.bits - 1, of.bits, of.bits + 1, of.maximum, of.maximum - 1, of.minimum, of.minimum + 1}
    numbers |= {-1, -2, -7} if of.is_signed else set()
    return np.array(sorted(numbers), of.numpy)


def check(kernel: object, threads: int, result: DType, **inputs: np.ndarray) -> None:
    expected, found = (np.zeros(threads, result.numpy) for _ in range(2))
    blocks = -(-threads // 32)
    Interpreter(kernel)(blocks, y=expected, **inputs)  # type: ignore[arg-type]
    Runner(kernel)(blocks, y=found, **inputs)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, expected)
    if result.is_float:
        np.testing.assert_array_equal(np.signbit(found[found == found]), np.signbit(expected[expected == expected]))


@pytest.mark.parametrize("of", INTEGERS, ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "shl", "shr", "min", "max"])
def test_integers(of: DType, op: str) -> None:
    pairs = np.array(list(itertools.product(edge_values(of), edge_values(of))), of.numpy)
    k = Builder(op, (32, 1, 1))
    y, a, b = k.view("y", of), k.view("a", of, kind="Slice"), k.view("b", of, kind="Slice")
    i = k.thread_index()
    with k.if_(i < k.length(y)):
        k.store(y, i, k.load(a, i)._binary(op, k.load(b, i)))
    check(k.kernel, len(pairs), of, a=pairs[:, 0].copy(), b=pairs[:, 1].copy())


@pytest.mark.parametrize("of", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_floats(of: DType, op: str) -> None:
    pairs = np.array(list(itertools.product(edge_values(of), edge_values(of))), of.numpy)
    k = Builder(op, (32, 1, 1))
    y, a, b = k.view("y", of), k.view("a", of, kind="Slice"), k.view("b", of, kind="Slice")
    i = k.thread_index()
    with k.if_(i < k.length(y)):
        k.store(y, i, k.load(a, i)._binary(op, k.load(b, i)))
    check(k.kernel, len(pairs), of, a=pairs[:, 0].copy(), b=pairs[:, 1].copy())


@pytest.mark.parametrize("source", [BOOL, *INTEGERS, *FLOATS], ids=str)
def test_conversions(source: DType) -> None:
    values = edge_values(source)
    for target in [BOOL, *INTEGERS, *FLOATS]:
        k = Builder("convert", (32, 1, 1))
        y, a = k.view("y", target), k.view("a", source, kind="Slice")
        i = k.thread_index()
        with k.if_(i < k.length(y)):
            k.store(y, i, k.load(a, i).to(target))
        check(k.kernel, len(values), target, a=values)


@pytest.mark.parametrize("op", ["neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint"])
def test_functions(op: str) -> None:
    values = edge_values(F32)
    k = Builder(op, (32, 1, 1))
    y, a = k.view("y"), k.view("a", kind="Slice")
    i = k.thread_index()
    with k.if_(i < k.length(y)):
        k.store(y, i, k.unary(op, k.load(a, i)))
    with np.errstate(invalid="ignore"):
        check(k.kernel, len(values), F32, a=values)


def test_inactive_lanes_cannot_trap() -> None:
    """Only threads whose divisor is not zero divide; integer division by zero ends a process on x86."""
    k = Builder("divide", (32, 1, 1))
    y, a = k.view("y", I32), k.view("a", I32, kind="Slice")
    i = k.thread_index()
    value = k.load(a, i)
    total = k.variable("total", 0, I32)
    with k.if_(value > 0):
        divisor = value.within(1, 1000)
        k.set(total, (k.lift(1000, I32) // divisor) + (k.lift(1000, I32) % divisor))
    with k.for_(k.special("lane_index") & 3, 0, -1, range=(1, 3)) as (n, _):
        k.set(total, k.get(total) + (k.lift(7, I64) // n).to(I32))
    k.store(y, i, k.get(total))
    check(k.kernel, 32, I32, a=np.arange(-16, 16, dtype=np.int32))
