"""`exp(2)` was an error inside of the library, about names that its author never wrote; `atan2(x, 2)` of an f32 took the constants for f64.

Arguments of a mathematical function meet in one type, as the operands of an operator do; literals take it, and an integer that is no literal is refused where
it stands.
"""

from __future__ import annotations

import inspect
import itertools
import math
from typing import Any, TypeVar

import numpy as np
import pytest
from from_text import DEVICES, column, kernel_of, mapped, result_of

import kdsl
import kdsl.mathematics
from kdsl import f32, f64, i32, i64
from kdsl.frontend.function import Overloaded

F32, F64 = kdsl.dtype("f32"), kdsl.dtype("f64")
FUNCTIONS = {name: found for name in dir(kdsl.mathematics) if isinstance(found := getattr(kdsl.mathematics, name), Overloaded)}


def count(name: str) -> int:
    return len(inspect.signature(FUNCTIONS[name].functions[F32].source.function).parameters)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_error_is_told_where_the_call_stands(name: str) -> None:
    """Every mixture of arguments compiles, or is refused in the author's own line."""
    kinds = ("2", "2.5", "given", "x[0]", "d[0]", "n[0]", "(1 if n[0] > 0 else 2)", "h[0]", "True", "x[0] > 0")
    for arguments in itertools.product(kinds if count(name) == 1 else kinds[:6], repeat=count(name)):
        kernel = kernel_of(
            "y: SliceMut[f64], x: Slice[f32], d: Slice[f64], n: Slice[i32], h: Slice[f16], given: Const[int]",
            f"y[0] = f64({name}({', '.join(arguments)}))",
            "grid=1, block=1",
            **FUNCTIONS,
        )
        if not {"n[0]", "True", "x[0] > 0"} & set(arguments):
            assert kernel.ir(given=3)
            continue
        with pytest.raises(kdsl.KernelError) as caught:
            kernel.ir(given=3)
        assert caught.value.location.file.startswith("<regression"), caught.value
        assert f"{name}(" in caught.value.message
        assert caught.value.hint


@DEVICES
@pytest.mark.parametrize("of", ["f32", "f64"])
def test_a_literal_gives_the_bits_of_a_number_read_from_memory(device: Any, of: str) -> None:
    names = list(FUNCTIONS) if of == "f32" else list(FUNCTIONS)[::3]
    one = [name for name in names[::2] if count(name) == 1 and not name.startswith("is")]
    two = [name for name in names if count(name) == 2]
    element = kdsl.dtype(of)
    literal = [f"{name}({of}(0.3))" for name in one] + [form for name in two for form in (f"{name}(x[0], 2)", f"{name}(0.3, x[0])")]
    memory = [f"{name}(x[2])" for name in one] + [form for name in two for form in (f"{name}(x[0], x[1])", f"{name}(x[2], x[0])")]
    x = np.array([1.7, 2.0, 0.3], element.numpy)
    early, late = (
        result_of(device, column(forms, of, f"x: Slice[{of}]", **FUNCTIONS), len(literal), element, x) for forms in (literal, memory)
    )
    for form, a, b in zip(literal, early, late, strict=True):
        assert a.tobytes() == b.tobytes() or (math.isnan(a) and math.isnan(b)), form


@DEVICES
def test_values(device: Any) -> None:
    """A literal alone is an f32; beside an f64 it is one, and an f32 beside an f64 is widened."""
    forms = [
        "exp(2)",
        "sin(1)",
        "log(given)",
        "atan2(1, 2)",
        "pow(2, 3)",
        "hypot(3, x[i])",
        "atan2(x[i], 2)",
        "fmod(7, x[i])",
        "cos(2 if x[i] > 0 else 1)",
    ]
    x = np.array([4.0], np.float32)
    found = result_of(device, mapped(forms, "f32", "x: Slice[f32], given: Const[int]"), len(forms), F32, x, 10)
    expected = [math.exp(2), math.sin(1), math.log(10), math.atan2(1, 2), 8, 5, math.atan2(4, 2), math.fmod(7, 4), math.cos(2)]
    np.testing.assert_allclose(found, expected, rtol=3e-7)
    mixed = ["hypot(x[i], d[0])", "hypot(d[0], x[i])", "atan2(0.1, d[0])", "pow(d[0], 0.1)", "pow(x[i], d[0])", "fmod(d[0], x[i])"]
    d = np.array([0.7])
    found = result_of(device, mapped(mixed, "f64", "x: Slice[f32], d: Slice[f64]"), len(mixed), F64, x, d)
    expected = [math.hypot(4, 0.7), math.hypot(4, 0.7), math.atan2(0.1, 0.7), 0.7**0.1, 4**0.7, 0.7]
    np.testing.assert_allclose(found, expected, rtol=4e-16)


R = TypeVar("R", f32, f64)
I = TypeVar("I", i32, i64)
A = TypeVar("A")


@kdsl.function
def half(x: R) -> R:
    """Of a float."""
    return x / 2


@kdsl.function
def following(x: I) -> I:
    """Of an integer."""
    return x + 1


@kdsl.function
def total(x: A, y: A) -> A:
    """Of two of one type."""
    return x + y


@DEVICES
def test_type_variables_that_only_literals_decide(device: Any) -> None:
    """A variable of floats makes a float of an integer, one literal float among them makes floats of all, and a type outside of the variable's is refused."""
    forms = ["half(3)", "half(3.0)", "total(1, 2.5)", "total(2.5, 1)", "total(x[i], 2)", "f32(total(1, 2))", "f32(following(2))"]
    names = {"half": half, "following": following, "total": total}
    found = result_of(device, mapped(forms, "f32", "x: Slice[f32]", **names), len(forms), F32, np.array([0.5], np.float32))
    assert found.tolist() == [1.5, 1.5, 3.5, 3.5, 2.5, 3.0, 3.0]
    for form, words in (("f32(following(2.5))", "I is one of i32, i64, not f32"), ("half(True)", "R is one of f32, f64, not bool")):
        with pytest.raises(kdsl.KernelError, match=words):
            column([form], "f32", "x: Slice[f32]", **names).ir()
