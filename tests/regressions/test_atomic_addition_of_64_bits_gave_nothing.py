"""Elsewhere an atomic addition of an int64 left 0, without an error: the type had been passed over.

Every operation on every type either is exact under contention, from every lane of many blocks, or is refused by its type and name when it is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of, result_of

import kdsl
from kdsl.lang.intrinsics import INTRINSICS, ToAtomic
from kdsl.lang.types import DTYPES, wrap

ROWS = {name: row.lowering for name, row in INTRINSICS.items() if isinstance(row.lowering, ToAtomic)}


def call(name: str, of: str) -> str:
    values = {"load": "", "cas": f", {of}(0), {of}(1)"}.get(ROWS[name].op, f", {of}(1)")
    return f"{name}(y, 0{values})"


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("memory", ["view", "shared"])
def test_compiled_or_refused_by_name(name: str, memory: str) -> None:
    for of in DTYPES:
        view = memory == "view"
        parameters = f"y: SliceMut[{of}]" if view else f"z: SliceMut[{of}]"
        body = (
            call(name, of)
            if of != "bool"
            else f"{name}(y, 0{', True' if ROWS[name].op != 'load' else ''}{', True' if ROWS[name].op == 'cas' else ''})"
        )
        if not view:
            body = f"y = shared_array(2, {of})\n{body}"
        kernel = kernel_of(parameters, f"{body}\n", "grid=1, block=64")
        if of in ROWS[name].types:
            assert kernel.ir()
            continue
        with pytest.raises(kdsl.KernelError) as caught:
            kernel.ir()
        assert of in caught.value.message
        assert name in caught.value.message
        assert caught.value.hint


@DEVICES
@pytest.mark.parametrize("of", ["i32", "u32", "i64", "u64", "f32", "f64"])
def test_a_thousand_threads_at_one_element(device: Any, of: str) -> None:
    """Ones, and numbers whose upper half matters; the sum is exact, in device memory and in a shared array."""
    element = DTYPES[of]
    large = 2**40 + 1 if element.bits == 64 else 2**20 + 1 if element.is_integer else 2**10
    body = f"s = shared_array(1, {of})\nif is_first_thread():\n    s[0] = 0\nsync_threads()\natomic_add(y, 0, 1)\natomic_add(y, 1, {of}({large}))\n"
    body += f"atomic_sub(y, 2, {of}({large}))\natomic_add(s, 0, {of}({large}))\nsync_threads()\nif is_first_thread():\n    atomic_add(y, 3, s[0])"
    kernel = kernel_of(f"y: SliceMut[{of}]", body, "grid=8, block=128")
    y = device.zeros(4, of)
    kernel(y)
    exact = [1024, 1024 * large, -1024 * large, 1024 * large]
    assert y.numpy().tolist() == ([wrap(element, n) for n in exact] if element.is_integer else exact)


@DEVICES
def test_old_values_of_64_bits_are_whole(device: Any) -> None:
    kernel = kernel_of("old: SliceMut[u64], y: SliceMut[u64]", "old[thread_index()] = atomic_add(y, 0, 3_000_000_001)", "grid=4, block=96")
    old = result_of(device, kernel, 384, DTYPES["u64"], np.array([2**33], np.uint64))
    assert sorted(old.tolist()) == [2**33 + 3_000_000_001 * n for n in range(384)]
