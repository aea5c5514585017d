"""Elsewhere `(a + 2000000000) + 2000000000` of an i32 ended the compiler, or the optimiser took overflow for something that cannot happen.

Integers wrap, at every level of optimisation, for constants that meet, for indices, for loops, and where a comparison would be decided by the assumption that
nothing wraps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, INTEGERS, kernel_of, mapped, result_of

import kdsl
from kdsl.backend.cpu import HostCpu, compile_object
from kdsl.backend.nvptx import compile_ptx
from kdsl.lang.types import DType, wrap

I64 = kdsl.dtype("i64")


def edges(of: DType) -> list[int]:
    return sorted({of.minimum, of.minimum + 1, max(of.minimum, -1), 0, 1, 2, of.maximum // 2, of.maximum - 1, of.maximum})


@DEVICES
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_constants_that_meet(device: Any, of: DType) -> None:
    """The larger literal fits, two of them do not; a comparison after an overflow is of what is there."""
    big = of.maximum - of.maximum // 8
    forms = [
        f"(x[i] + {big}) + {big}",
        f"(x[i] - {big}) - {big}",
        f"x[i] * {big} * 3",
        f"x[i] + {big} - {big}",
        f"{of}(x[i] + 1 > x[i])",
        f"{of}(x[i] - 1 < x[i])",
        "(x[i] * 2) // 2",
        "(x[i] << 1) >> 1",
        f"{of}(-x[i] == x[i])",
        "abs(x[i]) % 100",
        "x[i] ** 5",
        f"{of}(x[i] * x[i] >= 0)",
        "(x[i] * 6) // 3",
        f"{of}(abs(x[i]) >= 0)",
        "(x[i] + x[i]) // 2 - x[i]",
    ]
    x = np.array(edges(of), of.numpy)
    found = result_of(device, mapped(forms, of.name, f"x: Slice[{of}]"), len(forms) * len(x), of, x).reshape(len(forms), len(x))
    for n, v in enumerate(x.tolist()):

        def w(number: int) -> int:
            return wrap(of, number)

        expected = [
            w(v + 2 * big),
            w(v - 2 * big),
            w(v * big * 3),
            v,
            w(v + 1) > v,
            w(v - 1) < v,
            w(v * 2) // 2,
            w(v << 1) >> 1,
            w(-v) == v,
            w(abs(v)) % 100,
            w(v**5),
            w(v * v) >= 0,
            w(v * 6) // 3,
            w(abs(v)) >= 0,
            w(w(2 * v) // 2 - v),
        ]
        assert found[:, n].tolist() == [int(e) for e in expected], v


@pytest.mark.parametrize("of", INTEGERS, ids=str)
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_of_optimisation_compiles_it(of: DType, level: int) -> None:
    big = of.maximum - of.maximum // 8
    ir = mapped([f"(x[i] + {big}) + {big}", f"(x[i] - {big}) * {big} // 7"], of.name, f"x: Slice[{of}]").ir()
    assert compile_object(ir, HostCpu.detect(), optimise=level).bytes
    assert "st.global" in compile_ptx(ir, "sm_90", optimise=level)


@DEVICES
def test_indices_beyond_their_range(device: Any) -> None:
    """The compiler knows the range of an index, and narrows; what leaves the range wraps at 64 bits, not at 32."""
    forms = [
        "i * 4611686018427387904",
        "i * 2147483648 * 4",
        "(i + 9223372036854775807) + 1",
        "(i - 9223372036854775807) - i * 3",
        "i * 3000000000 // 7",
        "i * 3000000000 % 1000003",
        "i * i * i * i * i * i * i * i * i * i * i * i * i * i * i",
        "(i + 4294967295) * (i + 4294967295)",
        "i << 40 >> 38",
        "(i * 65537 * 65537) & 1023",
        "-i * 4294967296 - i",
        "min(i * 4294967296, 5000000000) + max(-i * 4294967296, -5000000000)",
        "i64(i32(i * 1000000000))",
        "i64(u32(i * 3000000000)) - i64(i32(i * 3000000000))",
        "i64(i16(i * 4099)) + i64(u8(i * 77))",
    ]
    found = result_of(device, mapped(forms, "i64", "x: Slice[i8]"), len(forms) * 100, I64, np.zeros(100, np.int8)).reshape(len(forms), 100)
    convert = {"i64": I64, **{name: kdsl.dtype(name) for name in ("i32", "u32", "i16", "u8")}}
    for k, form in enumerate(forms):
        names: dict[str, Any] = {name: (lambda v, of=of: wrap(of, v)) for name, of in convert.items()}
        expected = [wrap(I64, eval(form, {**names, "i": i})) for i in range(100)]
        if form == "i << 40 >> 38":
            expected = [wrap(I64, i << 40) >> 38 for i in range(100)]
        assert found[k].tolist() == expected, form


@DEVICES
def test_sums_in_a_loop_wrap(device: Any) -> None:
    """A counter of 8 bits passes its end, in the loop's own condition, too."""
    kernel = kernel_of(
        "y: SliceMut[i64], n: i32, s: u8, t: i8",
        "a = u8(0)\nb = i8(0)\nfor k in range(n):\n    a += s\n    b += t\ny[0] = a\ny[1] = b\n"
        "c = i8(100)\ntrips = 0\nwhile c > 0:\n    c += 1\n    trips += 1\ny[2] = c\ny[3] = trips\n"
        "d = u8(3)\ndown = 0\nwhile d <= 3:\n    d -= 1\n    down += 1\ny[4] = d\ny[5] = down",
        "grid=1, block=1",
    )
    found = result_of(device, kernel, 6, I64, 1000, 7, 127)
    assert found.tolist() == [7000 % 256, wrap(kdsl.dtype("i8"), 127000), -128, 28, 255, 4]


@pytest.mark.parametrize("value", ["2147483648", "-2147483649", "1 << 31", "2 ** 40", "4 * 1000000000"])
def test_a_literal_beyond_the_type_is_refused_rather_than_wrapped(value: str) -> None:
    with pytest.raises(kdsl.KernelError, match="does not fit an i32"):
        kernel_of("y: SliceMut[i32]", f"y[0] = y[0] + ({value})").ir()
