"""Reductions and prefix sums over a block, on every device, for every number of warps, full or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from written import BLOCKS, numbers, poison, written

from kdsl.lang.types import DTYPES, DType
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
TYPES = [DTYPES[name] for name in ("i8", "u16", "i32", "u32", "i64", "f32", "f64")]
MORE = (1, 2, 31, 32, 63, 64, 65, 992, 993, 1000)
CALLS = ("block_sum(v)", "block_max(v)", "block_min(v)", "block_prefix_sum(v)")


def results(device: Any, block: int | str, of: DType, x: Any, times: int = 1) -> list[Any]:
    """What the four functions give for each thread, for blocks of `block` threads."""
    lines = "".join(f"    y[{n} * len(x) + i] = {call}\n" for n, call in enumerate(CALLS))
    kernel = written(
        f"x: Slice[{of}], y: SliceMut[{of}]",
        f"i = thread_index()\nv = x[i]\nfor k in range({times}):\n{lines}",
        block,  # type: ignore[arg-type]  # the text of a tuple is as good
        'elements("x")',
    )
    y = device.array(poison(4 * len(x), of))
    kernel(device.array(x), y)
    return list(np.split(y.numpy(), 4))


@DEVICES
@pytest.mark.parametrize("block", sorted({*BLOCKS, *MORE}))
def test_exact_values(device: Any, block: int) -> None:
    """Integers wrap; floats hold integers, so that no order shows. In a loop, so that a call comes while slow threads still read the last result."""
    for of in TYPES if block in BLOCKS else TYPES[2:6:3]:
        x = np.random.default_rng(block).integers(-50, 50, 3 * block).astype(of.numpy) if of.is_float else numbers(3 * block, of, block)
        total, most, least, prefix = (r.reshape(3, block) for r in results(device, block, of, x, times=3))
        blocks = x.reshape(3, block)
        with np.errstate(over="ignore"):
            sums = np.cumsum(blocks, axis=1, dtype=of.numpy)
        np.testing.assert_array_equal(prefix, sums)
        np.testing.assert_array_equal(total, np.repeat(sums[:, -1:], block, axis=1))
        np.testing.assert_array_equal(most, np.repeat(blocks.max(axis=1, keepdims=True), block, axis=1))
        np.testing.assert_array_equal(least, np.repeat(blocks.min(axis=1, keepdims=True), block, axis=1))


def butterfly(values: list[Any]) -> Any:
    """xor 16, 8, 4, 2, 1 over at most 32 lanes; absent ones are left out."""
    part: list[Any] = [*values, *[None] * (32 - len(values))]
    for step in (16, 8, 4, 2, 1):
        pairs = [(part[lane], part[lane ^ step]) for lane in range(32)]
        part = [a if b is None else b if a is None else a + b for a, b in pairs]
    return part[0]


def halves(values: list[Any]) -> list[Any]:
    part = list(values)
    for step in (1, 2, 4, 8, 16):
        part = [part[lane // step * step - 1] + v if lane & step else v for lane, v in enumerate(part)]
    return part


@DEVICES
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("of", [DTYPES["f16"], DTYPES["f32"], DTYPES["f64"]], ids=str)
def test_floats_are_combined_in_the_documented_order(device: Any, block: int, of: DType) -> None:
    x = numbers(block, of, 5)
    warps = [list(x[first : first + 32]) for first in range(0, block, 32)]
    total, _, _, prefix = results(device, block, of, x)
    assert total.tobytes() == np.full(block, butterfly([butterfly(warp) for warp in warps]), of.numpy).tobytes()
    inside = [halves(warp) for warp in warps]
    below = halves([warp[-1] for warp in inside[:-1]])
    expected = [*inside[0], *(b + v for b, warp in zip(below, inside[1:], strict=True) for v in warp)]
    assert prefix.tobytes() == np.array(expected, of.numpy).tobytes()


@DEVICES
@pytest.mark.parametrize("block", BLOCKS)
def test_zeros_and_nan(device: Any, block: int) -> None:
    of = DTYPES["f32"]
    total, _, _, prefix = results(device, block, of, np.full(block, -0.0, np.float32))
    assert np.signbit(total).all()
    assert np.signbit(prefix).all()
    x = np.arange(block, dtype=np.float32)
    x[block // 2] = np.nan
    for found in results(device, block, of, x)[:3]:
        assert np.isnan(found).all()


SCANS = ("block_prefix_max(v)", "block_prefix_min(v)", "block_exclusive_max(v)", "block_exclusive_min(v)", "block_exclusive_sum(v)")


def scans(device: Any, block: int | str, of: DType, x: Any, times: int = 1) -> list[Any]:
    """What the scans give for each thread, as `results`."""
    lines = "".join(f"    y[{n} * len(x) + i] = {call}\n" for n, call in enumerate(SCANS))
    kernel = written(
        f"x: Slice[{of}], y: SliceMut[{of}]",
        f"i = thread_index()\nv = x[i]\nfor k in range({times}):\n{lines}",
        block,  # type: ignore[arg-type]  # the text of a tuple is as good
        'elements("x")',
    )
    y = device.array(poison(len(SCANS) * len(x), of))
    kernel(device.array(x), y)
    return list(np.split(y.numpy(), len(SCANS)))


@DEVICES
@pytest.mark.parametrize("block", sorted({*BLOCKS, 1, 32, 64, 993}))
def test_scans(device: Any, block: int) -> None:
    """In a loop, so that a call comes while slow threads still read the last result."""
    for of in TYPES if block == 48 else TYPES[2:6:3]:
        x = np.random.default_rng(block).integers(-50, 50, 3 * block).astype(of.numpy) if of.is_float else numbers(3 * block, of, block)
        blocks = x.reshape(3, block)
        with np.errstate(over="ignore"):
            sums = np.cumsum(blocks, axis=1, dtype=of.numpy)
        most, least = np.maximum.accumulate(blocks, axis=1), np.minimum.accumulate(blocks, axis=1)
        lowest, highest = (-np.inf, np.inf) if of.is_float else (of.minimum, of.maximum)
        firsts = [np.full((3, 1), value, of.numpy) for value in (lowest, highest, 0)]
        before = [np.hstack([first, all_[:, :-1]]) for first, all_ in zip(firsts, (most, least, sums), strict=True)]
        for found, expected in zip(scans(device, block, of, x, times=3), (most, least, *before), strict=True):
            np.testing.assert_array_equal(found.reshape(3, block), expected)


@DEVICES
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("of", [DTYPES["f16"], DTYPES["f32"]], ids=str)
def test_exclusive_sums_are_combined_in_the_documented_order(device: Any, block: int, of: DType) -> None:
    x = numbers(block, of, 7)
    inside = [halves(list(x[first : first + 32])) for first in range(0, block, 32)]
    below = halves([warp[-1] for warp in inside[:-1]])
    expected = [of.numpy.type(0), *inside[0][:-1]]
    for b, warp in zip(below, inside[1:], strict=True):
        expected += [b, *(b + v for v in warp[:-1])]
    assert scans(device, block, of, x)[4].tobytes() == np.array(expected, of.numpy).tobytes()


@DEVICES
def test_nan_and_zeros_in_scans(device: Any) -> None:
    x = np.zeros(80, np.float32)
    x[40] = np.nan
    most, least, before_most, before_least, total = scans(device, 80, DTYPES["f32"], x)
    assert np.isnan([most, least]).tolist() == [[i >= 40 for i in range(80)]] * 2
    assert np.isnan([before_most, before_least, total]).tolist() == [[i > 40 for i in range(80)]] * 3
    total = scans(device, 80, DTYPES["f32"], np.full(80, -0.0, np.float32))[4]
    assert np.signbit(total).tolist() == [i > 0 for i in range(80)]


@DEVICES
def test_a_block_of_several_dimensions(device: Any) -> None:
    x = np.arange(7 * 3 * 4, dtype=np.int32)
    total, _, _, prefix = results(device, "(7, 3, 4)", DTYPES["i32"], x)
    assert (total == x.sum()).all()
    np.testing.assert_array_equal(prefix, np.cumsum(x))


@DEVICES
def test_literals_and_results_used_as_conditions(device: Any) -> None:
    kernel = written("y: SliceMut[i64]", "n = block_sum(1)\nif n > 40:\n    sync_threads()\n    y[thread_index()] = n + block_max(2)", 48)
    y = device.array(poison(48, DTYPES["i64"]))
    kernel(y)
    assert list(y.numpy()) == [50] * 48
