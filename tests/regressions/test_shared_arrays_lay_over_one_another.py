"""Elsewhere two shared arrays overlapped, or one of 8-byte elements lay at an odd address behind one of bytes.

Also where they come from functions, from an unrolled loop, under conditions, and where the first of them is told from no array by its address, which is 0.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, module, result_of

import kdsl
from kdsl.lang.types import DTYPES
from kdsl.testing.ptx import assemble

I64 = DTYPES["i64"]


@DEVICES
@pytest.mark.parametrize("order", list(itertools.permutations(["i8", "f64", "u16", "f32"]))[::5])
@pytest.mark.parametrize("block", [33, 64])
def test_each_holds_its_own_pattern(device: Any, order: tuple[str, ...], block: int) -> None:
    extents = {"i8": 5, "f64": 33, "u16": 7, "f32": 31}
    lines = [f"{of}s = shared_array({extents[of]}, {of})" for of in order] + ["t = thread_idx.x"]
    for number, of in enumerate(order):
        lines += [f"if t < {extents[of]}:", f"    {of}s[t] = {of}((t * 3 + {number * 17}) % 100)"]
    lines += ["sync_threads()"]
    for number, of in enumerate(order):
        lines += [f"if t < {extents[of]}:", f"    y[{number * 64} + t] = i64({of}s[{extents[of] - 1} - t])"]
    found = result_of(device, kernel_of("y: SliceMut[i64]", "\n".join(lines), f"grid=1, block={block}"), 256, I64).reshape(4, 64)
    for number, of in enumerate(order):
        extent = extents[of]
        assert found[number, : min(extent, block)].tolist() == [
            ((extent - 1 - t) * 3 + number * 17) % 100 for t in range(min(extent, block))
        ]


@DEVICES
def test_arrays_of_calls_and_trips_are_their_own(device: Any) -> None:
    """A call makes its array anew at every place of the text; so does every trip of an unrolled loop."""
    space = module(
        "@function\ndef reversed_sum(x):\n    s = shared_array(32, i64)\n    t = thread_idx.x\n    "
        "s[t] = x\n    sync_threads()\n    r = x * 1000 + s[31 - t]\n    return r\n"
        "@kernel(grid=1, block=32)\ndef k(y: SliceMut[i64]) -> None:\n    t = thread_idx.x\n    "
        "a = reversed_sum(t)\n    b = reversed_sum(t + 100)\n    y[t] = a\n    y[32 + t] = b\n"
        "    for n in unroll(3):\n        s = shared_array(32, i64)\n        s[t] = t * 10 + n\n        "
        "if n > 0:\n            y[64 + 32 * n + t] = s[t]\n    sync_threads()\n"
        "    if y[0] >= 0:\n        u = shared_array(32, i64)\n        u[t] = 7\n        y[160 + t] = u[t]\n    "
        "else:\n        v = shared_array(32, i64)\n        v[t] = 8\n        y[160 + t] = v[t]\n"
    )
    assert len([a for a in space["k"].ir().arrays if a.space == "shared"]) == 7
    found = result_of(device, space["k"], 192, I64).reshape(6, 32)
    t = np.arange(32)
    np.testing.assert_array_equal(found[0], t * 1000 + 31 - t)
    np.testing.assert_array_equal(found[1], (t + 100) * 1000 + 131 - t)
    np.testing.assert_array_equal(found[3:], [t * 10 + 1, t * 10 + 2, t * 0 + 7])


@DEVICES
def test_several_blocks_and_launches(device: Any) -> None:
    """The arrays of a block are its own, though the CPU runs blocks one after the other in one place."""
    kernel = kernel_of(
        "y: SliceMut[i64], other: i64",
        (
            "s = shared_array(40, i64)\nr = shared_array(40, i8)\nt, b = thread_idx.x, block_idx.x\n"
            "s[t] = b * 100 + t\nr[39 - t] = i8(t)\nsync_threads()\ny[b * 40 + t] = s[(t + other) % 40] * 100 + r[t]"
        ),
        "grid=70, block=40",
    )
    t = np.arange(40)
    for other in (1, 39):
        found = result_of(device, kernel, 2800, I64, other).reshape(70, 40)
        np.testing.assert_array_equal(found, (np.arange(70)[:, None] * 100 + (t + other) % 40) * 100 + (39 - t))


@DEVICES
def test_the_first_byte_of_the_first_array_is_memory_like_any_other(device: Any) -> None:
    """Its address in shared memory is 0; reads, writes, atomic operations and checks there are no different."""
    kernel = kernel_of(
        "y: SliceMut[i64], n: i64",
        (
            "s = shared_array(2, i64)\nif is_first_thread():\n    s[0] = 5\n    s[1] = 6\nsync_threads()\n"
            "atomic_add(s, 0, 1)\natomic_add(s, n, 2)\nsync_threads()\ny[thread_idx.x] = s[0] * 1000 + s[1]"
        ),
        "grid=1, block=33",
    )
    assert result_of(device, kernel, 33, I64, 0).tolist() == [(5 + 33 * 3) * 1000 + 6] * 33
    y = device.zeros(33, I64)
    kernel(y, -1)
    with pytest.raises(kdsl.BoundsError, match="array s"):
        y.numpy()


def test_their_places_in_ptx_are_aligned() -> None:
    kernel = kernel_of(
        "y: SliceMut[f64]",
        "a = shared_array(3, i8)\nb = shared_array(4, f64)\nc = shared_array(1, bool)\nd = shared_array(4, f32)\n"
        "t = thread_idx.x\na[t % 3] = i8(1)\nb[t % 4] = 2.0\nc[0] = True\nd[t % 4] = 3.0\nsync_threads()\n"
        "y[t] = b[3 - t % 4] + f64(d[0]) + f64(a[0]) + f64(c[0])",
    )
    ptx = kernel.ptx("sm_90")
    for array, least in (("b", 8), ("d", 4)):
        (line,) = [line for line in ptx.splitlines() if ".shared" in line and f"_{array}[" in line]
        assert int(line.split(".align")[1].split()[0]) >= least
    assert assemble(ptx, "sm_90").shared >= 3 + 32 + 1 + 16
