"""Which accesses are checked: those that guards, ranges and the contract do not prove."""

from __future__ import annotations

import pytest
from text import kernel_of, ops

from kdsl.ir import nodes

PARAMETERS = "y: SliceMut[f32], x: Slice[f32], index: Slice[i32], n: u32"


def checked(kernel: nodes.Kernel) -> list[str]:
    accesses = [op for op in nodes.walk(kernel.body) if isinstance(op, nodes.Load | nodes.Store)]
    return [op.memory.name for op in accesses if op.checked]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("i = thread_index()\ny[i] = 0", ["y"]),
        ("i = thread_index()\nif i in y:\n    y[i] = 0", []),
        ("i = thread_index()\nif i < len(y):\n    y[i] = 0", []),
        ("i = thread_index()\nif len(y) > i:\n    y[i] = 0", []),
        ("i = thread_index()\nif i <= len(y):\n    y[i] = 0", ["y"]),
        ("i = thread_index()\nif i in y:\n    y[i + 1] = 0", ["y"]),
        ("i = thread_index()\nif i in x:\n    y[i] = 0", ["y"]),
        ("i = thread_index()\nif i in y and n > 3:\n    y[i] = 0", []),
        ("i = thread_index()\nif i in y or n > 3:\n    y[i] = 0", ["y"]),
        ("i = thread_index()\nif not (i in y):\n    return\ny[i] = 0", []),
        ("i = thread_index()\nif i >= len(y) or n < 3:\n    return\ny[i] = 0", []),
        ("i = thread_index()\nif i in y:\n    pass\nelse:\n    return\ny[i] = 0", []),
        ("i = thread_index()\ny[i if i in y else 0] = x[i] if i in x else 0.0", ["y"]),
        ("i = thread_index()\nif i in y and x[i] > 0:\n    y[i] = 0", ["x"]),
        ("i = thread_index()\nif i in x and x[i] > 0:\n    y[0] = 0", ["y"]),
        ("for i in range(len(y)):\n    y[i] = 0", []),
        ("for i in range(3, len(y), 2):\n    y[i] = 0", []),
        ("for i in range(thread_index(), len(y), 1024):\n    y[i] = 0", []),
        ("for i in range(n, len(y)):\n    y[i] = 0", []),
        ("for i in range(-1, len(y)):\n    y[i] = 0", ["y"]),
        ("for i in range(len(y) - 1, -1, -1):\n    y[i] = 0", ["y"]),
        ("i = 0\nwhile i < len(y):\n    y[i] = 0\n    i += 1", ["y"]),  # the sign of a variable is not tracked
        ("j = index[0]\nif j in y:\n    y[j] = 0", ["index"]),
        ("j = index[0]\nif j < len(y):\n    y[j] = 0", ["index", "y"]),
        ("j = index[0]\nif 0 <= j < len(y):\n    y[j] = 0", ["index"]),
        ("if n in y:\n    y[n] = 0", []),
        ("if n * 2 + 1 < len(y):\n    y[n * 2 + 1] = 0", []),
        ("y.unchecked[n] = x.unchecked[n]", []),
    ],
)
def test_guards(body: str, expected: list[str]) -> None:
    assert checked(kernel_of(body, PARAMETERS)) == expected


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        ("'len(x) >= len(y)'", []),
        ("'len(x) == len(y)'", []),
        ("'len(y) <= len(x)'", []),
        ("'len(y) == len(x) == n'", []),
        ("'len(index) == len(y)', 'len(x) >= len(index)'", []),
        ("'len(x) >= len(y) and n > 3'", []),
        ("'len(x) <= len(y)'", ["x"]),
        ("'len(x) >= len(y) or n > 3'", ["x"]),
        ("'len(x) >= len(y) - 1'", ["x"]),
    ],
)
def test_contract(requires: str, expected: list[str]) -> None:
    kernel = kernel_of("i = thread_index()\nif i in y:\n    y[i] = x[i]", PARAMETERS, f"grid=elements('y'), requires=({requires},)")
    assert checked(kernel) == expected


@pytest.mark.parametrize(
    ("options", "body", "expected"),
    [
        ("grid=sweep(blocks=8), requires='len(y) == 8'", "y[block_idx.x] = 0", []),
        ("grid=sweep(blocks=9), requires='len(y) == 8'", "y[block_idx.x] = 0", ["y"]),
        ("grid=(4, 3), requires='len(y) >= 12'", "y[block_idx.y * 4 + block_idx.x] = 0", []),
        ("grid=1, requires='len(y) >= 5'", "y[4] = 0\ny[5] = 0", ["y"]),
    ],
)
def test_geometry_and_lengths(options: str, body: str, expected: list[str]) -> None:
    assert checked(kernel_of(body, PARAMETERS, options)) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("s[thread_idx.x] = 0", []),
        ("s[thread_idx.x + 1] = 0", ["s"]),
        ("s[lane_index()] = 0", []),
        ("s[n % 64] = 0", []),
        ("s[n & 63] = 0", []),
        ("s[n] = 0", ["s"]),
        ("if n < 64:\n    s[n] = 0", []),
        ("for i in range(64):\n    s[i] = 0", []),
        ("for i in range(65):\n    s[i] = 0", ["s"]),
        ("for i in range(63, -1, -1):\n    s[i] = 0", []),
        ("for i in range(n):\n    if i < 64:\n        s[i] = 0", []),
        ("s[min(n, 63)] = 0", []),
        ("s[thread_idx.x // 2 + 32] = 0", []),
        ("t = shared_array((2, 64), f32)\nt[n & 1, thread_idx.x] = 0", []),
        ("t = shared_array((2, 64), f32)\nt[n & 3, thread_idx.x] = 0", ["t"]),
    ],
)
def test_shared_arrays(body: str, expected: list[str]) -> None:
    kernel = kernel_of(f"s = shared_array(64, f32)\n{body}", PARAMETERS, "grid=1, block=64")
    assert checked(kernel) == expected


def test_a_checked_build_checks_everything_of_views() -> None:
    from text import define

    from kdsl.frontend.build import build

    kernel = define("@kernel(grid=1)\ndef k(y: SliceMut[f32]) -> None:\n    if 3 in y:\n        y[3] = y.unchecked[2]\n")["k"]
    ir = build(kernel._source, kernel.declaration, {}, {}, checks="all")
    assert checked(ir) == ["y", "y"]


def test_an_assertion_says_its_message_or_its_condition() -> None:
    kernel = kernel_of("assert n > 3, 'n is small'\nassert y[0] >= 0\nassert 1 < 2", PARAMETERS)
    sites = [kernel.sites[op.site] for op in ops(kernel, nodes.Assertion)]
    assert [(site.kind, site.name) for site in sites] == [("assert", "n is small"), ("assert", "y[0] >= 0")]
