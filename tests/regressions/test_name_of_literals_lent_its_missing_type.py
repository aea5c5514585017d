"""A name that only literals are assigned to is an i64 or an f32, and so is what is computed from it. Three ways to forget it: `v = abs(n)` kept the type
that it had met while that of `n` was open ("`v` would have two types, u8 and i64"); `s //= u16(t)` was refused as a literal's if nothing else had settled
the type of `s`; and `s * f32(3)` was taken for a literal like `s` itself, so that a name which begins as 0 and gets a product with it was an i64 for good."""

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, module, result_of

import kdsl

I64, F32 = kdsl.dtype("i64"), kdsl.dtype("f32")
COUNTED = """n = 0
while n < x[0]:
    n += 1
"""
BODIES = {
    "a name": "v = abs(n) << 47\nv |= x[1]\ny[0] = v",
    "a name that meets its own type": "v = n\nv |= x[1]\nv |= i64(1) << 40\ny[0] = v",
    "a name that joins it": "v = abs(n) << 47\nv |= x[1]\nw = 0\nw = v\nw |= x[1]\ny[0] = w",
    "a parameter": "y[0] = joined(abs(n), x[1])",
}
EXPECTED = {
    "a name": 3 << 47 | 5,
    "a name that meets its own type": 1 << 40 | 7,
    "a name that joins it": 3 << 47 | 5,
    "a parameter": 3 << 47 | 5,
}
JOINED = module("@function\ndef joined(a: i64, b: u8) -> i64:\n    a <<= 47\n    a |= b\n    return a")["joined"]


@DEVICES
@pytest.mark.parametrize("what", BODIES)
def test_integers(device: Any, what: str) -> None:
    kernel = kernel_of("y: SliceMut[i64], x: Slice[u8]", COUNTED + BODIES[what], "grid=1, block=1", joined=JOINED)
    assert result_of(device, kernel, 1, I64, np.array([3, 5], np.uint8)).tolist() == [EXPECTED[what]]


@DEVICES
@pytest.mark.parametrize("growing", ["s += f32(u32(7))", "for _ in range(14):\n    s += 0.5"])
def test_floats(device: Any, growing: str) -> None:
    kernel = kernel_of("y: SliceMut[f32], x: Slice[u16]", f"s = 0.0\n{growing}\ns //= x[0]\ny[0] = s", "grid=1, block=1")
    assert result_of(device, kernel, 1, F32, np.array([2], np.uint16)).tolist() == [3.0]


@DEVICES
@pytest.mark.parametrize("first", ["s = 1.0\nn = 0", "n = 0\ns = 1.0"])
@pytest.mark.parametrize("grown", ["s * f32(3)", "f32(3) if x[0] else s", "s * f32(2) + s", "s // f32(0.25) - f32(1)"])
def test_what_meets_a_constant_of_a_type_has_it(device: Any, first: str, grown: str) -> None:
    kernel = kernel_of("y: SliceMut[f32], x: Slice[u16]", f"{first}\ns = {grown}\nn += i16(2) * s\ny[0] = n", "grid=1, block=1")
    assert result_of(device, kernel, 1, F32, np.array([2], np.uint16)).tolist() == [6.0]


@DEVICES
@pytest.mark.parametrize("order", ["q = s * f32(3)\nw = s * 3.0", "w = s * 3.0\nq = s * f32(3)"])
def test_a_literal_that_is_the_same_number_does_not_take_it_away(device: Any, order: str) -> None:
    kernel = kernel_of(
        "y: SliceMut[f32], x: Slice[u16]", f"n = 0\ns = 1.0\ns += 0.5\n{order}\nn += i16(2) * q\ny[0] = n + w", "grid=1, block=1"
    )
    assert result_of(device, kernel, 1, F32, np.array([2], np.uint16)).tolist() == [13.5]


@DEVICES
@pytest.mark.parametrize("first", ["n = 0\ns = 1.0", "s = 1.0\nn = 0"])
def test_an_integer_meets_a_name_of_float_literals(device: Any, first: str) -> None:
    kernel = kernel_of("y: SliceMut[f32], x: Slice[u16]", f"{first}\ns += 0.5\nw = s * 3.0\nn += x[0] * w\ny[0] = n", "grid=1, block=1")
    assert result_of(device, kernel, 1, F32, np.array([2], np.uint16)).tolist() == [9.0]
    refused = kernel_of("y: SliceMut[f32], x: Slice[i64]", f"{first}\ns += 0.5\nn += x[0] * s\ny[0] = n", "grid=1, block=1")
    with pytest.raises(kdsl.KernelError, match=r"`\*` of an i64 and an? (f32|float literal)"):
        refused.ir()


def test_a_number_of_a_type_stays_one() -> None:
    """What joins with it must be able to: an i64 and a u64 do not meet, although the literals that it is made of would be either."""
    kernel = kernel_of("y: SliceMut[u64], x: Slice[u8]", COUNTED + "v = abs(n)\nv |= u64(x[1])\ny[0] = v", "grid=1, block=1")
    with pytest.raises(kdsl.KernelError, match=r"no type holds all values of both|two types"):
        kernel.ir()
