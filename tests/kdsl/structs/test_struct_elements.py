"""Arrays of structs in kernels, against the same on NumPy's structured arrays, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import struct_kernels as kernels
from samples import Bins, Momentum, Pair, Sample, Step, differing, poisoned, random

import kdsl
from kdsl import BoundsError
from kdsl.errors import ArgumentError
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
SIZES = pytest.mark.parametrize("n", [1, 31, 33, 64, 200])


@DEVICES
@SIZES
def test_copies(device: Any, n: int) -> None:
    x = random(n, Sample, n)
    y = device.array(poisoned(n, Sample))
    kernels.copied(y, device.array(x))
    assert not differing(y.numpy(), x)


@DEVICES
@pytest.mark.parametrize("cls", [Sample, Momentum, Pair, Step, Bins], ids=lambda cls: cls.__name__)
def test_a_type_variable_can_be_a_struct(device: Any, cls: type) -> None:
    x = random(77, cls, 1)
    index = np.random.default_rng(2).integers(0, 77, 133).astype(np.int32)
    y = device.array(poisoned(133, cls))
    kernels.gathered(y, device.array(x), device.array(index))
    assert not differing(y.numpy(), x[index])
    numbers = device.full(133, np.nan, kdsl.f64)  # and a number, as ever
    kernels.gathered(numbers, device.array(np.arange(77.0)), device.array(index))
    assert np.array_equal(numbers.numpy(), index)


@DEVICES
@pytest.mark.parametrize("bad", [77, -1, -(2**31)])
def test_a_whole_element_outside_reads_zeros_and_is_reported_once(device: Any, bad: int) -> None:
    x = random(77, Sample, 1)
    index = np.random.default_rng(2).integers(0, 77, 133).astype(np.int32)
    index[100] = bad
    y = device.array(poisoned(133, Sample))
    kernels.gathered(y, device.array(x), device.array(index))
    with pytest.raises(
        BoundsError, match=f"read outside array x: index {bad} is out of bounds for 77 elements, in block .1, 0, 0., thread .36, 0, 0."
    ):
        device.synchronize()
    wanted = x[np.where(index == bad, 0, index)]
    wanted[100] = np.zeros((), Sample)
    assert not differing(y.numpy(), wanted)


def advanced(s: np.ndarray[Any, Any], rate: np.float32, count: int) -> None:
    """The reference of `kernels.advanced`."""
    i = np.arange(len(s))
    s["valid"] = ~s["valid"]
    s["value"] += rate
    s["momentum"]["first"] = s["value"]
    s["momentum"]["second"] *= 2
    s["momentum"]["steps"] += 1
    s["history"][:, 2] = s["history"][:, 0]
    s["history"][i, i % 2] -= np.float32(1)
    s["code"] = -s["code"]
    s["half"] = s["half"] + s["half"]
    s["total"] += count
    s["pairs"]["key"] = s["pairs"]["key"][:, ::-1].copy()
    s["pairs"]["tag"][i, i % 2] ^= 1
    s["matrix"][i, i % 2, i % 3] = 0.5
    s["last"] = 7
    s["matrix"][:, 1, 1] = 0.25


@DEVICES
@SIZES
def test_fields_are_changed_in_place(device: Any, n: int) -> None:
    wanted = random(n, Sample, n)
    s = device.array(wanted)
    kernels.advanced(s, Step(0.1, 12345678))
    advanced(wanted, np.float32(0.1), 12345678)
    assert not differing(s.numpy(), wanted)


@DEVICES
@SIZES
def test_parts_are_written_as_wholes(device: Any, n: int) -> None:
    wanted = random(n, Sample, n)
    m, w = random(n, Momentum, n + 1), np.array([0.5, 0.25, 3], np.float32)
    s = device.array(wanted)
    kernels.replaced(s, device.array(m), device.array(w))
    if n % 64:
        with pytest.raises(BoundsError, match=rf"outside array (s|m): index \d+ is out of bounds for {n} elements"):
            device.synchronize()
    wanted["momentum"] = m
    wanted["pairs"]["key"] = 1
    wanted["pairs"]["tag"] = 2
    wanted["matrix"] = np.arange(1, 7).reshape(2, 3)
    wanted["history"] = w * 2
    assert not differing(s.numpy(), wanted)


@DEVICES
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (17, 33), (31, 9), (8, 16)])
def test_two_dimensions(device: Any, rows: int, columns: int) -> None:
    x = random((columns, rows), Sample, rows)
    y = device.array(poisoned((rows, columns), Sample))
    kernels.transposed(y, device.array(x))
    wanted = x.T.copy()
    wanted["momentum"]["first"] += np.float32(1)
    assert not differing(y.numpy(), wanted)
    # through strides: the same elements backwards
    kernels.transposed(y[::-1], device.array(np.ascontiguousarray(x[:, ::-1])))
    assert not differing(y.numpy(), wanted)


@DEVICES
@SIZES
def test_shared_arrays(device: Any, n: int) -> None:
    x = random(n, Sample, n)
    y = device.array(poisoned(n, Sample))
    kernels.through_shared(y, device.array(x))
    wanted, i = poisoned(n, Sample), np.arange(n)
    other = i // 96 * 96 + 95 - i % 96
    there = other < n
    wanted[there] = x[other[there]]
    wanted["momentum"]["second"][there] += 1
    wanted["value"][there] *= 2
    assert not differing(y.numpy(), wanted)


@DEVICES
@SIZES
def test_local_arrays(device: Any, n: int) -> None:
    x = random(n, Sample, n)
    y = device.array(poisoned(n, Sample))
    kernels.through_local(y, device.array(x), 3)
    wanted, i = x.copy(), np.arange(n)
    k = (3 + i) % 5
    wanted["value"] = k
    wanted["momentum"]["steps"] = 3
    wanted["pairs"]["key"][:, 1] += 5
    wanted["matrix"][i, k % 2, k % 3] = k
    wanted["history"][:, 0] = x["history"][:, 1]
    assert not differing(y.numpy(), wanted)


def test_a_launch_takes_only_its_own_layout() -> None:
    device = kdsl.device("cpu")
    x, index = device.zeros(3, Sample), device.zeros(3, kdsl.i32)
    with pytest.raises(
        ArgumentError, match=r"parameter y is DisjointSlice\[Sample\]; the argument is an array of Momentum: it has no field valid"
    ):
        kernels.copied(device.zeros(3, Momentum), x)
    with pytest.raises(ArgumentError, match=r"parameter x is Slice\[Sample\]; the argument is an array of f32: it holds f32, not a struct"):
        kernels.copied(device.zeros(3, Sample), device.zeros(3, kdsl.f32))
    changed = [(name, Sample.dtype.fields[name][0]) for name in Sample.dtype.names]  # type: ignore[attr-defined]
    changed[1] = ("value", np.dtype("f8"))
    other = device.array(np.zeros(3, np.dtype(changed, align=True)))
    with pytest.raises(ArgumentError, match="its field value is f64, and that of Sample is f32"):
        kernels.copied(other, x)
    with pytest.raises(ArgumentError, match=r"have the same element type T; the arguments have Sample .* and Step"):
        kernels.gathered(device.zeros(3, Sample), device.zeros(3, Step), index)


def test_overlap_counts_elements() -> None:
    device = kdsl.device("cpu")
    x = device.array(random(40, Sample))
    kernels.copied(x[:20], x[20:])
    with pytest.raises(kdsl.LaunchError, match="overlap"):
        kernels.copied(x[:20], x[10:30])
    device.synchronize()


# ------------------------------------------------------------------------------------------------------------------------------- values


def computed(x: np.ndarray[Any, Any], weights: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    """The reference of `kernels.computed`, element by element in the types of the fields."""
    found = np.zeros(len(x), Momentum)
    with np.errstate(over="ignore"):
        for i, whole in enumerate(x):
            first, second, steps = whole["momentum"]["first"], whole["momentum"]["second"], whole["momentum"]["steps"]
            for k in range(n):
                if k % 2 == 0:
                    by = whole["history"][k % 3]
                    if not by < 0:
                        first, steps = first + by, np.uint8(steps + np.uint8(1))
                else:
                    first, second = first * np.float32(0.5), second + np.float64(first)
            a, b = (first, second, steps), tuple(whole["momentum"].tolist())
            low, high = (a, b) if a[0] < b[0] else (b, a)
            first, second, steps = low if whole["valid"] else high
            total = np.float32(0)
            for k in range(3):
                total += whole["history"][k] * weights[k]
            first = np.float32(first)
            while first > 1:
                first -= np.float32(1)
            found[i] = (first + total, second, steps)
    return found


@DEVICES
@SIZES
@pytest.mark.parametrize("trips", [0, 5])
def test_values(device: Any, n: int, trips: int) -> None:
    x, weights = random(n, Sample, n), np.array([0.5, 0.25, 3], np.float32)
    y = device.array(poisoned(n, Momentum))
    kernels.computed(y, device.array(x), device.array(weights), trips)
    assert not differing(y.numpy(), computed(x, weights, trips))


@DEVICES
@SIZES
@pytest.mark.parametrize("trips", [0, 1, 7])
def test_a_loop_carries_a_struct_with_arrays(device: Any, n: int, trips: int) -> None:
    x = random(n, Sample, n + 5)
    y = device.array(poisoned(n, Sample))
    kernels.carried(y, device.array(x), trips)
    wanted = np.zeros(n, Sample)
    for i in range(n):
        best = x[i].copy()
        for k in range(trips):
            other = x[(i + k) % n]
            if other["history"][k % 3] > best["history"][k % 3]:
                best = other.copy()
            elif k == 2:
                best["history"][2] = 9
        wanted[i] = best
        wanted[i]["value"] = np.float32(best["matrix"][i % 2, i % 3]) + np.float32(best["pairs"]["tag"][i % 2])
    assert not differing(y.numpy(), wanted)


# ------------------------------------------------------------------------------------------------------------------- another block's arrays

WITH_CLUSTERS = [d for d in devices() if d.name != "cpu" and d.capability >= (9, 0)]  # type: ignore[attr-defined]  # GPUs have one


@pytest.mark.parametrize("device", WITH_CLUSTERS, ids=str)
def test_elements_of_another_block(device: Any) -> None:
    x = random(256, Sample, 3)
    y = device.array(poisoned(256, Sample))
    kernels.exchanged(y, device.array(x))
    wanted, other = x.copy(), x.reshape(2, 2, 64)[:, ::-1].reshape(-1)
    wanted["value"] *= 2
    wanted["pairs"][:, 1] = [(key, 9) for key in x["pairs"]["key"][:, 0]]
    wanted["pairs"]["key"][:, 0] += 5
    wanted["history"] = other["history"]
    assert not differing(y.numpy(), wanted)


# ------------------------------------------------------------------------------------------------------------------------------ atomics


@DEVICES
@pytest.mark.parametrize("kernel", [kernels.counted, kernels.counted_in_shared], ids=lambda k: k.name)
@pytest.mark.parametrize("n", [1, 33, 5000])
def test_atomic_operations_on_fields(device: Any, kernel: Any, n: int) -> None:
    x = np.random.default_rng(n).integers(0, 20, n).astype(np.int32)
    start = random(4, Bins, 3)
    bins = device.array(start)
    kernel(bins, device.array(x))
    wanted = start.copy()
    np.add.at(wanted["counts"], (x // 5, x % 5), np.uint32(1))
    if kernel is kernels.counted:
        np.add.at(wanted["total"], x // 5, x.astype(np.int64))
        touched = np.unique(x // 5)
        wanted["total"][touched] = np.maximum(wanted["total"][touched], 3)
    assert not differing(bins.numpy(), wanted)


@DEVICES
def test_an_atomic_operation_outside_is_left_out(device: Any) -> None:
    start = random(4, Bins, 3)
    bins = device.array(start)
    kernels.counted(bins, device.array(np.array([20], np.int32)))
    with pytest.raises(
        BoundsError, match=r"atomic operation outside array bins(\[\]\.counts)?: index 4 (of dimension 0 )?is out of bounds for 4 elements"
    ):
        device.synchronize()
    assert not differing(bins.numpy(), start)
