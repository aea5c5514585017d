"""Elsewhere `break`, `continue` and `else` of nested loops went to the wrong loop, `unroll` forgot them, and what stood after an early return still ran.

Functions with every kind of loop and jump give on the device, each thread with its own data, what Python gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, module, result_of

import kdsl
from kdsl.lang.types import wrap

I64 = kdsl.dtype("i64")
CASES: dict[str, str] = {
    "three deep, out of the middle": """
for i in range(5):
    t += i
    j = 0
    while j < 6:
        j += 1
        for k in range(4):
            if (i + k) % 3 == a % 3:
                continue
            if k == b % 5:
                break
            t = (t * 3 + k) % 9973
        else:
            t += 100
        if j * i == a:
            break
        if j == 4:
            continue
        t += j
    else:
        t -= 7
    if t % 11 == b:
        break
else:
    t += 1000
""",
    "else after continue only": """
for i in range(a % 4):
    if i >= 0:
        continue
    t += 50
else:
    t += 5
n = b % 6
while n > 0:
    n -= 1
    if n == 3:
        continue
    t += n
else:
    t += 9
""",
    "the else of an inner loop leaves the outer one": """
for i in range(6):
    for j in range(3):
        if i * j == a:
            break
        t += 1
    else:
        if i == b % 6:
            break
        t += 10
        continue
    t += 100
else:
    t += 1000
""",
    "unrolled, out of the middle": """
for i in unroll(4):
    t += i
    for j in range(5):
        for k in unroll(3, 0, -1):
            if k == a % 4:
                continue
            if k + j == b:
                break
            t = (t * 2 + k) % 9973
        else:
            t += 7
        if j == a % 5:
            break
    else:
        t += 50
    if t % 7 == i:
        break
else:
    t += 500
""",
    "a run-time loop inside an unrolled one": """
for i in unroll(3):
    n = a % 5
    while n > 0:
        n -= 1
        if n == i:
            break
        t += n + i
    else:
        t += 20
        continue
    if i == b % 3:
        break
    t += 300
else:
    t -= 1
""",
    "endless, left three ways": """
n = 0
while True:
    n += 1
    if n > 20:
        t += 1
        break
    if n % 5 == a % 5:
        if n > b:
            t += 2
            break
        continue
    m = n
    while True:
        m -= 2
        if m < 0:
            break
        t += m
    if t > 60:
        break
""",
    "returns from the depth": """
for i in range(4):
    n = 3
    while n > 0:
        n -= 1
        for k in unroll(2):
            if i * 10 + n + k == a:
                return t + 5000
            t += k
        if n == b % 9:
            return t - 5000
    else:
        t += 2
else:
    t += 3
if t % 2 == 0:
    return t * 10
""",
    "a loop without a body that counts": """
for i in range(a % 7):
    pass
else:
    i = 3
t += i
while t < 10 and b > 0:
    t += 3
else:
    t += 1
""",
}
INPUTS = [(a, b) for a, b in itertools.product((-3, 0, 1, 2, 3, 4, 7, 12, 20, 21), (-1, 0, 1, 2, 3, 5, 8))]


def both(body: str) -> tuple[Any, Callable[[int, int], int]]:
    """The kernel that applies the function, and Python's own."""
    lines = "".join(f"    {line}\n" for line in ["t = a * 2 - b", *body.strip().splitlines(), "return t"])
    plain: dict[str, Any] = {"unroll": range}
    exec(f"def f(a, b):\n{lines}", plain)
    kernel = module(
        f"@function\ndef f(a: i64, b: i64) -> i64:\n{lines}@kernel(grid=elements('a'), block=64)\n"
        f"def k(y: SliceMut[i64], a: Slice[i64], b: Slice[i64]) -> None:\n"
        "    i = thread_index()\n    if i in a:\n        y[i] = f(a[i], b[i])\n"
    )["k"]
    return kernel, plain["f"]


@DEVICES
@pytest.mark.parametrize("case", CASES)
def test_same_as_python(device: Any, case: str) -> None:
    kernel, plain = both(CASES[case])
    a, b = (np.array(side, np.int64) for side in zip(*INPUTS, strict=True))
    found = result_of(device, kernel, len(INPUTS), I64, a, b)
    assert found.tolist() == [wrap(I64, plain(*pair)) for pair in INPUTS]


@DEVICES
@pytest.mark.parametrize("case", CASES)
def test_same_where_the_whole_block_agrees(device: Any, case: str) -> None:
    """With control that is the same for all threads the CPU keeps scalar branches: other code."""
    _, plain = both(CASES[case])
    lines = "".join(f"    {line}\n" for line in ["t = a * 2 - b", *CASES[case].strip().splitlines(), "return t"])
    kernel = module(
        f"@function\ndef f(a: i64, b: i64) -> i64:\n{lines}@kernel(grid=elements('y'), block=33)\ndef k(y: SliceMut[i64], a: i64, b: i64) -> None:\n"
        "    i = thread_index()\n    r = f(a, b)\n    sync_threads()\n    if i in y:\n        y[i] = r + i\n"
    )["k"]
    for a, b in INPUTS[::3]:
        assert result_of(device, kernel, 40, I64, a, b).tolist() == [wrap(I64, plain(a, b) + i) for i in range(40)]
