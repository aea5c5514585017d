"""Reads of which the row is checked in place of the index: only where that says the same."""

import pytest
from text import kernel_of, ops

from kdsl.ir import nodes

PARAMETERS = "y: DisjointSlice[f32], x: Slice[f32], index: Slice[i32], far: Slice[i64], n: u32, m: u32, s: i64"
FLAT = "i = thread_index()\nif i in y:\n    "
ROWS = "'len(y) == len(index) * m', 'len(far) == len(index)'"
READ = "y[i] = x[index[i // m] * m + i % m]"


def rows(body: str, requires: str) -> list[tuple[bool, str]]:
    """Whether the reads of `x` are checked, and how their rows are counted."""
    kernel = kernel_of(FLAT + body, PARAMETERS, f"grid=elements('y'), requires=({requires})")
    reads = [op for op in ops(kernel, nodes.Load) if op.memory.name == "x"]
    return [(op.checked, _count(op.row_check.count) if op.row_check is not None else "") for op in reads]


def _count(value: nodes.ValueOp) -> str:
    return (
        value.parameter.name
        if isinstance(value, nodes.ParameterValue)
        else f"len({value.view.name})"
        if isinstance(value, nodes.Length)
        else "?"
    )


@pytest.mark.parametrize(
    ("body", "requires", "count"),
    [
        (READ, f"{ROWS}, 'len(x) == n * m'", "n"),
        (READ, f"{ROWS}, 'len(x) == m * n'", "n"),
        (READ, f"{ROWS}, 'len(x) == len(index) * m'", "len(index)"),
        (READ, f"{ROWS}, 'len(x) == n * m', 'len(index) == n'", "n"),
        ("y[i] = x[i % m + m * index[i // m]]", f"{ROWS}, 'len(x) == n * m'", "n"),
        ("y[i] = x[i64(index[i // m]) * 4 + i % 4]", f"{ROWS}, 'len(x) == n * 4'", "n"),
        ("y[i] = x[i64(index[i // m]) * m + (m - 1 - i % m)]", f"{ROWS}, 'len(x) == n * m'", "n"),
    ],
)
def test_the_row_says_the_same(body: str, requires: str, count: str) -> None:
    assert rows(body, requires) == [(True, count)]


@pytest.mark.parametrize(
    ("body", "requires"),
    [
        (READ, f"{ROWS}, 'len(x) >= n * m'"),  # a row behind the last one may be inside
        (READ, f"{ROWS}, 'len(x) <= n * m'"),
        (READ, f"{ROWS}, 'len(x) == n * m + 1'"),
        (READ, f"{ROWS}, 'len(x) == n * n'"),
        (READ, ROWS),
        (READ, f"{ROWS}, 'len(x) == s * m'"),  # a number of rows that may be negative
        (READ, f"{ROWS}, 'len(x) == 3 * n * m'"),  # no single number
        ("y[i] = x[index[i // m] * m + i % m + 1]", f"{ROWS}, 'len(x) == n * m'"),  # the first column of the row behind
        ("y[i] = x[index[i // m] * m + i % n]", f"{ROWS}, 'len(x) == n * m'"),
        ("y[i] = x[index[i // m] * m + i % m - 1]", f"{ROWS}, 'len(x) == n * m'"),
        ("y[i] = x[index[i // m] * m - i % m]", f"{ROWS}, 'len(x) == n * m'"),
        ("y[i] = x[index[i // m] * n + i % m]", f"{ROWS}, 'len(x) == n * m'"),
        ("y[i] = x[far[i // m] * m + i % m]", f"{ROWS}, 'len(x) == n * m'"),  # the product may wrap
        ("y[i] = x[index[i // m] * 4 + i % 4]", f"{ROWS}, 'len(x) == n * 4'"),  # the same of 32 bits
        ("y[i] = x[index[i // m] * m + i % m]", "'len(y) == len(index) * n', 'len(x) == n * m'"),  # m may be 0
    ],
)
def test_the_row_does_not_say_it(body: str, requires: str) -> None:
    assert rows(body, requires) == [(True, "")]


def test_a_proved_read_has_no_check() -> None:
    assert rows("if 0 <= index[i // m] < n:\n        y[i] = x[i // m * m + i % m]", f"{ROWS}, 'len(x) == len(y)'") == [(False, "")]
