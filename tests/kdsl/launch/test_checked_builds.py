"""What a checked build finds beside accesses: divisions by zero, shifts out of range, lanes outside their mask, threads that do not agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import Slice, SliceMut, i32, kernel, shared_array, sync_threads, thread_index, u32, warp_sum
from kdsl.ir import nodes
from kdsl.testing import devices
from kdsl.testing.ptx import assemble

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    kdsl.checked()
    yield
    kdsl.checked(False)


@kernel(grid=1, block=40)
def quotient(x: Slice[i32], n: Slice[i32], y: SliceMut[i32]) -> None:
    t = thread_index()
    y[t] = x[t] // n[t]
    y[t] += x[t] % ((n[t] & 7) + 1)  # proved


@kernel(grid=1, block=40)
def remainder(x: Slice[i32], n: Slice[i32], y: SliceMut[i32]) -> None:
    t = thread_index()
    y[t] = x[t] % n[t]


@kernel(grid=1, block=40)
def shifted(x: Slice[i32], n: Slice[i32], y: SliceMut[i32]) -> None:
    t = thread_index()
    y[t] = (x[t] << n[t]) + (x[t] >> (n[t] & 31))


@kernel(grid=1, block=40)
def masked(x: Slice[i32], n: Slice[i32], y: SliceMut[i32]) -> None:
    t = thread_index()
    y[t] = x[t]
    if t % 32 < 8:
        y[t] = warp_sum(x[t], mask=u32(n[t]))


@kernel(grid=1, block=40)
def together(x: Slice[i32], n: Slice[i32], y: SliceMut[i32]) -> None:
    t = thread_index()
    s = shared_array(40, i32)
    total = i32(0)
    for _ in range(n[0]):
        s[t] = x[t] + total
        sync_threads()
        total += s[39 - t]
        sync_threads()
        if n[1] == 1:
            break
        if n[2] > 0:
            total += warp_sum(total)
    y[t] = total


def launch(device: Any, wanted: Any, n: Any) -> Any:
    x = np.arange(40, dtype=np.int32) - 3
    y = device.full(40, -77, i32)
    wanted(device.array(x), device.array(np.asarray(n, np.int32)), y)
    return y.numpy()


@DEVICES
@pytest.mark.parametrize(("wanted", "good", "bad", "message"), [
    (quotient, 3, 0, "the divisor of `//` is zero; the result was 0, in block (0, 0, 0), thread (37, 0, 0)"),
    (remainder, -3, 0, "the divisor of `%` is zero"),
    (shifted, 31, 32, "a shift is out of range, a shift of i32 by fewer than 32 bits is meant"),
    (shifted, 0, -1, "a shift is out of range"),
], ids=str)  # fmt: skip
def test_arithmetic(device: Any, wanted: Any, good: int, bad: int, message: str) -> None:
    n = np.full(40, good)
    launch(device, wanted, n)
    n[37] = bad
    with pytest.raises(kdsl.BoundsError) as caught:
        launch(device, wanted, n)
    assert message in str(caught.value)
    assert caught.value.thread == (37, 0, 0)
    assert f"kernel {wanted.__name__}" in str(caught.value)


@DEVICES
def test_a_lane_outside_its_own_mask(device: Any) -> None:
    n = np.full(40, 0xFF)
    assert launch(device, masked, n)[0] == sum(range(-3, 5))
    n[:8] = 0xFE
    with pytest.raises(kdsl.BoundsError, match=r"a lane that is not in its own mask came to warp_sum\(\)") as caught:
        launch(device, masked, n)
    assert caught.value.thread == (0, 0, 0)


@DEVICES
def test_threads_that_agree(device: Any) -> None:
    n = np.full(40, 3)
    expected = launch(device, together, n)
    kdsl.checked(False)
    assert launch(device, together, n).tobytes() == expected.tobytes()


def test_what_is_read_from_memory_is_compared_before_barriers() -> None:
    body = together.ir().body
    agreed = [op for op in nodes.walk(body) if isinstance(op, nodes.Agreed)]
    assert [op.among for op in agreed] == ["block", "block", "warp"]
    for target in ("sm_80", "sm_90"):
        ptx = together.ptx(target)
        assemble(ptx, target)
    kdsl.checked(False)
    assert not any(isinstance(op, nodes.Agreed) for op in nodes.walk(together.ir().body))


def test_what_is_proved_is_not_checked() -> None:
    kinds = [site.kind for site in quotient.ir().sites]
    assert kinds.count("divide") == 1
    assert [site.kind for site in shifted.ir().sites].count("shift") == 1
