"""Atomic operations on vectors under the sanitizer: they do not race with each other, they do with a plain write, and their places are looked at."""

import numpy as np

import kdsl
from kdsl import (
    Slice,
    SliceMut,
    atomic_add,
    atomic_exchange,
    atomic_load,
    atomic_store,
    f32,
    f32x4,
    kernel,
    shared_array,
    sync_threads,
    thread_idx,
    u64,
    u64x2,
)
from kdsl.testing import sanitized

CPU = kdsl.device("cpu")


@kernel(grid=3, block=48)
def added(x: Slice[f32x4], y: SliceMut[f32x4], old: SliceMut[u64x2]) -> None:
    t = thread_idx.x
    s = shared_array(2, u64x2)
    if t < 2:
        s[t] = u64x2(u64(t))
    sync_threads()
    atomic_add(y, t % 2, x[t])
    old[t] = atomic_exchange(s, t % 2, u64x2(u64(t)))


@kernel(grid=1, block=48)
def written_beside(x: Slice[f32x4], y: SliceMut[f32]) -> None:
    atomic_add(kdsl.as_vectors(y, f32x4), 0, x[0])
    if thread_idx.x == 40:
        y[3] = 1.0


@kernel(grid=1, block=32)
def outside(x: Slice[f32x4], y: SliceMut[f32x4]) -> None:
    atomic_add(y.unchecked, thread_idx.x // 16 + 1, x[0])


@kernel(grid=3, block=48)
def passed_on(y: SliceMut[u64x2], z: SliceMut[u64x2]) -> None:
    """Stores and loads of all blocks, of shared memory that only a store has written, and after a barrier plain reads."""
    t = thread_idx.x
    s = shared_array(48, u64x2)
    atomic_store(s, t, u64x2(u64(t)))
    atomic_store(z, 0, atomic_load(s, t))
    atomic_store(z, 1, atomic_load(y, 0))
    sync_threads()
    if s[47 - t].x != u64(47 - t) or y[1].x != u64(0):
        atomic_store(z, 2, y[1])


@kernel(grid=1, block=48)
def read_beside(y: SliceMut[u64x2], z: SliceMut[u64x2]) -> None:
    t = thread_idx.x
    if t == 3:
        atomic_store(y, 0, u64x2(u64(t)))
    if t == 40:
        z[0] = y[0]


def test_loads_and_stores_race_with_plain_ones_only() -> None:
    y, z = CPU.zeros(4, u64), CPU.zeros(6, u64)
    with sanitized() as found:
        passed_on(y, z)
    assert not found
    with sanitized() as found:
        read_beside(y, z)
    assert [(f.kind, f.array) for f in found] == [("race", "y")]


def test_they_do_not_race_with_each_other() -> None:
    x, y = CPU.array(np.ones(4 * 48, np.float32)), CPU.array(np.zeros(8, np.float32))
    with sanitized() as found:
        added(x, y, CPU.zeros(96, u64))
        assert y.numpy().tolist() == [72] * 8
    assert [f.kind for f in found] == ["race"]  # blocks write `old` in the same places
    assert found[0].array == "old"


def test_a_plain_write_beside_one_is_a_race() -> None:
    with sanitized() as found:
        written_beside(CPU.zeros(4, f32), CPU.zeros(4, f32))
    (finding,) = found
    assert (finding.kind, finding.array) == ("race", "y")
    assert {spot.what for spot in (finding.spot, finding.other) if spot is not None} == {"atomic operation", "write"}
    assert "y[3]" in finding.message


def test_one_that_is_outside_is_left_out() -> None:
    y = CPU.zeros(8, f32)
    with sanitized() as found:
        outside(CPU.array(np.ones(4, np.float32)), y)
    (finding,) = found
    assert (finding.kind, finding.array) == ("outside", "y")
    assert y.numpy().tolist() == [0, 0, 0, 0, 16, 16, 16, 16]
