"""Vectors in memory, of every type and on every device: the same bytes as NumPy moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import vector_kernels

import kdsl
from kdsl import Slice, SliceMut, as_vectors, f32, f32x4, i64, kernel, shared_array, sync_threads
from kdsl.lang.vectors import VECTORS
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
EVERY = pytest.mark.parametrize("of", VECTORS.values(), ids=str)
SOME = pytest.mark.parametrize("of", [VECTORS[name] for name in ("f32x4", "f32x2", "f64x2", "f16x8", "bf16x4", "u8x16", "i8x2")], ids=str)
COUNTS = (1, 0, 31, 33, 17 * 33)
RANDOM = np.random.default_rng(11)


def small(of: Any, *shape: int) -> Any:
    """Whole numbers that every type holds, and doubles of them."""
    return RANDOM.integers(0, 32, (*shape[:-1], shape[-1] * of.lanes)).astype(of.element.numpy)


def poison(device: Any, like: Any) -> Any:
    return device.array(np.frombuffer(bytes([0xA5]) * like.nbytes, like.dtype).reshape(like.shape))


def bits(array: Any) -> Any:
    host = array.numpy() if isinstance(array, kdsl.Array) else array
    return np.ascontiguousarray(host).view(f"u{host.dtype.itemsize}")


def any_bits(of: Any, count: int) -> Any:
    """All bit patterns, NaNs among them: an access moves bits."""
    return np.frombuffer(RANDOM.bytes(count * of.itemsize), of.element.numpy)


@DEVICES
@EVERY
def test_copies(device: Any, of: Any) -> None:
    kernels = vector_kernels.of(of)
    for count in COUNTS:
        x = any_bits(of, count)
        for each in (kernels.copy, kernels.partly):
            y = poison(device, x)
            each(device.array(x), y)
            assert np.array_equal(bits(y), bits(x))


@DEVICES
@EVERY
def test_places_of_each_lane(device: Any, of: Any) -> None:
    kernels = vector_kernels.of(of)
    for each, count in ((kernels.picked, 331), (kernels.picked, 1), (kernels.unchecked_picked, 3 * vector_kernels.BLOCK)):
        x = any_bits(of, count)
        which = RANDOM.permutation(count).astype(np.int32)
        y = poison(device, x)
        each(device.array(x), device.array(which), y)
        assert np.array_equal(bits(y), bits(x.reshape(count, of.lanes)[::-1].reshape(-1)))


@DEVICES
@EVERY
def test_one_place_for_all_and_runs(device: Any, of: Any) -> None:
    kernels = vector_kernels.of(of)
    x = any_bits(of, 352)
    y = poison(device, x)
    kernels.broadcast(device.array(x), y, 77)
    assert np.array_equal(bits(y), bits(np.tile(x.reshape(-1, of.lanes)[77], 352)))
    y = poison(device, x)
    kernels.rows_of_eight(device.array(x), y)
    assert np.array_equal(bits(y), bits(x))


@DEVICES
@EVERY
def test_groups_that_read_one_place(device: Any, of: Any) -> None:
    x = any_bits(of, 90)
    y = poison(device, x)
    wanted = y.numpy().reshape(90, of.lanes)
    i = np.arange(90)
    chosen = (i & 8 != 0) | (i % 8 > 2)
    wanted[chosen] = x.reshape(90, of.lanes)[i[chosen] // 4]
    wanted[0] = x.reshape(90, of.lanes)[37]
    vector_kernels.of(of).groups_of_four(device.array(x), y)
    assert np.array_equal(bits(y), bits(wanted.reshape(-1)))


@DEVICES
@EVERY
def test_shared_arrays(device: Any, of: Any) -> None:
    kernels, block = vector_kernels.of(of), vector_kernels.BLOCK
    x = small(of, 5 * block)
    y = poison(device, x)
    kernels.through_shared(device.array(x), y)
    wanted = (x + x).reshape(5, block, of.lanes)[:, ::-1].reshape(-1)
    assert np.array_equal(bits(y), bits(wanted))
    for count in (0, 1, 7, block // of.lanes, 33):
        x = any_bits(of, count)
        y = poison(device, x)
        kernels.numbers_in_shared(device.array(x), y)
        assert np.array_equal(bits(y), bits(x))


@DEVICES
@EVERY
def test_local_arrays(device: Any, of: Any) -> None:
    kernels = vector_kernels.of(of)
    count, shift = 101, 5
    x = small(of, count)
    y = poison(device, x)
    kernels.through_local(device.array(x), y, shift)
    i = np.arange(count)
    k = (shift + i) % 3 * 2 + (shift + i) % 2
    assert np.array_equal(y.numpy().reshape(count, of.lanes), x.reshape(count, of.lanes)[(i + k) % count])
    y = poison(device, x)
    kernels.in_registers(device.array(x), y)
    wanted = (x + x).reshape(count, of.lanes)
    wanted[:, 0] = x.reshape(count, of.lanes)[:, 0]
    assert np.array_equal(bits(y), bits(wanted.reshape(-1)))


@DEVICES
@SOME
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (17, 33), (40, 1), (1, 200)])
def test_rows_with_strides(device: Any, of: Any, rows: int, columns: int) -> None:
    kernels = vector_kernels.of(of)
    whole = any_bits(of, (rows + 2) * (columns + 3)).reshape(rows + 2, (columns + 3) * of.lanes)
    left, right = slice(1, rows + 1), slice(2 * of.lanes, (columns + 2) * of.lanes)
    for change in (lambda a: a[left, right], lambda a: a[left, right][::-1], lambda a: a[::2, of.lanes :]):
        x = change(whole)
        wanted = x.reshape(len(x), -1, of.lanes)[:, ::-1].reshape(x.shape)
        for each in (kernels.matrix, kernels.matrix_as_vectors):
            target = poison(device, whole)
            expected = target.numpy()
            change(expected)[...] = wanted
            each(change(device.array(whole)), change(target))
            assert np.array_equal(bits(target), bits(expected))


@DEVICES
@SOME
def test_a_last_extent_beyond_whole_vectors_is_not_reached(device: Any, of: Any) -> None:
    x = any_bits(of, 33)[: 32 * of.lanes + 1]
    y = poison(device, x)
    untouched = y.numpy()
    vector_kernels.of(of).matrix_as_vectors(device.array(x).reshape(1, -1), y.reshape(1, -1))
    assert np.array_equal(bits(y)[: 32 * of.lanes], bits(x[: 32 * of.lanes].reshape(-1, of.lanes)[::-1].reshape(-1)))
    assert bits(y)[-1] == bits(untouched)[-1]


# --------------------------------------------------------------------------------------------------------------------------------- checks


@DEVICES
@EVERY
def test_a_read_outside_gives_zeros_and_is_reported_in_vectors(device: Any, of: Any) -> None:
    x, y = small(of, 50), poison(device, small(of, 64))
    vector_kernels.of(of).checked_copy(device.array(x), y)
    with pytest.raises(kdsl.BoundsError, match=r"read outside array x: index \d+ is out of bounds for 50 elements") as caught:
        device.synchronize()
    assert caught.value.extent == 50
    assert caught.value.index is not None
    assert caught.value.index >= 50  # the first of them to arrive
    host = y.numpy()
    assert np.array_equal(bits(host[: 50 * of.lanes]), bits(x))
    assert not bits(host[50 * of.lanes :]).any()


@DEVICES
@EVERY
def test_a_write_outside_writes_nothing(device: Any, of: Any) -> None:
    y = poison(device, small(of, 33))
    before = bits(y)
    which = np.array([33, 34, 1 << 30, -1], np.int32)
    vector_kernels.of(of).picked(device.array(np.concatenate([small(of, 33)])), device.array(which), y)
    with pytest.raises(kdsl.BoundsError, match="out of bounds for 33 elements"):
        device.synchronize()
    assert np.array_equal(bits(y), before)


@DEVICES
@SOME
def test_indices_of_all_lanes_outside(device: Any, of: Any) -> None:
    x, y = small(of, 20), poison(device, small(of, 40))
    for k in (20, -1, 1 << 60):
        y.fill(1)
        vector_kernels.of(of).broadcast(device.array(x), y, k)
        with pytest.raises(kdsl.BoundsError, match=f"index {k} is out of bounds for 20 elements"):
            device.synchronize()
        assert not bits(y).any()


@DEVICES
def test_a_vector_that_is_partly_outside_is_outside(device: Any) -> None:
    @kernel(grid=1, block=32)
    def last(x: Slice[f32], y: SliceMut[f32x4], k: i64) -> None:
        y[0] = as_vectors(x, f32x4)[k]

    @kernel(grid=1, block=32)
    def last_shared(y: SliceMut[f32x4], k: i64) -> None:
        s = shared_array(7, f32)
        s[0] = s[1] = s[2] = s[3] = 5.0
        sync_threads()
        y[0] = as_vectors(s, f32x4)[k]

    x, y = device.array(np.ones(7, np.float32)), device.full(4, 9.0, kdsl.f32)
    for k, wanted in ((0, 1), (1, 0)):
        last(x, y, k)
        if k:
            with pytest.raises(kdsl.BoundsError, match="read outside array x: index 1 is out of bounds for 1 elements"):
                device.synchronize()
        assert y.numpy().tolist() == [wanted] * 4
        last_shared(y, k)
        if k:
            with pytest.raises(kdsl.BoundsError, match="read outside array s: index 1 is out of bounds for 1 elements"):
                device.synchronize()
        assert y.numpy().tolist() == [5 * wanted] * 4
