"""Elsewhere a global was used where a closure, a parameter or a local of that name was meant: names were looked up in the wrong order.

A parameter hides a captured name, a closure hides a global, a local hides both wherever it stands in the function, also before its assignment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, module, result_of

import kdsl
from kdsl import Const, SliceMut, f32, i64, kernel

I64 = kdsl.dtype("i64")
N = 5
WIDTH = 100


@kdsl.function
def helper(x: i64) -> i64:
    return x + N


@DEVICES
def test_a_closure_hides_a_global(device: Any) -> None:
    def outer(N: int) -> Any:
        @kernel(grid=1, block=1)
        def k(y: SliceMut[i64]) -> None:
            y[0] = N
            y[1] = helper(0)  # reads its own module's N

        return k

    for n in (7, 8):
        assert result_of(device, outer(n), 2, I64).tolist() == [n, 5]


@DEVICES
def test_a_parameter_hides_what_is_outside(device: Any) -> None:
    @kernel(grid=1, block=1)
    def k(y: SliceMut[i64], N: i64, WIDTH: Const[int], helper: i64) -> None:
        y[0] = N
        y[1] = WIDTH
        y[2] = helper

    assert result_of(device, k, 3, I64, 1, 2, 3).tolist() == [1, 2, 3]


@DEVICES
def test_locals_called_like_functions(device: Any) -> None:
    """What is built into Python, what kdsl provides, and the kernel itself."""

    @kernel(grid=1, block=1)
    def k(y: SliceMut[i64], range: i64, f64: i64) -> None:
        min = range + 1
        len = min * 2
        thread_index = len + 1
        k = thread_index + f64
        i64 = k
        for max in kdsl.unroll(3):
            i64 += max
        y[0] = i64

    assert result_of(device, k, 1, I64, 3, 100).tolist() == [4 * 2 + 1 + 100 + 3]


@pytest.mark.parametrize(
    "body",
    [
        "y[0] = len(y)\nlen = 3",
        "i = thread_index()\nthread_index = 2\ny[i] = 0",
        "y[0] = N\nN = 3",
        "for i in range(2):\n    y[i] = 1\nrange = 3",
        "y[0] = N + 1\nfor N in range(2):\n    pass",
        "N += 1\ny[0] = N",
    ],
)
def test_a_local_hides_a_global_before_its_assignment_too(body: str) -> None:
    """As Python does, where it is an UnboundLocalError: never the global's value."""
    with pytest.raises(kdsl.KernelError, match="has no value here") as caught:
        kernel_of("y: SliceMut[i64]", body, N=4).ir()
    assert "hidden" in caught.value.hint


@DEVICES
def test_functions_have_their_own_names(device: Any) -> None:
    """The caller's locals are not the callee's, whatever they are called; two calls do not share any."""
    space = module(
        "t = 50\n@function\ndef f(x):\n    t = x + 1\n    for i in range(3):\n        t += i\n    return t\n@function\ndef g(x):\n    return x + t\n"
        "@kernel(grid=1, block=1)\ndef k(y: SliceMut[i64]) -> None:\n    t = 1\n    i = 2\n    "
        "x = 3\n    y[0] = f(t) + f(i) * 100 + g(x) * 10000\n    y[1] = t\n    y[2] = i\n    y[3] = x\n"
    )
    assert result_of(device, space["k"], 4, I64).tolist() == [5 + 600 + 530000, 1, 2, 3]


@DEVICES
def test_names_of_one_branch_and_of_another(device: Any) -> None:
    """One name, bound in two branches and in a loop, each time to another kind of value."""
    kernel = kernel_of(
        "y: SliceMut[f32], x: Slice[f32], n: i64",
        "i = thread_index()\nif i < 10:\n    v = x[i]\n    y[i] = v\nelse:\n    "
        "v = i * n\n    y[i] = f32(v)\nfor k in range(2):\n    w = f32(k)\n    y[i] += w\n"
        "for k in range(3):\n    w = k * n\n    y[i] += f32(w)",
        "grid=1, block=32",
    )
    x = np.arange(32, dtype=np.float32) * 0.5
    found = result_of(device, kernel, 32, kdsl.dtype("f32"), x, 7)
    assert found.tolist() == [(x[i] if i < 10 else i * 7) + 1 + 21 for i in range(32)]


def test_a_parameter_called_like_its_own_type_or_module() -> None:
    """Annotations are evaluated outside, where the name still is the type."""

    @kernel(grid=1, block=1)
    def k(y: SliceMut[f32], f32: f32, kdsl: i64) -> None:
        y[0] = f32 * 2 if kdsl > 0 else f32

    assert k.ir()


@DEVICES
def test_arguments_are_the_callers_own(device: Any) -> None:
    """Assigning to a parameter changes nothing for the caller, in a function and on the host; elements of an array are the caller's."""
    space = module(
        "@function\ndef f(x, a):\n    x += 1\n    a[0] = x\n    x = x * 2\n    return x\n"
        "@kernel(grid=1, block=1)\ndef k(y: SliceMut[i64], n: i64, p: Point) -> None:\n    "
        "s = local_array(1, i64)\n    m = n\n    y[0] = f(n, s)\n    y[1] = n\n    y[2] = s[0]\n"
        "    n *= 10\n    y[3] = n\n    y[4] = m\n    q = p.x\n    q += 1\n    y[5] = p.x\n",
        Point=module('@struct\nclass Point:\n    """One."""\n    x: i64\n    """It."""\n')["Point"],
    )
    n, point = np.int64(7), space["Point"](x=3)
    assert result_of(device, space["k"], 6, I64, n, point).tolist() == [16, 7, 8, 70, 7, 3]
    assert (n, point.x) == (7, 3)


@pytest.mark.parametrize(
    ("statement", "message"),
    [("p.x = 1", "field"), ("p.x += 1", "field"), ("y.shape = 3", "field"), ("f = f", "no value"), ("y[0] = i64(2)\ni64 = 3", "no value")],
)
def test_what_cannot_be_assigned(statement: str, message: str) -> None:
    point = module('@struct\nclass Point:\n    """One."""\n    x: i64\n    """It."""\n')["Point"]
    with pytest.raises(kdsl.KernelError, match=message) as caught:
        kernel_of("y: SliceMut[i64], p: Point", statement, Point=point, f=helper).ir()
    assert caught.value.hint
