"""Programs that are right, in ways that a hasty sanitizer takes for wrong. Their results are those of the plain build."""

from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import (
    D2,
    Const,
    DisjointSlice,
    Slice,
    SliceMut,
    atomic_add,
    atomic_cas,
    atomic_load,
    block_idx,
    block_prefix_sum,
    block_sum,
    commit_copies,
    copy_async,
    elements,
    f32,
    float_bits,
    i32,
    kernel,
    lane_index,
    local_array,
    shared_array,
    shuffle_down,
    shuffle_xor,
    sync_threads,
    thread_idx,
    thread_index,
    u8,
    u32,
    wait_copies,
    warp_match_any,
    warp_sum,
)
from kdsl.testing import sanitized

N = 128


@kernel(grid=4, block=N)
def collectives(x: Slice[f32], y: SliceMut[f32]) -> None:
    i = block_idx.x * N + thread_idx.x
    y[i] = block_sum(x[i]) + block_prefix_sum(x[i]) + block_sum(x[i] * 2.0)


@kernel(grid=2, block=N)
def pipeline(x: Slice[f32], y: SliceMut[f32]) -> None:
    """Copies run one stage ahead; a warp that is early waits for the next stage while others still read the present one."""
    s = shared_array((2, N, 4), f32)
    t = thread_idx.x
    total = f32(0)
    copy_async(s, (0, t, 0), x, 4 * t, 4)
    commit_copies()
    for stage in range(4):
        if stage < 3:
            copy_async(s, ((stage + 1) % 2, t, 0), x, 4 * (N * (stage + 1) + t), 4)
        commit_copies()
        wait_copies(1)
        sync_threads()
        for k in range(4):
            total += s[stage % 2, (t + 33) % N, k]
        sync_threads()
    y[block_idx.x * N + t] = total


@kernel(grid=4, block=N)
def histogram(x: Slice[f32], count: SliceMut[i32], largest: SliceMut[f32]) -> None:
    """Atomic operations of all blocks on the same elements, also in a loop of compare and swap."""
    own = shared_array(8, i32)
    t = thread_idx.x
    if t < 8:
        own[t] = 0
    sync_threads()
    i = block_idx.x * N + t
    atomic_add(own, i32(x[i]) % 8, i32(1))
    sync_threads()
    if t < 8:
        atomic_add(count, t, own[t])
    seen = atomic_load(largest, 0)
    while x[i] > seen:
        found = atomic_cas(largest, 0, seen, x[i])
        if float_bits(found) == float_bits(seen):
            break
        seen = found


@kernel(grid=1, block=50)
def half_a_warp(x: Slice[f32], y: SliceMut[f32]) -> None:
    """A warp that is not full, lanes that return, exchange among those that are left; lanes that take nothing from beyond their segment."""
    t = thread_idx.x
    v = x[t]
    v += shuffle_down(v, 1, width=2)
    if lane_index() < 16:
        y[t] = v + shuffle_xor(v, 1, mask=u32(0xFFFF))
    if t >= 45:
        return
    same = warp_match_any(i32(v) % 3)
    y[t] = v + warp_sum(v, mask=same)


@kernel(grid=1, block=N)
def bytes_side_by_side(x: Slice[u8], y: SliceMut[u8, D2]) -> None:
    """Neighbouring bytes and interleaved columns, each of one thread."""
    s = shared_array(N, u8)
    t = thread_idx.x
    s[t] = x[t]
    y[t // 2, t % 2] = x[t]
    y[t // 2, t % 2] = s[t]


@kernel(grid=elements("y"))
def own_array(x: Slice[f32], y: DisjointSlice[f32], size: Const[int]) -> None:
    """Every thread has its local array; only what was written is read."""
    a = local_array(4, f32)
    i = thread_index()
    if i < len(x):
        for k in range(size):
            a[k] = x[i] + f32(k)
        if i in y:
            y[i] = a[size - 1]


def floats(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 97


def run(which: str, device: Any) -> list[Any]:
    zeros = device.zeros
    match which:
        case "collectives":
            y = [zeros(4 * N, f32)]
            collectives(device.array(floats(4 * N)), *y)
        case "pipeline":
            y = [zeros(2 * N, f32)]
            pipeline(device.array(floats(16 * N)), *y)
        case "histogram":
            y = [zeros(8, i32), zeros(1, f32)]
            histogram(device.array(floats(4 * N)), *y)
        case "half_a_warp":
            y = [zeros(50, f32)]
            half_a_warp(device.array(floats(50)), *y)
        case "bytes_side_by_side":
            y = [zeros((2, N // 2), u8)]
            bytes_side_by_side(device.array(np.arange(N, dtype=np.uint8)), y[0].T)
        case _:
            y = [device.empty(3 * N + 1, f32)]
            own_array(device.array(floats(3 * N + 1)), *y, size=3)
    return [each.numpy() for each in y]


PLACES: dict[str, tuple[Any, Any]] = {
    "collectives": (4, N), "pipeline": (2, N), "histogram": (4, N), "half_a_warp": (1, 50), "bytes_side_by_side": (1, N), "own_array": (elements("y"), None),
}  # fmt: skip


@pytest.mark.parametrize("which", PLACES)
def test_nothing_is_found(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    device = kdsl.device("cpu")
    with sanitized() as found:
        watched = run(which, device)
    assert not found
    plain = kernel(grid=PLACES[which][0], block=PLACES[which][1])(globals()[which].__wrapped__)  # not yet launched, so not instrumented
    monkeypatch.setitem(globals(), which, plain)
    for a, b in zip(watched, run(which, device), strict=True):
        assert a.tobytes() == b.tobytes()


def test_nothing_is_found_the_second_time() -> None:
    """What the sanitizer knows of arrays outlives a watched part of a test, and is older than all that happens in the next one."""
    device = kdsl.device("cpu")
    y = device.zeros(4 * N, f32)
    for _ in range(2):
        with sanitized() as found:
            collectives(device.array(floats(4 * N)), y)
        assert not found
