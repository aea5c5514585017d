"""Elsewhere nothing said how memory is aligned: 16-byte elements were read in four pieces, a third of the bandwidth lost; or an address was taken for aligned
that was not, which a GPU answers by ending every program on it.

A vector is one access, and the launch, also a captured and an updated one, refuses memory where it could not be.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of

import kdsl
from kdsl.lang.vectors import VECTORS
from kdsl.testing.ptx import assemble, unrecorded

BODY = "i = thread_index()\nif i in y:\n    y[i] = x[i] + x[i]"


@pytest.mark.parametrize("of", VECTORS)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_an_element_is_one_access(of: str, target: str) -> None:
    """Also at an offset, behind a check, and of a shared array."""
    body = "t = thread_idx.x\ns = shared_array(64, V)\ns[t] = x[t + 3]\nsync_threads()\ny[t] = s[63 - t]"
    ptx = kernel_of("y: SliceMut[V], x: Slice[V]", body, "grid=1, block=64", V=VECTORS[of]).ptx(target)
    entry = unrecorded(ptx)
    for instruction in (r"ld\.global\S*", r"st\.shared\S*", r"ld\.shared\S*", r"st\.global\S*"):
        assert len(re.findall(instruction, entry)) == 1, instruction
    assert assemble(ptx, target).spills == 0


@DEVICES
@pytest.mark.parametrize("of", ["f32x4", "f32x2", "f64x2", "u8x16", "f16x8", "bf16x2"])
def test_every_offset_runs_or_is_refused(device: Any, of: str) -> None:
    vector = VECTORS[of]
    lanes, number = vector.lanes, vector.element
    kernel = kernel_of("y: SliceMut[V], x: Slice[V]", BODY, "grid=elements('y'), block=32, requires=('len(x) >= len(y)',)", V=vector)
    host = np.arange(20 * lanes).astype(number.numpy)
    for offset in range(lanes + 1):
        for end in (16 * lanes + offset, 16 * lanes + offset + 1):
            x, y = device.array(host), device.zeros(20 * lanes, number)
            part = x[offset:end]
            fits = offset % lanes == 0 and (end - offset) % lanes == 0
            assert part.address % vector.itemsize == offset * number.itemsize % vector.itemsize
            if fits:
                kernel(y[: 16 * lanes], part)
                np.testing.assert_array_equal(y.numpy()[: 16 * lanes], (host[offset:end] + host[offset:end]).astype(number.numpy))
                with kdsl.Graph(device) as graph:
                    node = kernel(y[: 16 * lanes], part)
                with pytest.raises(kdsl.LaunchError, match=r"\bx\b"):
                    graph.update(node, x=x[1 : 16 * lanes + 1])
                with pytest.raises(kdsl.LaunchError, match=r"\by\b"):
                    graph.update(node, y=y[1 : 16 * lanes + 1])
                continue
            for launch in (kernel, kernel.on(device.stream())):
                with pytest.raises(kdsl.LaunchError, match=r"\bx\b") as caught:
                    launch(y[: 16 * lanes], part)
                assert any(words in str(caught.value) for words in (of, f"multiple of {lanes}", f"multiple of {vector.itemsize} bytes"))
            assert not y.numpy().any()


@DEVICES
def test_numbers_and_vectors_of_one_array(device: Any) -> None:
    """`as_vectors` asks the same of a parameter of numbers, and what it does not reach stays as it was."""
    body = "v = as_vectors(x, 4)\ni = thread_index()\nif i < len(v):\n    v[i] = v[i] * 2.0"
    kernel = kernel_of("x: SliceMut[f32]", body, "grid=1, block=32")
    for count in (0, 3, 4, 7, 40, 43):
        x = device.array(np.arange(48, dtype=np.float32))
        kernel(x[4 : 4 + count])
        expected = np.arange(48, dtype=np.float32)
        expected[4 : 4 + count // 4 * 4] *= 2
        np.testing.assert_array_equal(x.numpy(), expected)
        if count:
            with pytest.raises(kdsl.LaunchError, match="x"):
                kernel(x[1 : 1 + count])
