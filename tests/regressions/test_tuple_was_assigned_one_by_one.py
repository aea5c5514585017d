"""Elsewhere `a, b = b, a + b` assigned `a` first, and `x[0], x[1] = x[1], x[0]` lost an element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, result_of

import kdsl

I64, F32 = kdsl.dtype("i64"), kdsl.dtype("f32")


@DEVICES
@pytest.mark.parametrize("loop", ["for _ in range(n)", "while n > 0", "for _ in unroll(7)"])
def test_fibonacci(device: Any, loop: str) -> None:
    count = "    n -= 1\n" if loop.startswith("while") else ""
    kernel = kernel_of(
        "y: SliceMut[i64], n: i64", f"a, b = 0, 1\n{loop}:\n{count}    a, b = b, a + b\ny[0], y[1] = a, b", "grid=1, block=1"
    )
    assert result_of(device, kernel, 2, I64, 7).tolist() == [13, 21]


@DEVICES
@pytest.mark.parametrize("memory", ["y", "s", "r"])
def test_elements(device: Any, memory: str) -> None:
    """Of a view, of shared memory, of registers; with indices that are known, and that are not."""
    body = (
        "s = shared_array(6, i64)\nr = local_array(6, i64)\nfor k in range(6):\n    s[k] = y[k]\nfor k in unroll(6):\n    r[k] = y[k]\n"
        f"m = {memory}\nm[0], m[1] = m[1], m[0]\nm[2], m[3], m[4] = m[4], m[2], m[3]\n"
        + ("" if memory == "r" else "m[n], m[n + 1] = m[n + 1], m[n]\n")
        + "for k in unroll(6):\n    y[k] = m[k]"
    )
    kernel = kernel_of("y: SliceMut[i64], n: i64", body, "grid=1, block=1")
    y = device.array(np.arange(10, 16))
    kernel(y, 4)
    assert y.numpy().tolist() == [11, 10, 14, 12, *([13, 15] if memory == "r" else [15, 13])]


@DEVICES
def test_the_index_is_evaluated_after_the_value_and_the_targets_from_left_to_right(device: Any) -> None:
    """`i, x[i] = 2, 7` writes x[2]; Python's order."""
    kernel = kernel_of(
        "y: SliceMut[i64]", "i = 0\ni, y[i] = 2, 7\ny[i + 1], i = i, 0\nj = k = i + 4\ny[j], y[k + 1] = k, j", "grid=1, block=1"
    )
    y = device.zeros(6, I64)
    kernel(y)
    assert y.numpy().tolist() == [0, 0, 7, 2, 4, 4]


@DEVICES
def test_nested_and_under_conditions(device: Any) -> None:
    body = (
        "i = thread_index()\nt3 = (x[i], (x[i] + 1.0, x[i] + 2.0))\np, (q, r) = t3\n(p, q), r = (q, p), r\n"
        "if i % 2 == 0:\n    p, q, r = r, p, q\nelif i % 3 == 0:\n    (p, q), r = (r, q), p\n"
        "for k in range(i % 5):\n    p, q, r = q, r, p\ny[3 * i], y[3 * i + 1], y[3 * i + 2] = p, q, r"
    )
    kernel = kernel_of("y: SliceMut[f32], x: Slice[f32]", body, "grid=1, block=40")
    x = np.random.default_rng(1).random(40, np.float32)
    found = result_of(device, kernel, 120, F32, x).reshape(40, 3)
    for i, v in enumerate(x):
        p, q, r = v + np.float32(1), v, v + np.float32(2)
        if i % 2 == 0:
            p, q, r = r, p, q
        elif i % 3 == 0:
            (p, q), r = (r, q), p
        for _ in range(i % 5):
            p, q, r = q, r, p
        assert found[i].tolist() == [p, q, r]


@DEVICES
def test_functions_that_return_tuples(device: Any) -> None:
    """Through early returns, in loops, rearranged at once, and literals among them."""
    kernel = kernel_of(
        "y: SliceMut[i64], x: Slice[i64]",
        (
            "i = thread_index()\nq, r = parts(x[i], 3)\nr, q = parts(q, r)\nfor _ in range(2):\n    "
            "q, r = parts(r, q)\nif i in x:\n    y[2 * i], y[2 * i + 1] = q, r"
        ),
        "grid=1, block=32",
        parts=_parts,
    )
    x = np.arange(-16, 16)
    found = result_of(device, kernel, 64, I64, x).reshape(32, 2)
    for i, v in enumerate(x.tolist()):
        q, r = _plain(v, 3)
        r, q = _plain(q, r)
        for _ in range(2):
            q, r = _plain(r, q)
        assert found[i].tolist() == [q, r], v


def _plain(a: int, b: int) -> tuple[int, int]:
    if b == 0:
        return 0, a
    if a < b:
        return -1, a - b
    return a // b, a % b


@kdsl.function
def _parts(a, b):  # type: ignore[no-untyped-def]
    """The same in the language."""
    if b == 0:
        return 0, a
    if a < b:
        return -1, a - b
    return a // b, a % b


@pytest.mark.parametrize(
    "statement",
    [
        "a, b = 1, 2, 3",
        "a, b, c = 1, 2",
        "a, b = 1",
        "a, (b, c) = 1, 2",
        "(a, b), c = (1, 2, 3), 4",
        "a, b = parts(1, 2, )[0]",
        "a, b, c = parts(1, 2)",
    ],
)
def test_wrong_numbers_of_values(statement: str) -> None:
    with pytest.raises(kdsl.KernelError, match=r"cannot be (assigned to|taken apart into)"):
        kernel_of("y: SliceMut[i64]", statement, parts=_parts).ir()
