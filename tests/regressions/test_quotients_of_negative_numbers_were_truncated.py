"""In other kernel languages `//` and `%` of negative numbers were C's, or Python's for literals and C's for what is known at run time only.

Here both are Python's for every sign and width, however the operands are known: read from memory, a parameter, a literal, a captured number, a `Const`.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, FLOATS, INTEGERS, kernel_of, mapped, result_of

import kdsl
from kdsl.lang.types import DType, round_float, wrap

DIVISORS = (-128, -5, -2, -1, 1, 2, 3, 5, 7, 64, 100, 127)


def pairs(of: DType) -> list[tuple[int, int]]:
    edges = {of.minimum, of.minimum + 1, -7, -6, -1, 0, 1, 6, 7, 100, of.maximum - 1, of.maximum}
    divisors = {*DIVISORS, of.minimum, of.maximum, of.maximum // 3}
    return [p for p in itertools.product(sorted(edges), sorted(divisors)) if all(of.minimum <= n <= of.maximum for n in p) and p[1]]


@DEVICES
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_read_from_memory(device: Any, of: DType) -> None:
    both = pairs(of)
    kernel = kernel_of(
        f"y: SliceMut[{of}], a: Slice[{of}], b: Slice[{of}]",
        f"n = {len(both)}\ni = thread_index()\nif i < n:\n    y[i] = a[i] // b[i]\n    y[n + i] = a[i] % b[i]\n"
        "    q = a[i]\n    q //= b[i]\n    r = a[i]\n    r %= b[i]\n    y[2 * n + i] = q * b[i] + r",
        "grid=elements('a'), block=64",
    )
    a, b = (np.array(side, of.numpy) for side in zip(*both, strict=True))
    quotient, remainder, whole = np.split(result_of(device, kernel, 3 * len(both), of, a, b), 3)
    assert quotient.tolist() == [wrap(of, x // y) for x, y in both]
    assert remainder.tolist() == [x % y for x, y in both]
    assert whole.tolist() == a.tolist()


@DEVICES
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_however_the_divisor_is_known(device: Any, of: DType) -> None:
    """A literal, a captured number, a `Const`, a number of an unrolled loop, and a parameter."""
    x = np.array(sorted({of.minimum, of.minimum + 1, max(of.minimum, -7), 0, 1, 6, of.maximum}), of.numpy)
    least, frozen = (of.minimum, -5) if of.is_signed else (1, 7)
    forms = [f"x[i] {op} {d}" for d in (f"({least})", "FROZEN", "given", f"{of}(given)", "d") for op in ("//", "%")]
    kernel = mapped(forms, of.name, f"x: Slice[{of}], d: {of}, given: Const[int]", FROZEN=frozen)
    for given in (-1, 64) if of.is_signed else (3,):
        for d in (least, frozen, 3, of.maximum, given):
            found = result_of(device, kernel, len(forms) * len(x), of, x, d, given)
            by = (least, frozen, given, given, d)
            assert found.tolist() == [wrap(of, v) for y in by for v in (*(n // y for n in x.tolist()), *(n % y for n in x.tolist()))], d


@DEVICES
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_divisors_of_an_unrolled_loop(device: Any, of: DType) -> None:
    start = -3 if of.is_signed else 1
    kernel = kernel_of(
        f"y: SliceMut[{of}], x: Slice[{of}]",
        (
            f"i = thread_index()\nif i in x:\n    for d in unroll({start}, 8, 2):\n        "
            f"y[i * 11 + d + 3] = x[i] // {of}(d)\n        y[11 * len(x) + i * 11 + d + 3] = x[i] % {of}(d)"
        ),
        "grid=elements('x')",
    )
    x = np.array([of.minimum, of.minimum + 5, 0, 6, of.maximum], of.numpy)
    found = result_of(device, kernel, 22 * len(x), of, x).reshape(2, len(x), 11)
    for d in range(start, 8, 2):
        assert found[0, :, d + 3].tolist() == [wrap(of, n // d) for n in x.tolist()]
        assert found[1, :, d + 3].tolist() == [n % d for n in x.tolist()]


@DEVICES
def test_a_literal_is_divided(device: Any) -> None:
    x = np.array([-127, -5, -2, -1, 1, 2, 3, 5, 64, 127], np.int8)
    numbers = (-128, -7, 0, 7, 127)
    kernel = mapped([f"({n}) {op} x[i]" for n in numbers for op in ("//", "%")], "i8", "x: Slice[i8]")
    found = result_of(device, kernel, 10 * len(x), kdsl.dtype("i8"), x)
    assert found.tolist() == [
        wrap(kdsl.dtype("i8"), v) for n in numbers for v in (*(n // d for d in x.tolist()), *(n % d for d in x.tolist()))
    ]


@DEVICES
def test_thread_indices_that_became_negative(device: Any) -> None:
    """Indices are i64 with known ranges, and divisions of such are narrowed: below zero, too."""
    body = "i = thread_index()\n" + "\n".join(
        f"y[{number} * 64 + i] = {e}"
        for number, e in enumerate(
            ["(i - 40) // 7", "(i - 40) % 7", "(7 - i) // 3", "(7 - i) % 3", "(i - 70) // 8", "(i - 70) % 8", "(i * 3 - 96) // -5", "(i * 3 - 96) % -5",
             "(i - 32) // (i - 64)", "(i - 32) % (i - 64)", "len(y) // (i - 64)", "-(i + 1) // 2", "(lane_index() - 16) % 32"]
        )
    )  # fmt: skip
    kernel = kernel_of("y: SliceMut[i64]", body, "grid=1, block=64")
    found = result_of(device, kernel, 13 * 64, kdsl.dtype("i64")).reshape(13, 64)
    for i in range(64):
        expected = [(i - 40) // 7, (i - 40) % 7, (7 - i) // 3, (7 - i) % 3, (i - 70) // 8, (i - 70) % 8, (i * 3 - 96) // -5, (i * 3 - 96) % -5,
                    (i - 32) // (i - 64), (i - 32) % (i - 64), 832 // (i - 64), -(i + 1) // 2, (i % 32 - 16) % 32]  # fmt: skip
        assert found[:, i].tolist() == expected, i


@DEVICES
@pytest.mark.parametrize(
    ("left", "right", "common"),
    [("i8", "u8", "i16"), ("i32", "u32", "i64"), ("u16", "i8", "i32"), ("i16", "u32", "i64"), ("u8", "i64", "i64"), ("u8", "u32", "u32")],
)
def test_operands_of_two_types(device: Any, left: str, right: str, common: str) -> None:
    """The sign of the one and the width of the other both count."""
    a, b, of = kdsl.dtype(left), kdsl.dtype(right), kdsl.dtype(common)
    xs = [n for n in (a.minimum, a.minimum + 1, -7, -1, 0, 7, a.maximum) if a.minimum <= n]
    ys = [n for n in (b.minimum, -3, 1, 2, 5, b.maximum) if n and b.minimum <= n]
    both = list(itertools.product(xs, ys))
    kernel = kernel_of(
        f"y: SliceMut[{of}], a: Slice[{a}], b: Slice[{b}]",
        "i = thread_index()\nif i in a:\n    y[2 * i] = a[i] // b[i]\n    y[2 * i + 1] = a[i] % b[i]",
        "grid=elements('a'), block=32",
    )
    found = result_of(
        device, kernel, 2 * len(both), of, *(np.array(s, t.numpy) for s, t in zip(zip(*both, strict=True), (a, b), strict=True))
    )
    assert found.tolist() == [wrap(of, v) for x, y in both for v in (x // y, x % y)]


@DEVICES
@pytest.mark.parametrize("of", FLOATS, ids=str)
def test_floats(device: Any, of: DType) -> None:
    """CPython's `//` and `%`; a remainder has the sign of the divisor, and so has a zero one."""
    xs = [-7.5, -7.0, -6.0, -1.0, -0.25, -0.0, 0.0, 0.25, 1.0, 6.0, 7.0, 7.5]
    ys = [-5.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 5.0, float("inf"), float("-inf")]
    both = list(itertools.product(xs, ys))
    kernel = kernel_of(
        f"y: SliceMut[{of}], a: Slice[{of}], b: Slice[{of}]",
        "i = thread_index()\nif i in a:\n    y[2 * i] = a[i] // b[i]\n    y[2 * i + 1] = a[i] % b[i]",
        "grid=elements('a'), block=32",
    )
    a, b = (np.array(side, of.numpy) for side in zip(*both, strict=True))
    found = result_of(device, kernel, 2 * len(both), of, a, b).astype(np.float64)
    expected = np.array([round_float(of, v) for x, y in both for v in (x // y, x % y)])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
