"""Elsewhere users took an assignment to a scalar parameter, or to a field of a struct parameter, for one that the caller sees.

A parameter is a name of the kernel: assigning to it changes nothing outside, neither the caller's value nor what other threads have. A field of a struct
parameter cannot be assigned, and a `@function` does not change its caller's numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, module, result_of

import kdsl
from kdsl import f32, i32


@DEVICES
def test_the_value_of_the_caller_stays(device: Any) -> None:
    k = kernel_of("y: SliceMut[i32], n: i32", "i = i32(thread_index())\nn += i\nn *= 2\ny[i] = n")
    n = np.int32(5)
    np.testing.assert_array_equal(result_of(device, k, 32, i32, n), 2 * (5 + np.arange(32)))
    assert n == 5
    np.testing.assert_array_equal(result_of(device, k, 32, i32, n), 2 * (5 + np.arange(32)))


@DEVICES
def test_a_vector_and_a_struct_of_the_caller_stay(device: Any) -> None:
    space = module("@struct\nclass Pair:\n    a: f32\n    '''One.'''\n    b: f32\n    '''Another.'''\n")
    k = kernel_of("y: SliceMut[f32], p: Pair", "p = Pair(p.b, p.a + f32(thread_index()))\ny[thread_index()] = p.b", Pair=space["Pair"])
    p = space["Pair"](1.5, 2.5)
    np.testing.assert_array_equal(result_of(device, k, 32, f32, p), 1.5 + np.arange(32, dtype=np.float32))
    assert (p.a, p.b) == (1.5, 2.5)
    with pytest.raises(kdsl.KernelError, match=r"a field of a struct|cannot be assigned") as caught:
        kernel_of("y: SliceMut[f32], p: Pair", "p.a = 3.0\ny[0] = p.a", Pair=space["Pair"]).ir()
    assert caught.value.hint


@DEVICES
def test_a_function_changes_its_own_name_only(device: Any) -> None:
    helper = module("@function\ndef helper(n: i32) -> i32:\n    n += 10\n    return n\n")["helper"]
    k = kernel_of("y: SliceMut[i32], n: i32", "y[0] = helper(n)\ny[1] = n\ny[2] = helper(n)", helper=helper)
    assert list(result_of(device, k, 3, i32, 5)) == [15, 5, 15]


@DEVICES
def test_what_a_function_writes_to_an_array_its_caller_sees(device: Any) -> None:
    helper = module("@function\ndef helper(a: SliceMut[i32], n: i32) -> None:\n    a[0] = n\n")["helper"]
    k = kernel_of(
        "y: SliceMut[i32], n: i32", "t = local_array(1, i32)\nhelper(t, n)\nhelper(y, n + 1)\ny[1] = t[0]", "grid=1, block=1", helper=helper
    )
    assert list(result_of(device, k, 2, i32, 5)) == [6, 5]
