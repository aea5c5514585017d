"""Control flow means what it means in Python: each function is compiled, and run by Python itself, over the same inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ir_evaluator import run

from kdsl import DisjointSlice, Slice, elements, function, i64, kernel, thread_index
from kdsl.ir.verifier import verify
from kdsl.lang.types import I64, wrap

INPUTS = np.array([(a, b) for a in range(-4, 9, 3) for b in (-3, 0, 1, 2, 7)], np.int64)
FUNCTIONS: list[Callable[[int, int], int]] = []


def case(python_function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    FUNCTIONS.append(python_function)
    return python_function


def compiled(python_function: Callable[..., Any]) -> Any:
    inner = function(python_function)

    @kernel(grid=elements("y"), block=32, requires=("len(a) == len(y)", "len(b) == len(y)"))
    def apply(y: DisjointSlice[i64], a: Slice[i64], b: Slice[i64]) -> None:
        i = thread_index()
        if i in y:
            y[i] = inner(a[i], b[i])

    ir = apply.ir()
    verify(ir)
    return ir


@case
def branches(a, b):
    if a > 3:
        result = a
    elif b > 0:
        result = b * 10
    else:
        result = -1
    return result


@case
def early_returns(a, b):
    if a < 0:
        return -a
    for i in range(a):
        if i == b:
            return i * 100
        if i > 5:
            return -7
    return a + b


@case
def returns_in_both_branches(a, b):
    if a > b:
        return a
    else:
        return b


@case
def while_with_else(a, b):
    total = 0
    n = a
    while n > 0:
        n -= 1
        if n == b:
            break
        if n % 2 == 0:
            continue
        total += n
    else:
        total += 1000
    return total


@case
def nested_loops(a, b):
    total = 0
    for i in range(a):
        for j in range(i, b + 3):
            if j == 2:
                continue
            k = 0
            while True:
                k += 1
                if k * j > 20 or k > 5:
                    break
                if k == 3:
                    continue
                total += k
            if total > 150:
                break
        else:
            total += 3
    else:
        total += 7
    return total


@case
def ranges_of_any_step(a, b):
    total = 0
    for i in range(a, b):
        total = total * 3 + i
    for i in range(b, a, -1):
        total = total * 5 + i
    for i in range(a, 9, 2):
        total = total * 7 + i
    for i in range(88, -1, -8):
        total += i
    step = b - 1
    if step != 0:
        for i in range(a, a + 3 * b, step):
            total = total * 2 + i
    return total


@case
def loop_variable_after_the_loop(a, b):
    i = -5
    for i in range(a, b):
        if i > 3:
            break
    kept = i
    while i < 3:
        i += 1
    return kept * 100 + i


@case
def the_counter_can_be_assigned(a, b):
    total = 0
    for i in range(4):
        total += i
        i += a
        total += i
    return total + b


@case
def simultaneous_assignment(a, b):
    x, y = a, b
    for _ in range(5):
        x, y = y, x + y
    (p, q), r = (x, y), x - y
    p, q = q, p
    return p * 10000 + q * 10 + r


@case
def chained_comparisons(a, b):
    total = 0
    if 0 <= a < b < 8:
        total += 1
    if a < b > 1:
        total += 2
    if not a < 5 <= b:
        total += 4
    if a == b == 1:
        total += 8
    return total


@case
def conditional_expressions(a, b):
    sign = -1 if a < 0 else 1 if a > 0 else 0
    safe = a // b if b != 0 else 99
    return sign * 1000 + safe + (a if a > b else b)


@case
def truth_of_numbers(a, b):
    total = 0
    if a:
        total += 1
    if not b:
        total += 2
    if a and b:
        total += 4
    if a or b:
        total += 8
    while b > 0 and total < 30:
        total += 5
        b -= 1
    return total


@case
def augmented(a, b):
    x = a
    x += b
    x -= 2
    x *= 3
    x //= 2
    x %= 17
    x <<= 3
    x >>= 1
    x |= 1
    x &= 0xFF
    x ^= 5
    x **= 2
    return x


@case
def integer_operators(a, b):
    return (a * b - a // 3 + (b % 4) * 7) ^ (a & b) | (~a << 2) + (b >> 1) - -a + (+b)


@case
def powers(a, b):
    return a**3 + b**0 + 2 ** (b + 3) + a ** (b * b % 5)


@case
def minimum_and_maximum(a, b):
    return min(a, b, 4) * 100 + max(a, b) * 10 + abs(a - b) + max(0, a)


@case
def assigned_in_both_branches(a, b):
    if a > 0:
        x = a
        if b > 0:
            y = 1
        else:
            y = 2
    else:
        x, y = b, 3
    return x * 10 + y


@case
def assigned_in_endless_loop(a, b):
    n = a
    while True:
        n += 3
        found = n
        if n > b:
            break
    return found


@case
def assigned_in_a_loop_that_certainly_runs(a, b):
    for i in range(3):
        if i == 1:
            last = a
            continue
        last = b + i
    for j in range(5, 0, -2):
        if j == a:
            break
    return last * 100 + i * 10 + j


@case
def dead_code_is_allowed(a, b):
    return a
    return b


@case
def parameters_can_be_assigned(a, b):
    while a > 2:
        a -= 2
    b, a = a, b
    return a * 100 + b


@pytest.mark.parametrize("python_function", FUNCTIONS, ids=lambda f: f.__name__)
def test_same_as_python(python_function: Callable[[int, int], int]) -> None:
    ir = compiled(python_function)
    y = np.full(len(INPUTS), 12345, np.int64)
    failures = run(ir, y=y, a=INPUTS[:, 0].copy(), b=INPUTS[:, 1].copy())
    assert not failures
    assert y.tolist() == [wrap(I64, python_function(a, b)) for a, b in INPUTS.tolist()]
