"""Elsewhere the optimiser took the failing side of a check for one that is never reached, and deleted the check; or unrolling dropped those beside it.

Whatever becomes of the value, an access outside is left out and recorded, with the line and column of the access; an assertion likewise.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, module

import kdsl
from kdsl.backend.nvptx import compile_ptx
from kdsl.testing.ptx import assemble


@kdsl.function
def touched(x, n):  # type: ignore[no-untyped-def]
    """Reads, and forgets."""
    v = x[n]  # noqa: F841


@kdsl.function
def guarded(x, n):  # type: ignore[no-untyped-def]
    """Leaves before a read that would fail, for negative n only."""
    if n < 0:
        return 0.0
    for k in kdsl.unroll(2):
        if k == 1:
            return x[n + k]
    return 1.0


OUTSIDE: dict[str, tuple[str, str]] = {
    "gather": ("y[0] = x[j[n % 2]]", "x"),
    "unused": ("v = x[n]", "x"),
    "times zero": ("y[0] = x[n] * 0.0", "x"),
    "overwritten": ("v = x[n]\nv = 1.0\ny[0] = v", "x"),
    "used where the program never comes": ("v = x[n]\nif n > 100000:\n    y[0] = v", "x"),
    "minimum with a constant": ("y[0] = min(x[n], 0.0)", "x"),
    "unused in a loop": ("for k in range(3):\n    v = x[n + k]", "x"),
    "unrolled": ("for k in unroll(3):\n    y[k] = x[n + k]", "x"),
    "before an unrolled loop": ("y[n] = 1.0\nfor k in unroll(4):\n    y[k] = 2.0", "y"),
    "inside one, in the last trip": ("for k in unroll(4):\n    y[k] = x[k + n - 4]", "x"),
    "after one": ("for k in unroll(4):\n    y[k] = 2.0\ny[n] = 1.0", "y"),
    "after one that was left": ("for k in unroll(4):\n    if y[k] > 5.0:\n        break\nelse:\n    y[n] = 1.0\ny[0] = 1.0", "y"),
    "beside a division by zero": ("zero = n - n\ny[n] = f32(n // zero)", "y"),
    "in the head of a loop": ("k = n\nwhile k > 7 and x[k] == 0.0:\n    k -= 1\ny[0] = f32(k)", "x"),
    "in a chain of comparisons": ("y[0] = 1.0 if 0.0 <= x[n] < x[n + 1] else 0.0", "x"),
    "the index of an index": ("y[i32(x[n])] = 1.0", "x"),
    "what is stored where it was read": ("y[n] = y[n]", "y"),
    "augmented": ("y[n] += 1.0", "y"),
    "through a function": ("touched(x, n)", "x"),
    "behind an early return": ("y[0] = guarded(x, n)", "x"),
    "shared": ("s = shared_array(4, f32)\nv = s[n]", "s"),
    "shared, written": ("s = shared_array(4, f32)\ns[n] = 1.0", "s"),
    "local, never read": ("a = local_array(4, f32)\na[n] = 1.0", "a"),
    "local": ("a = local_array((2, 2), f32)\na[0, 1] = 2.0\ny[0] = a[n - 9, n]", "a"),
    "two dimensions": ("v = m[1, n]", "m"),
    "atomic": ("atomic_add(y, n, 1.0)", "y"),
    "a guard for another array": ("if n in big:\n    y[0] = x[n]", "x"),
    "a guard that was left": ("if n not in x:\n    y[0] = x[n]", "x"),
    "a guard of another value": ("k = n\nif k - 5 in x:\n    y[0] = x[k]", "x"),
    "a guard before the value changed": ("k = n - 5\nwhile k in x:\n    k += 1\n    y[0] = x[k]", "x"),
}
PARAMETERS = "y: SliceMut[f32], x: Slice[f32], j: Slice[i32], m: Slice[f32, D2], big: Slice[f32], n: i32"


def arguments(device: Any) -> list[Any]:
    x, wide = np.zeros(8, np.float32), np.zeros((2, 9), np.float32)
    return [device.array(h) for h in (x, x, np.array([3, 9], np.int32), wide, np.zeros(100, np.float32))]


@DEVICES
@pytest.mark.parametrize("case", OUTSIDE)
def test_it_is_recorded(device: Any, case: str) -> None:
    body, name = OUTSIDE[case]
    kernel = kernel_of(PARAMETERS, body, "grid=1, block=1", touched=touched, guarded=guarded)
    y, *rest = arguments(device)
    kernel(y, *rest, 9)
    with pytest.raises(kdsl.BoundsError) as caught:
        y.numpy()
    error = caught.value
    assert error.array == name
    assert error.index is not None
    assert error.index >= (error.extent or 0)
    if not case.startswith(("inside one", "local", "a guard")):  # with these numbers the others are inside
        y, *rest = arguments(device)
        kernel(y, *rest, 2)
        device.synchronize()


@pytest.mark.parametrize("case", OUTSIDE)
@pytest.mark.parametrize("level", [0, 3])
def test_ptx_has_a_branch_and_a_record_for_each(case: str, level: int) -> None:
    body, _ = OUTSIDE[case]
    kernel = kernel_of(PARAMETERS, body, "grid=1, block=1", touched=touched, guarded=guarded)
    ptx = compile_ptx(kernel.ir(), "sm_90", optimise=level)
    entry = ptx[ptx.index(".entry") : ptx.index("\n}", ptx.index(".entry"))]
    assert "// kdsl_record_failure" in entry
    assert len(re.findall(r"setp\.", entry)) >= 1
    assert "trap" not in ptx
    if level == 3:
        assemble(ptx, "sm_90")


@DEVICES
@pytest.mark.parametrize(
    "body",
    [
        "assert n < 3",
        "y[0] = 1.0\nassert y[0] > 2.0 or n < 3, 'too much'",
        "for k in unroll(3):\n    assert k + n < 6\n    y[k] = 1.0",
        "k = 0\nwhile k < n:\n    assert k != 8\n    k += 1",
    ],
)
def test_assertions(device: Any, body: str) -> None:
    kernel = kernel_of("y: SliceMut[f32], n: i32", f"{body}\ny[7] = 5.0", "grid=1, block=1")
    for n, holds in ((2, True), (9, False)):
        y = device.zeros(8, np.float32)
        kernel(y, n)
        if not holds:
            with pytest.raises(kdsl.BoundsError, match="assertion failed"):
                device.synchronize()
        assert y.numpy()[7] == 5  # the thread goes on


TEXT = """@function
def read(x, i):
    return (x[i]
            + x[
                i + 1])
@kernel(grid=1, block=1)
def k(y: SliceMut[f32], x: Slice[f32], a: i32, b: i32, c: i32) -> None:
    y[0] = x[0] + x[1] + x[a]; y[1] = 1.0
    y[2] = read(
        x, b)
    for i in range(2):
        y[
            c * 2
        ] = x[i]
    assert (
        a < 3), "small"
"""


@DEVICES
@pytest.mark.parametrize(
    ("numbers", "location", "line"),
    [
        ((8, 0, 0), "8:26", 8),
        ((-1, 0, 0), "8:26", 8),
        ((0, 8, 0), "3:13", 3),
        ((0, 7, 0), "4:15", 4),
        ((0, 0, 4), "12:9", 12),
        ((3, 0, 0), "15:5", 15),
    ],
)
def test_the_place_is_that_of_the_access(device: Any, numbers: tuple[int, ...], location: str, line: int) -> None:
    """Of several on one line the one that failed; of one over several lines its own first."""
    kernel = module(TEXT)["k"]
    kernel(device.zeros(8, np.float32), device.zeros(8, np.float32), *numbers)
    with pytest.raises(kdsl.BoundsError) as caught:
        device.synchronize()
    assert caught.value.location.endswith(f">:{location}")
    assert f">:{line}: " in str(caught.value)
    assert ("called from" in str(caught.value)) == (line < 6)


def test_ptx_names_the_same_lines() -> None:
    """Also for what records, so that a profiler and a debugger lead to the access."""
    ptx = module(TEXT)["k"].ptx("sm_90")
    entry = ptx[ptx.index(".entry") : ptx.index("\n}", ptx.index(".entry"))]
    recorded = set()
    place = (0, 0)
    for line in entry.splitlines():
        found = re.match(r"\s*\.loc\s+\d+ (\d+) (\d+)", line)
        if found:
            place = (int(found[1]), int(found[2]))
        elif "kdsl_record_failure" in line:
            recorded.add(place)
    assert {(8, 26), (3, 13), (4, 15), (12, 9), (15, 5)} <= recorded
