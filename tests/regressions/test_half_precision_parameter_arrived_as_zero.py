"""Elsewhere a scalar parameter of 42.0 arrived as 0 if it was an f16: the host packed another width than the device read.

Every type, in every order of parameters, alone and in structs, gives the device exactly the number that the type holds.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, column, module

from kdsl.lang.types import DTYPES, DType, round_float

F64, I64, U64 = DTYPES["f64"], DTYPES["i64"], DTYPES["u64"]
_FLOATS = (
    0.0,
    -0.0,
    1.0,
    42.0,
    0.1,
    65500.0,
    -65500.0,
    1e-7,
    6e-8,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
    2.0**-24,
    1 + 2**-11 + 2**-40,
    1 + 2**-8 + 2**-40,
)


@DEVICES
@pytest.mark.parametrize("of", ["f16", "bf16", "f32", "f64"])
def test_floats(device: Any, of: str) -> None:
    kernel = column(["f64(h)", "f64(p.h)", "f64(h + 0)"], "f64", f"h: {of}, p: Fields", Fields=struct_of("h", of))
    for value in _FLOATS:
        y = device.zeros(3, F64)
        kernel(y, value, struct_class(kernel, "p")(h=value))
        expected = round_float(DTYPES[of], value)
        np.testing.assert_array_equal(y.numpy()[:2], [expected] * 2)
        assert math.isnan(expected) or np.signbit(y.numpy()[:2]).tolist() == [math.copysign(1, expected) < 0] * 2


@DEVICES
@pytest.mark.parametrize("order", list(itertools.permutations(["f16", "f32", "f64", "bf16", "u8"]))[::7])
def test_any_order_of_parameters(device: Any, order: tuple[str, ...]) -> None:
    """Each lies at its own alignment, with a view before and after."""
    parameters = ", ".join(f"{of}v: {of}" for of in order)
    kernel = column([f"f64({of}v)" for of in order] + ["f64(x[0])"], "f64", f"{parameters}, x: Slice[f32]")
    values = {"f16": 42.0, "f32": 1e30, "f64": 1e300, "bf16": -3.0, "u8": 200}
    y = device.zeros(6, F64)
    kernel(y, *(values[of] for of in order), device.array(np.array([7], np.float32)))
    assert y.numpy().tolist() == [float(round_float(DTYPES[of], values[of])) if of != "u8" else 200.0 for of in order] + [7.0]


@DEVICES
@pytest.mark.parametrize("of", [of for of in DTYPES.values() if of.is_integer or of.is_bool], ids=str)
def test_integers_at_their_limits(device: Any, of: DType) -> None:
    """With a neighbour of one byte on either side, so that a wrong width would show."""
    kernel = column(["i64(before)", "i64(n)" if of is not U64 else "i64(n >> 1)", "i64(after)", "i64(p.n)" if of is not U64 else "i64(p.n >> 1)"], "i64",
                    f"before: u8, n: {of}, after: i8, p: Fields", Fields=struct_of("n", of.name))  # fmt: skip
    for value in {bool(of.minimum), True} if of.is_bool else {of.minimum, of.maximum, 0, 1, of.maximum // 3}:
        y = device.zeros(4, I64)
        kernel(y, 255, value, -128, struct_class(kernel, "p")(n=value))
        seen = value >> 1 if of is U64 else int(value)
        assert y.numpy().tolist() == [255, seen, -128, seen]


def struct_of(name: str, of: str) -> Any:
    """A struct of three fields, with this one in the middle."""
    text = f'@struct\nclass Fields:\n    """Numbers."""\n    a: u8\n    """Before."""\n    {name}: {of}\n    """It."""\n    z: u8\n    """After."""\n'
    return module(text)["Fields"]


def struct_class(kernel: Any, parameter: str) -> Any:
    """Makes the struct of a parameter, its first and last fields given."""
    (found,) = [p.python_class for p in kernel.declaration.parameters if p.name == parameter]
    return lambda **fields: found(a=255, z=255, **fields)
