"""Elsewhere True became -1, 255 or 256 as a number, 256 became False as a bool, and a byte of 2 read as False.

A bool is 0 or 1 wherever it goes, and a number is true unless it is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, column, kernel_of, mapped, result_of

import kdsl
from kdsl.lang.types import DTYPES, DType

BOOL = DTYPES["bool"]
NUMBERS = [of for of in DTYPES.values() if of is not BOOL]


def bytes_as_bools(device: Any, content: list[int]) -> Any:
    """An array of bools with such bytes in memory, as another library may leave them."""
    host = np.array(content, np.uint8).view(np.bool_)
    return device.array(host)


@DEVICES
@pytest.mark.parametrize("of", NUMBERS, ids=str)
def test_as_a_number(device: Any, of: DType) -> None:
    forms = [
        f"{of}(x[i])",
        f"{of}(not x[i])",
        f"{of}(x[i] and x[0])",
        f"{of}(x[i] | x[0])",
        f"{of}(x[i] ^ x[1])",
        f"{of}(n > i)",
        f"{of}(1) if x[i] else {of}(0)",
    ]
    kernel = mapped(forms, of.name, "x: Slice[bool], n: i64", "")
    x = [0, 1, 2, 255, 128, 254]
    y = device.zeros(len(forms) * len(x), of)
    kernel(y, bytes_as_bools(device, x), 3)
    t = [b != 0 for b in x]
    expected = [t, [not b for b in t], [False] * 6, t, [b != t[1] for b in t], [i < 3 for i in range(6)], t]
    assert y.numpy().astype(np.float64).tolist() == [float(b) for row in expected for b in row]


@DEVICES
@pytest.mark.parametrize("of", NUMBERS, ids=str)
def test_a_number_as_a_bool(device: Any, of: DType) -> None:
    """256 and 512 have no bit in their lowest byte, 2**32 none in its lower half; 0.25 is no integer, 1e-40 a subnormal."""
    numbers = (
        [0, 1, 2, 255, 256, 512, 2**31, 2**32, 2**63] if of.is_integer else [0.0, -0.0, 0.25, 1e-7, float("nan"), float("-inf"), 256.0]
    )
    x = np.array([n for n in numbers if not of.is_integer or n <= of.maximum] + ([of.minimum] if of.is_signed else []), of.numpy)
    forms = ["bool(x[i])", "not not x[i]", "True if x[i] else False", "x[i] != 0", "bool(x[i] or False)", "truth(x[i])"]
    kernel = mapped(forms, "bool", f"x: Slice[{of}]", truth=_truth)
    found = result_of(device, kernel, len(forms) * len(x), BOOL, x)
    assert found.view(np.uint8).tolist() == [int(bool(v)) for v in x.tolist()] * len(forms)


@kdsl.function
def _truth(x):  # type: ignore[no-untyped-def]
    """Through control flow."""
    while x:
        return True
    return False


@DEVICES
def test_bytes_in_memory_are_0_or_1(device: Any) -> None:
    """Copied, computed, from shared and local arrays, exchanged between lanes, and from a parameter."""
    kernel = kernel_of(
        "y: SliceMut[bool], x: Slice[bool], flag: bool",
        "s = shared_array(32, bool)\na = local_array(32, bool)\ni = thread_index()\ns[i] = x[i % 6]\na[i % 4 + i // 8] = x[i % 6]\nsync_threads()\n"
        "y[i] = x[i % 6]\ny[32 + i] = s[31 - i]\ny[64 + i] = a[i % 4 + i // 8]\ny[96 + i] = warp_all(x[i % 6])\ny[128 + i] = x[i % 6] != flag\n"
        "y[160 + i] = warp_match_all(x[i % 6])\ny[192 + i] = flag",
    )
    x = [0, 1, 2, 255, 128, 254]
    y = device.array(np.full(224, 0xA5, np.uint8).view(np.bool_))
    kernel(y, bytes_as_bools(device, x), True)
    found = y.numpy().view(np.uint8).reshape(7, 32)
    t = np.array([int(x[i % 6] != 0) for i in range(32)])
    np.testing.assert_array_equal(found, [t, t[::-1], t, np.zeros(32), 1 - t, np.zeros(32), np.ones(32)])


@DEVICES
def test_false_is_below_true(device: Any) -> None:
    forms = [f"x[{a}] {op} x[{b}]" for op in ("<", "<=", "==", "!=", ">", ">=") for a, b in ((0, 1), (1, 0), (1, 2), (2, 1), (0, 0))]
    y = device.zeros(len(forms), BOOL)
    column(forms, "bool", "x: Slice[bool]")(y, bytes_as_bools(device, [0, 1, 2]))
    pairs = ((0, 1), (1, 0), (1, 1), (1, 1), (0, 0))
    assert y.numpy().tolist() == [
        r for f in ("__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__") for r in (getattr(a, f)(b) for a, b in pairs)
    ]


@pytest.mark.parametrize(
    "form", ["x[0] + x[1]", "-x[0]", "~x[0]", "x[0] * 2", "x[0] << 1", "x[0] + True", "x[0] < 1", "x[0] == 1", "abs(x[0])", "x[0] ** 2"]
)
def test_arithmetic_of_bools_is_refused(form: str) -> None:
    """`True + True` is 2 in Python, True in NumPy: it is written out here."""
    with pytest.raises(kdsl.KernelError, match="bool"):
        column([f"i32({form})"], "i32", "x: Slice[bool]").ir()
