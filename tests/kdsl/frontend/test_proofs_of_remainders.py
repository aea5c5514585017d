"""Indices `i - k * hop` with k between two quotients by `hop`: what is proved, and what must not be."""

from __future__ import annotations

import numpy as np
import pytest
from test_checks import checked
from text import kernel_of

import kdsl
from kdsl import compiler, elements, f32, kernel
from kdsl.frontend.inequalities import Inequalities
from kdsl.frontend.polynomials import Polynomial
from kdsl.frontend.relations import contract_relations
from staleynet.kernels.signal import Framing, overlap_add

PARAMETERS = "y: DisjointSlice[f32], x: Slice[f32], n: u32, size: u32, hop: u32, s: i64"
FIRST, END = "max((i - size) // hop + 1, 0)", "min(i // hop + 1, n)"


def left(first: str = FIRST, end: str = END, index: str = "i - k * hop", requires: str = "'hop >= 1'") -> list[str]:
    """The checks that are left in a loop from `first` to `end`."""
    body = f"i = thread_index()\nif i in y:\n    for k in range({first}, {end}):\n        y[i] = x[{index}]"
    return checked(kernel_of(body, PARAMETERS, f"grid=elements('y'), requires=('len(x) == size', {requires})"))


def test_what_is_left_of_an_index() -> None:
    assert left() == []
    assert left(index="i - hop * k") == []
    assert left(end="i // hop + 1") == []
    assert left(first="max((i - size) // hop + 2, 0)") == []
    assert left(first="max((i - (size - 1)) // hop + 1, 0)", requires="'hop >= 1', 'size >= 1'") == []
    assert left(end="min(i // hop, n)") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"end": "min(i // hop + 2, n)"},  # k may be one too large, and the index negative
        {"end": "n"},
        {"end": "max(i // hop + 1, n)"},
        {"end": "min((i + 1) // hop + 1, n)"},
        {"end": "min(i // size + 1, n)"},
        {"first": "max((i - size) // hop, 0)"},  # k may be one too small, and the index `size`
        {"first": "max((i - size - 1) // hop + 1, 0)"},
        {"first": "max((i - size) // size + 1, 0)"},
        {"first": "min((i - size) // hop + 1, 0)"},  # k may be negative
        {"first": "0"},
        {"index": "i - k * hop + 1"},
        {"index": "i - k * hop - 1"},
        {"index": "i - (k + 1) * hop"},
        {"index": "i - k * size"},
        {"index": "i + 1 - k * hop"},
        {"requires": "'n >= 1'"},  # hop may be 0, and i // 0 is 0
        {"requires": "'hop >= 0'"},
        {"first": "max((i - s) // hop + 1, 0)", "requires": "'hop >= 1', 's <= size'"},  # i - s wraps for the least s
        {"first": FIRST.replace("hop", "s"), "end": END.replace("hop", "s"), "index": "i - k * s", "requires": "'s >= 0'"},
    ],
)
def test_one_too_many(changes: dict[str, str]) -> None:
    assert left(**changes) == ["x"]


@pytest.mark.parametrize(("size", "expected"), [("size", []), ("s", ["x"])])
def test_a_size_that_may_be_negative(size: str, expected: list[str]) -> None:
    """`i - s` wraps for the least s, and is then far below k * hop."""
    loop = f"for k in range(0, i // hop + 1):\n        if k > (i - {size}) // hop and {size} < 8:\n            y[i] = x[i - k * hop]"
    options = "grid=elements('y'), requires=('hop >= 1', 'len(x) >= 7')"
    assert checked(kernel_of(f"i = thread_index()\nif i in y:\n    {loop}", PARAMETERS, options)) == expected


@pytest.mark.parametrize(("number", "expected"), [("i64(n)", []), ("s", ["x"])])
def test_a_number_that_may_be_negative(number: str, expected: list[str]) -> None:
    """`s * hop` wraps for an s that is far below 0, and may then exceed i."""
    guards = f"if {number} <= i // hop:\n        j = i - {number} * hop\n        if j < len(x):\n            y[i] = x[j]"
    options = "grid=elements('y'), requires=('hop >= 1', 'len(x) == size')"
    assert checked(kernel_of(f"i = thread_index()\nif i in y:\n    {guards}", PARAMETERS, options)) == expected


again = kernel(grid=elements("signal"), requires=overlap_add.declaration.requires)(overlap_add.__wrapped__)


@pytest.mark.parametrize(("count", "size", "hop"), [(1, 1, 1), (3, 5, 2), (3, 5, 5), (2, 3, 7), (4, 33, 31), (0, 5, 2)])
def test_frames_that_overlap_in_a_checked_build(count: int, size: int, hop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(overlap_add.ir()) == []
    monkeypatch.setattr(compiler, "_checks", "all")
    device, rng = kdsl.device("cpu"), np.random.default_rng(0)
    frames, window = rng.standard_normal((count, size)), rng.random(size) + 0.5
    length = (count - 1) * hop + size if count else 0
    signal = device.full(length, np.nan, f32)
    again(
        signal,
        device.array(frames.astype(np.float32).ravel()),
        device.array(window.astype(np.float32)),
        Framing(count=count, size=size, hop=hop),
    )
    device.synchronize()
    total, weight = np.zeros(length), np.zeros(length)
    for number in range(count):
        total[number * hop :][:size] += window * frames[number]
        weight[number * hop :][:size] += window**2
    np.testing.assert_allclose(signal.numpy(), total / np.where(weight > 0, weight, 1), rtol=1e-4, atol=1e-5)


def test_examples_by_which_wrong_inequalities_are_found_out_are_possible() -> None:
    relations = contract_relations(("extent((n, s), (m, 1)) <= len(x)", "len(x) <= len(y)", "n <= m"))
    known = Inequalities({"n": (1, 9), "m": (1, 9), "s": (0, 99), "x": (0, 10**6), "y": (0, 10**6)}, tuple(r.difference for r in relations))
    assert known._examples
    for example in known._examples:
        assert all(relation.least(example) >= 0 for relation in known.relations)
        assert all(low <= example[(name,)][0] == example[(name,)][1] <= high for name, (low, high) in known._ranges.items())
    x, y, n, m = (Polynomial.name(name) for name in "xynm")
    assert known.proves(y - m)
    assert known.proves(x - n)
    assert not known.proves(n - m)
    assert not known.proves(x - m - Polynomial.number(1))
