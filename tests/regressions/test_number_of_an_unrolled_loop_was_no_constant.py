"""The number of an unrolled loop was no constant in its body if its name was read after the loop or used again: tuples could not be indexed with it."""

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, result_of

from kdsl import KernelError, i64

BODIES = {
    "read after the loop": "s = 0\nfor i in unroll(3):\n    s += t[i]\n    for j in unroll(i, 3):\n        s += t[j] * i\ny[0] = s + 100 * i",
    "left early": "s = 0\nfor i in unroll(3):\n    s += t[i]\n    if s > n:\n        break\ny[0] = s + 100 * i",
    "left early at once": "s = 0\nfor i in unroll(3):\n    s += t[i]\n    if i > 0:\n        break\nelse:\n    s = 7\ny[0] = s + 100 * i",
    "read in its else": "s = 0\nfor i in unroll(1, 3):\n    if n > 40:\n        continue\n    s += t[i]\nelse:\n    s += 100 * i\ny[0] = s",
    "the name of a loop around it": "s = 0\nfor i in range(n):\n    s += i\n    for i in unroll(2):\n        s += t[i]\n    s += 100 * i\ny[0] = s",
    "a counter before": "i = s = 0\nwhile i < n:\n    i += 1\ns += 100 * i\nfor i in unroll(2):\n    s += t[i]\ny[0] = s + i",
    "a range before": "s = 0\nfor i in range(n):\n    s += i\nfor i in unroll(2):\n    s += t[i]\ny[0] = s + i",
    "in a loop": "s = 0\nfor k in range(n):\n    for i in unroll(2):\n        s += t[i]\n    if s > 70:\n        s -= i\ny[0] = s",
    "a branch that is removed": "s = 0\nfor i in unroll(3):\n    if i == 1:\n        s += t[i + 1]\n    else:\n        s += t[2 * i % 3]\ny[0] = s + i",
    "a loop inside of the same name": "s = 0\nfor i in unroll(3):\n    s += i\n    for i in unroll(2):\n        s += t[i]\n    s += 100 * i\ny[0] = s",
    "the body assigns it": "s = 0\nfor i in unroll(3):\n    s += i\n    if n > 40:\n        i = n\n    s += 100 * i\ny[0] = s + i",
    "a parameter of that name": "s = n\nfor n in unroll(3):\n    s += t[n]\ny[0] = s + 100 * n",
}  # fmt: skip


@DEVICES
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_it_is_one_whatever_its_name_is_used_for(device: Any, body: str) -> None:
    kernel = kernel_of("y: SliceMut[i64], n: i64", f"t = (10, 20, 30)\n{body}", "grid=1, block=1")
    for n in (5, 55):
        expected: dict[int, int] = {}
        exec(body, {"y": expected, "n": n, "t": (10, 20, 30), "unroll": range})
        np.testing.assert_array_equal(result_of(device, kernel, 1, i64, n), expected[0])


def test_not_where_the_body_assigns_it() -> None:
    body = "t = (10, 20)\nfor i in unroll(2):\n    if n > 3:\n        i = 1\n    y[0] = t[i]"
    with pytest.raises(KernelError, match="a tuple is indexed by a number that the compiler knows"):
        kernel_of("y: SliceMut[i64], n: i64", body, "grid=1, block=1").ir()
