"""What the compiler decides while it compiles: dead branches, unrolled loops, arrays in registers."""

from __future__ import annotations

import numpy as np
import pytest
from ir_evaluator import run
from text import define, kernel_of, ops

from kdsl.ir import nodes
from kdsl.ir.verifier import verify


@pytest.mark.parametrize(
    ("setting", "expected"),
    [(True, 1), (False, 2)],
)
def test_a_dead_branch_is_not_checked_for_types(setting: bool, expected: int) -> None:
    text = (
        "@kernel(grid=1, block=1)\n"
        "def k(y: SliceMut[i32], *, exact: Const[bool]) -> None:\n"
        "    if exact:\n        value = y[0] + 1\n"
        "    else:\n        value = y[0] + 2\n"
        "    if not exact or len(y) > 0:\n        y[0] = value\n"
        "    elif exact:\n        y[0] = value\n"
        "    else:\n        y[0] = 'nonsense' + 1\n"
    )
    ir = define(text)["k"].ir(exact=setting)
    y = np.zeros(1, np.int32)
    run(ir, y=y)
    assert y[0] == expected


@pytest.mark.parametrize(
    "condition",
    ["N > 3", "not N", "N == 2 and 1.5 in y", "N == 3 or 1.5 in y", "y.dtype == f64", "y.dtype is not f32", "2 < N < 1.5 * 2"],
)
def test_conditions_that_the_compiler_knows(condition: str) -> None:
    ir = kernel_of(f"y[0] = 1\nif {condition}:\n    y[0] = 0", "y: SliceMut[f32]", N=3)
    assert not ops(ir, nodes.If)


def test_an_assigned_variable_is_no_compile_time_constant() -> None:
    ir = kernel_of("flag = 0\nif flag:\n    y[0] = 0\n    flag = 1", "y: SliceMut[f32]")
    assert len(ops(ir, nodes.If)) == 1


def body_of_unrolled(a: int, b: int) -> int:
    """The Python twin of the kernel below."""
    total = 0
    last = -1
    for i in range(6):
        if i == a:
            continue
        total = total * 3 + i
        for j in range(5, 0, -2):
            if j == b:
                break
            total += j
        else:
            total += 100
        last = i
        if total > 900:
            break
    else:
        total += 1000
    return total * 10 + last


def test_unrolled_loops_jump_as_in_python() -> None:
    text = (
        "@function\n"
        "def body(a: i64, b: i64) -> i64:\n"
        "    total = 0\n    last = -1\n"
        "    for i in unroll(6):\n"
        "        if i == a:\n            continue\n"
        "        total = total * 3 + i\n"
        "        for j in unroll(5, 0, -2):\n"
        "            if j == b:\n                break\n"
        "            total += j\n"
        "        else:\n            total += 100\n"
        "        last = i\n"
        "        if total > 900:\n            break\n"
        "    else:\n        total += 1000\n"
        "    return total * 10 + last\n"
    )
    body = define(text)["body"]
    ir = kernel_of("y[0] = body(a, b)", "y: SliceMut[i64], a: i64, b: i64", "grid=1, block=1", body=body)
    for a in range(-1, 7):
        for b in (1, 2, 3, 5):
            y = np.zeros(1, np.int64)
            run(ir, y=y, a=a, b=b)
            assert y[0] == body_of_unrolled(a, b)


def test_an_unrolled_index_is_a_constant() -> None:
    ir = kernel_of("for i in unroll(3):\n    if i % 2 == 0:\n        y[i * i] = f32(i)", "y: SliceMut[f32]")
    assert [store.indices[0].value for store in ops(ir, nodes.Store)] == [0, 4]
    assert not ops(ir, nodes.If)


def test_a_value_of_the_trip_before() -> None:
    ir = kernel_of(
        "for i in unroll(3):\n    if i > 0:\n        y[i] = x\n    x = y[i] + 1\n    if x > 5:\n        continue\n    y[7] = x",
        "y: SliceMut[f32]",
        "grid=1, block=1",
    )
    y = np.array([1, 0, 0, 0, 0, 0, 0, 0], np.float32)
    run(ir, y=y)
    assert y.tolist() == [1, 2, 3, 0, 0, 0, 0, 4]


def test_a_local_array_with_known_indices_lives_in_registers() -> None:
    ir = kernel_of(
        "a = local_array((2, 3), f32)\nfor i in unroll(2):\n    for j in unroll(3):\n        a[i, j] = f32(i * 3 + j)\ny[0] = a[1, 2]",
        "y: SliceMut[f32]",
        "grid=1, block=1",
    )
    assert not ir.arrays
    y = np.zeros(1, np.float32)
    run(ir, y=y)
    assert y[0] == 5


def test_a_local_array_with_an_unknown_index_lives_in_memory() -> None:
    ir = kernel_of("a = local_array(3, f32)\na[0] = 1\na[n] = 2\ny[0] = a[0]", "y: SliceMut[f32], n: i32", "grid=1, block=1")
    assert [(array.name, array.shape, array.space) for array in ir.arrays] == [("a", (3,), "local")]
    assert not ir.variables


def test_arrays_keep_their_names_for_people() -> None:
    ir = kernel_of("tile = shared_array((4, 8), f32)\ntile[0, thread_idx.x % 8] = 1", "y: SliceMut[f32]")
    assert [(array.name, array.shape) for array in ir.arrays] == [("tile", (4, 8))]


def test_equal_expressions_are_computed_once() -> None:
    ir = kernel_of("if a * b > 1:\n    y[0] = a * b\ny[1] = a * b", "y: SliceMut[f32], a: f32, b: f32")
    assert len([op for op in ops(ir, nodes.Binary) if op.op == "mul"]) == 1


def test_sites_are_shared_by_the_trips_of_an_unrolled_loop() -> None:
    ir = kernel_of("for i in unroll(5):\n    y[i] = 1", "y: SliceMut[f32]")
    assert len(ir.sites) == 1
    verify(ir)
