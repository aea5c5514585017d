"""Rules of struct values that are easily got wrong: copies are copies, fields keep their types, names, unrolled loops, functions, checked builds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from samples import Bins, Momentum, Pair, Sample, Step, Taps, differing, instance, poisoned, random
from struct_kernels import moved

import kdsl
from kdsl import (
    BoundsError,
    Const,
    DisjointSlice,
    FixedArray,
    Slice,
    SliceMut,
    elements,
    f32,
    f64,
    function,
    i32,
    i64,
    kernel,
    local_array,
    thread_index,
    u8,
    unroll,
)
from kdsl.ir import nodes
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)


@kernel(grid=elements("s"), block=32)
def swapped(s: SliceMut[Sample], by: i32) -> None:
    i = thread_index()
    if i in s:
        before = s[i]
        s[i].value = 0.0
        s[i].history = (0.0, 0.0, 0.0)
        s[i].momentum = Momentum(1.0, 2.0, 3)
        s[i].pairs[1] = Pair(4, 5)
        # what was read before is not changed by what is written after
        s[i].total = i64(before.value * 8.0) + i64(before.pairs[by].key)
        s[i].momentum = before.momentum
        s[i].history[by] = before.history[by]
        s[i].pairs[0] = before.pairs[1]


@DEVICES
@pytest.mark.parametrize("n", [1, 31, 70])
def test_a_copy_is_a_copy(device: Any, n: int) -> None:
    wanted = random(n, Sample, n)
    wanted["value"] = np.round(wanted["value"] * 4) / 4
    s = device.array(wanted)
    swapped(s, 1)
    before = wanted.copy()
    wanted["value"], wanted["history"] = 0, 0
    wanted["pairs"][:, 1] = (4, 5)
    wanted["total"] = (before["value"] * 8).astype(np.int64) + before["pairs"]["key"][:, 1]
    wanted["history"][:, 1] = before["history"][:, 1]
    wanted["pairs"][:, 0] = before["pairs"][:, 1]
    assert not differing(s.numpy(), wanted)


@function
def second(values: Slice[f32]) -> f32:
    return values[1]


@function
def last(values: FixedArray[f32, Taps], k: i64) -> f32:
    return values[k]


@kernel(grid=elements("y"), block=32)
def passed(y: DisjointSlice[f32], x: Slice[Sample], index: Slice[i32], p: Sample, *, trips: Const[int]) -> None:
    i = thread_index()
    if i in y and i in x:
        total = second(p.history) + last(p.history, i % 3) + second(x[i].history) + last(x[i].history, i % 3)
        whole = p.pairs[index[i]]
        total += f32(whole.key) + f32(p.pairs[i % 2].tag)
        m = p.momentum
        for k in unroll(trips):
            m = moved(m, x[i].history[k])
        y[i] = total + m.first + f32(m.steps)


@DEVICES
def test_parts_go_to_functions(device: Any) -> None:
    n = 45
    x, (p,) = random(n, Sample, 1), random(1, Sample, 2)
    index = np.arange(n, dtype=np.int32) % 2
    index[33] = 2
    y = device.full(n, np.nan, f32)
    passed(y, device.array(x), device.array(index), instance(p, Sample), trips=3)
    with pytest.raises(BoundsError, match=r"read outside array p\.pairs: index 2 is out of bounds for 2 elements"):
        device.synchronize()
    wanted, i = np.zeros(n, np.float32), np.arange(n)
    keys = np.where(index < 2, p["pairs"]["key"][index % 2], 0)
    wanted = p["history"][1] + p["history"][i % 3] + x["history"][:, 1] + x["history"][i, i % 3]
    wanted += keys.astype(np.float32) + p["pairs"]["tag"][i % 2].astype(np.float32)
    first, steps = np.full(n, p["momentum"]["first"]), np.full(n, p["momentum"]["steps"])
    for k in range(3):
        by = x["history"][:, k]
        first, steps = np.where(by < 0, first, first + by), np.where(by < 0, steps, steps + 1)
    assert np.array_equal(y.numpy(), wanted + first + steps.astype(np.float32))


@DEVICES
def test_any_byte_but_zero_is_true(device: Any) -> None:
    @kernel(grid=elements("y"), block=32)
    def k(y: DisjointSlice[Sample], x: Slice[Sample]) -> None:
        i = thread_index()
        if i in y and i in x:
            y[i].valid = x[i].valid
            s = x[i]
            y[i].last = u8(s.valid) + u8(x[i].valid)

    x = np.zeros(40, Sample)
    x.view(np.uint8).reshape(40, -1)[::3, 0] = 5
    y = device.zeros(40, Sample)
    k(y, device.array(x))
    found = y.numpy()
    assert found.view(np.uint8).reshape(40, -1)[:, 0].tolist() == [i % 3 == 0 for i in range(40)]
    assert found["last"].tolist() == [2 * (i % 3 == 0) for i in range(40)]


def test_a_field_has_its_type_whatever_it_is_made_of() -> None:
    @kernel(grid=1, block=32)
    def k(y: SliceMut[i64], n: i32) -> None:
        count = 3
        for _ in range(n):
            count = count + 1
        bins = Bins(1, (0, 0, 0, 0, 0), count, 2)
        y[0] = bins.total + n

    sums = [op.type.name for op in nodes.walk(k.ir().body) if isinstance(op, nodes.Binary) and op.op == "add"]
    assert sums == ["i64", "i64"]
    assert any(v.name == "count" and v.type.name == "i64" for v in k.ir().variables)


def test_a_literal_that_does_not_fit_a_field() -> None:
    @kernel(grid=1, block=32)
    def k(y: SliceMut[f32]) -> None:
        y[0] = f32(Pair(1, 256).tag)

    with pytest.raises(kdsl.KernelError, match="256 does not fit a u8"):
        k.ir()


@DEVICES
def test_declared_names(device: Any) -> None:
    @kernel(grid=elements("y"), block=32)
    def k(y: DisjointSlice[f64], x: Slice[Sample], n: i32) -> None:
        i = thread_index()
        if i in y and i in x:
            s: Sample
            m: Momentum = x[i].momentum
            if n > 2:
                s = x[i]
            else:
                s = x[0]
                m = s.momentum
            y[i] = s.matrix[1, i % 3] + m.second

    x = random(33, Sample, 4)
    for n in (1, 3):
        y = device.full(33, np.nan, f64)
        k(y, device.array(x), n)
        picked = x if n > 2 else np.repeat(x[:1], 33)
        assert np.array_equal(y.numpy(), picked["matrix"][np.arange(33), 1, np.arange(33) % 3] + picked["momentum"]["second"])


def test_a_declared_struct_must_be_assigned_before_it_is_read() -> None:
    @kernel(grid=1, block=32)
    def k(y: SliceMut[f32], x: Slice[Step], n: i32) -> None:
        s: Step
        if n > 0:
            s = x[0]
        y[0] = s.rate

    with pytest.raises(kdsl.KernelError, match="`s` may have no value here"):
        k.ir()


@DEVICES
def test_checked_builds_check_unchecked_elements(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import kdsl.compiler

    @kernel(grid=1, block=32)
    def k(y: SliceMut[f32], x: Slice[Sample], n: i32) -> None:
        if thread_index() == 0:
            whole = x.unchecked[n]
            y[0] = whole.value + x.unchecked[n].momentum.first + x.unchecked[0].history[n - n]

    monkeypatch.setattr(kdsl.compiler, "_checks", "all")
    y = device.full(1, np.nan, f32)
    k(y, device.array(random(3, Sample)), 3)
    with pytest.raises(BoundsError, match="read outside array x: index 3"):
        device.synchronize()
    assert y.numpy()[0] == random(3, Sample)["history"][0, 0]


@DEVICES
def test_an_index_into_an_array_of_an_element(device: Any) -> None:
    @kernel(grid=elements("x"), block=64)
    def k(s: SliceMut[Sample], x: Slice[i32]) -> None:
        i = thread_index()
        if i in x:
            s[i].history[x[i]] = 1.0
            s[i].matrix[x[i] % 2, 2] = f64(s[i].history[x[i]])

    start = random(70, Sample, 3)
    s, index = device.array(start), np.arange(70, dtype=np.int32) % 3
    index[69] = 3
    k(s, device.array(index))
    with pytest.raises(
        BoundsError, match=r"write outside array s\[\]\.history: index 3 of dimension 1 is out of bounds for 3 elements"
    ) as caught:
        device.synchronize()
    assert caught.value.array == "s[].history"
    i = np.arange(69)
    start["history"][i, index[:69]] = 1
    start["matrix"][i, index[:69] % 2, 2] = 1
    start["matrix"][69, 1, 2] = 0
    assert not differing(s.numpy(), start)


@DEVICES
def test_structs_are_printed_as_on_the_host(device: Any, capsys: Any) -> None:
    @kernel(grid=1, block=32)
    def k(x: Slice[Sample], p: Sample) -> None:
        if thread_index() == 0:
            print(p)
            print(f"{x[1].momentum}", Pair(1, 2), x[1].pairs[0], x[1].history)

    x = random(2, Sample, 8)
    x["value"], x["history"] = 0.5, [0.25, -1, 2]  # shown alike as f32 and as f64
    x["momentum"]["first"], x["half"], x["brain"] = 1.5, 0.125, -2.5
    k(device.array(x), instance(x[0], Sample))
    device.synchronize()
    one = instance(x[1], Sample)
    assert capsys.readouterr().out == f"{instance(x[0], Sample)}\n{one.momentum} {Pair(1, 2)} {one.pairs[0]} {one.history}\n"


@DEVICES
def test_slices_of_arrays_in_structs(device: Any) -> None:
    @kernel(grid=elements("s"), block=32)
    def k(s: SliceMut[Sample], p: Sample) -> None:
        i = thread_index()
        if i in s:
            a, b = s[i].history[1:]
            s[i].history[0:2] = (b, a)
            s[i].matrix[1, :2] = (p.matrix[0, 1:3][1], f64(p.history[:1][0]))
            whole = s[i]
            s[i].pairs[:] = (whole.pairs[1], whole.pairs[:1][0])

    start, (p,) = random(33, Sample, 1), random(1, Sample, 2)
    s = device.array(start)
    k(s, instance(p, Sample))
    start["history"][:, :2] = start["history"][:, 2:0:-1].copy()
    start["matrix"][:, 1, 0], start["matrix"][:, 1, 1] = p["matrix"][0, 2], p["history"][0]
    start["pairs"] = start["pairs"][:, ::-1].copy()
    assert not differing(s.numpy(), start)


@DEVICES
def test_large_arrays_in_elements(device: Any) -> None:
    n = 9
    x = random(n, LARGE, 5)
    y, sums = device.array(poisoned(n, LARGE)), device.full(n, np.nan, f64)
    copied(y, device.array(x), sums)
    assert not differing(y.numpy(), x)
    assert np.array_equal(sums.numpy(), x["weights"].astype(np.float64).cumsum(1)[:, -1] + x["weights"][np.arange(n), np.arange(n) % 300])


@kdsl.struct
class Large:
    """More numbers than registers hold."""

    tag: u8
    """Padding."""
    weights: FixedArray[f32, 300]  # type: ignore[valid-type]
    """Numbers."""


LARGE = Large


@kernel(grid=elements("y"), block=32)
def copied(y: DisjointSlice[Large], x: Slice[Large], sums: DisjointSlice[f64]) -> None:
    i = thread_index()
    if i in y and i in x and i in sums:
        whole = x[i]
        y[i] = whole
        total = f64(0)
        for k in range(300):
            total += f64(whole.weights[k])
        sums[i] = total + f64(whole.weights[i % 300])


@DEVICES
def test_a_local_array_becomes_a_field(device: Any) -> None:
    @kernel(grid=elements("y"), block=32)
    def k(y: DisjointSlice[Sample], n: i32) -> None:
        i = thread_index()
        own = local_array((2, 3), f32)
        pairs = local_array(2, Pair)
        for r in range(2):
            pairs[r] = Pair(i32(r) + n, u8(r))
            for c in range(3):
                own[r, c] = f32(r * 3 + c)
        if i in y:
            y[i].matrix = own  # every f32 is an f64
            y[i].pairs = pairs

    y = device.zeros(3, Sample)
    k(y, 7)
    assert np.array_equal(y.numpy()["matrix"], np.broadcast_to(np.arange(6.0).reshape(2, 3), (3, 2, 3)))
    assert y.numpy()["pairs"].tolist() == [[(7, 0), (8, 1)]] * 3
