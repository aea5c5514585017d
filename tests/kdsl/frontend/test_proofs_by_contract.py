"""Indices that the contract bounds by products of sizes: what is proved, and what must not be."""

from __future__ import annotations

import numpy as np
import pytest
from test_checks import checked
from text import kernel_of

import kdsl
from kdsl import (
    DisjointSlice,
    Slice,
    SliceMut,
    compiler,
    elements,
    f32,
    i64,
    kernel,
    lane_index,
    row_index,
    rows,
    struct,
    thread_index,
    u32,
)

PARAMETERS = "y: SliceMut[f32], x: Slice[f32], index: Slice[i32], n: u32, m: u32, s: i64"
MATRIX = "grid=rows('n'), requires=('len(y) == n * m',)"
LOOP = "row = row_index()\nif row < n:\n    for column in range(lane_index(), m, 32):\n        "
FLAT = "i = thread_index()\nif i in y:\n    "


def test_rows_and_columns() -> None:
    for body in ("y[row * m + column] = 0", "y[row * m + m - 1 - column] = 0", "y[column * n + row] = 0", "y[(row * m + column) // 2] = 0"):
        assert checked(kernel_of(LOOP + body, PARAMETERS, MATRIX)) == [], body


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (MATRIX, LOOP + "y[row * m + column + 1] = 0"),
        (MATRIX, LOOP + "y[(row + 1) * m + column] = 0"),
        (MATRIX, LOOP + "y[column * m + row] = 0"),
        (MATRIX, LOOP.replace("row < n", "row <= n") + "y[row * m + column] = 0"),
        (MATRIX, LOOP.replace(", m,", ", m + 1,") + "y[row * m + column] = 0"),
        (MATRIX, LOOP + "y[row * m + column - 1] = 0"),
        (MATRIX.replace("==", "<="), LOOP + "y[row * m + column] = 0"),
        (MATRIX.replace("n * m", "n * m - 1"), LOOP + "y[row * m + column] = 0"),
        (MATRIX.replace("== n * m", ">= n * m or n == 7"), LOOP + "y[row * m + column] = 0"),
        (MATRIX, LOOP + "y[row * s + column] = 0"),
    ],
)
def test_one_too_many(options: str, body: str) -> None:
    assert checked(kernel_of(body, PARAMETERS, options)) == ["y"]


@pytest.mark.parametrize(
    ("requires", "body", "expected"),
    [
        ("'len(y) == n * m', 'len(x) == n'", "y[i] = x[i // m]", []),
        ("'len(y) == n * m', 'len(x) == m'", "y[i] = x[i % m]", []),
        ("'len(y) == n * m', 'len(x) == m'", "y[i] = x[i // m]", ["x"]),
        ("'len(y) == n * m', 'len(x) >= m - 1'", "y[i] = x[i % m]", ["x"]),
        ("'len(x) == m'", "y[i] = x[i % m]", ["x"]),  # m may be 0, and i % 0 is 0
        ("'len(x) == m', 'm >= 1'", "y[i] = x[i % m]", []),
        ("'len(x) == m', 'm >= 1 or n == 0'", "y[i] = x[i % m]", ["x"]),
        ("'len(x) == m', 'm >= 1 or n == 0', 'len(y) <= n'", "y[i] = x[i % m]", []),
        ("'len(x) == m', 'm >= 1 or s == 0', 'len(y) <= s'", "y[i] = x[i % m]", []),
        ("'len(x) == m * len(y)',", "for j in range(m):\n        y[i] = x[j * len(y) + i]", []),
        ("'len(x) == m * len(y)',", "for j in range(m):\n        y[i] = x[j * len(y) - i]", ["x"]),
        ("'len(x) >= len(index)', 'len(index) == len(y)'", "y[i] = x[i]", []),
        # strides with signs: the least element of the array is the first one only if they are not negative
        ("'extent((len(y), s)) <= len(x)',", "y[i] = x[i * s]", ["x"]),
        ("'extent((n, s), (m, 1)) <= len(x)', 'len(y) == n * m'", "y[i] = x[i // m * s + i % m]", ["x"]),
        ("'extent((n, s), (m, 1)) <= len(x)', 'len(y) == n * m', 's >= 0'", "y[i] = x[i // m * s + i % m]", []),
        # u32 * u32 wraps unless a length bounds it
        ("'len(x) == 4',", "k = n * m\n    if k < 4:\n        y[i] = x[k]", []),
        ("'len(x) >= n', 'len(y) == n'", "for j in range(n * m):\n        y[i] = x[j // m]", ["x"]),
        ("'len(x) >= n', 'len(index) == n * m'", "for j in range(n * m):\n        y[i] = x[j // m]", ["x"]),
        ("'len(x) >= n', 's == 3 * n * m', 'm * n <= n'", "for j in range(n * m):\n        y[i] = x[j // m]", []),
        ("'len(x) == n',", "y[i] = x[index[i] % n]", ["index", "x"]),
        ("'len(x) == n', 'n > 0'", "y[i] = x[index[i] % n]", ["index"]),
    ],
)
def test_one_dimension(requires: str, body: str, expected: list[str]) -> None:
    assert checked(kernel_of(FLAT + body, PARAMETERS, f"grid=elements('y'), requires=({requires})")) == expected


@struct
class Sizes:
    """Sizes."""

    n: u32
    """Rows."""
    m: u32
    """Columns."""
    s: i64
    """Distance of rows."""


@kernel(grid=rows("p.n"), requires=("extent((p.n, p.s), (p.m, 1)) <= len(y)", "p.s >= 0", "len(x) == p.n * p.m"))
def strided(y: SliceMut[f32], x: Slice[f32], p: Sizes) -> None:
    """Rows apart."""
    row = row_index()
    if row < p.n:
        for column in range(lane_index(), p.m, 32):
            y[row * p.s + column] = x[row * p.m + column]


@kernel(grid=elements("y"), block=32, requires=("len(y) == p.n * p.m", "len(x) == p.m * p.n"))
def turned(y: DisjointSlice[f32], x: Slice[f32], p: Sizes) -> None:
    """Rows become columns."""
    i = thread_index()
    if i in y:
        y[i] = x[i % p.m * p.n + i // p.m]


@pytest.mark.parametrize("n", [0, 1, 2, 33])
@pytest.mark.parametrize("m", [0, 1, 31, 33])
def test_what_is_proved_holds_in_a_checked_build(n: int, m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    device = kdsl.device("cpu")
    x = np.random.default_rng(0).standard_normal(n * m, dtype=np.float32)
    assert checked(strided.ir()) == checked(turned.ir()) == []
    monkeypatch.setattr(compiler, "_checks", "all")
    for apart in (m, m + 3):
        y = device.full((n - 1) * apart + m if n and m else 0, np.nan, f32)
        strided_again(y, device.array(x), Sizes(n=n, m=m, s=apart))
        device.synchronize()
        assert [y.numpy()[i * apart + j] for i in range(n) for j in range(m)] == list(x)
    z = device.full(n * m, np.nan, f32)
    turned_again(z, device.array(x), Sizes(n=n, m=m, s=0))
    device.synchronize()
    assert (z.numpy() == x.reshape(m, n).T.ravel()).all()


strided_again = kernel(grid=rows("p.n"), requires=strided.declaration.requires)(strided.__wrapped__)
turned_again = kernel(grid=elements("y"), block=32, requires=turned.declaration.requires)(turned.__wrapped__)
