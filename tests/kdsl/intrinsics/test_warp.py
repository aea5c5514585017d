"""Exchange between lanes on every device, in whole warps, partial ones, and after lanes have returned, against models in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from written import BLOCKS, numbers, poison, written

import kdsl
from kdsl.lang.types import BOOL, DTYPES, DType
from kdsl.testing import devices
from kdsl.testing.ptx import filecheck

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
NUMBERS = [of for of in DTYPES.values() if of is not BOOL]
INTEGERS = [of for of in NUMBERS if of.is_integer]
Warp = dict[int, Any]
"""The lanes that take part, with their values."""


def per_warp(
    x: npt.NDArray[Any], block: int, returned: npt.NDArray[np.bool_], model: Callable[[Warp], Warp], out: npt.NDArray[Any]
) -> npt.NDArray[Any]:
    """`out` with what a model says of every warp of every block; lanes that have returned keep theirs."""
    for begin in range(0, len(x), block):
        for first in range(begin, begin + block, 32):
            lanes = {i - first: x[i] for i in range(first, min(first + 32, begin + block)) if not returned[i]}
            for lane, value in (model(lanes) if lanes else {}).items():
                out[first + lane] = value
    return out


def check(
    device: Any, block: int, of: DType, result: DType, call: str, model: Callable[[Warp], Warp], x: npt.NDArray[Any] | None = None
) -> None:
    """Compare a call on `v` (and `t`, the lane) with its model, bit for bit: with all lanes, with lanes that could have returned and have not, and with every
    seventh gone and those from 27 on."""
    x = numbers(3 * block, of, block) if x is None else x
    for skip in ("", "i >= len(x)", "(i * 5) % 7 == 3 or lane_index() >= 27"):
        leave = f"if {skip}:\n    return\n" if skip else ""
        kernel = written(
            f"x: Slice[{of}], y: SliceMut[{result}]",
            f"i = thread_index()\nt = lane_index()\n{leave}v = x[i]\ny[i] = {call}",
            block,
            'elements("x")',
        )
        i = np.arange(len(x))
        returned = (i * 5 % 7 == 3) | (i % block % 32 >= 27) if "27" in skip else np.zeros(len(x), bool)
        y = device.array(poison(len(x), result))
        kernel(device.array(x), y)
        with np.errstate(over="ignore"):
            expected = per_warp(x, block, returned, model, poison(len(x), result))
        assert y.numpy().tobytes() == expected.tobytes(), f"{call} with {skip}"


# ---------------------------------------------------------------------------------------------------------------------------- shuffles


def shuffled(mode: str, width: int, amount: Callable[[int], int]) -> Callable[[Warp], Warp]:
    def model(lanes: Warp) -> Warp:
        result = {}
        for lane, own in lanes.items():
            first, by = lane // width * width, amount(lane) % width
            source = {"": first + by, "_xor": lane ^ by, "_up": lane - by, "_down": lane + by}[mode]
            result[lane] = lanes.get(source, own) if first <= source < first + width else own
        return result

    return model


@DEVICES
@pytest.mark.parametrize("mode", ["", "_xor", "_up", "_down"])
@pytest.mark.parametrize("width", [2, 4, 8, 16, 32])
def test_shuffles_stay_in_their_segments(device: Any, mode: str, width: int) -> None:
    for number, of in enumerate(NUMBERS):
        if number % 5 != width.bit_length() - 2:  # each type in one width
            continue
        block = BLOCKS[number % 4]
        check(device, block, of, of, f"shuffle{mode}(v, 5, width={width})", shuffled(mode, width, lambda lane: 5))
    of = DTYPES["i32"]
    check(device, 96, of, of, f"shuffle{mode}(v, 3 * t + 1, {width})", shuffled(mode, width, lambda lane: 3 * lane + 1))
    check(device, 33, of, of, f"shuffle{mode}(v, -t, {width})", shuffled(mode, width, lambda lane: -lane))


# ---------------------------------------------------------------------------------------------------------------------------- matches


def match_any(lanes: Warp) -> Warp:
    return {lane: sum(1 << other for other, v in lanes.items() if v.tobytes() == own.tobytes()) for lane, own in lanes.items()}


def match_all(lanes: Warp) -> Warp:
    return dict.fromkeys(lanes, len({v.tobytes() for v in lanes.values()}) == 1)


@DEVICES
@pytest.mark.parametrize("block", BLOCKS)
def test_matches(device: Any, block: int) -> None:
    for of in DTYPES.values() if block == 48 else [DTYPES[name] for name in ("bool", "u8", "f32", "i64")]:
        random = np.random.default_rng(block)
        few = random.integers(0, 2 if of is BOOL else 4, 3 * block).astype(of.numpy)
        if of.is_float:
            few = few * random.choice([1, -1], len(few)).astype(of.numpy)  # zeros of both signs
            few[few == 3] = np.nan
        check(device, block, of, DTYPES["u32"], "warp_match_any(v)", match_any, few)
        for x in (few, np.ones(3 * block, of.numpy), np.where(np.arange(3 * block) % 32 == 26, 0, 1).astype(of.numpy)):
            check(device, block, of, BOOL, "warp_match_all(v)", match_all, x)


@DEVICES
def test_matches_of_what_all_lanes_share(device: Any) -> None:
    ones = np.ones(2 * 48, np.int32)
    check(device, 48, DTYPES["i32"], DTYPES["u32"], "warp_match_any(block_idx.x)", match_any, ones)
    check(device, 48, DTYPES["i32"], BOOL, "warp_match_all(block_idx.x)", match_all, ones)


# --------------------------------------------------------------------------------------------------------------- reductions and scans


def folded(operation: Callable[[Any, Any], Any]) -> Callable[[Warp], Warp]:
    def model(lanes: Warp) -> Warp:
        values = list(lanes.values())
        total = values[0]
        for value in values[1:]:
            total = operation(total, value)
        return dict.fromkeys(lanes, total)

    return model


@DEVICES
@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_bitwise_reductions(device: Any, name: str) -> None:
    for number, of in enumerate(INTEGERS):
        x = numbers(3 * BLOCKS[number % 5], of, number)
        x = x | np.array(1 << number % 7, of.numpy) if name == "and" else x & ~np.array(4, of.numpy)
        check(device, BLOCKS[number % 5], of, of, f"warp_{name}(v)", folded(getattr(np, f"bitwise_{name}")), x)


@DEVICES
@pytest.mark.parametrize("name", ["sum", "min", "max"])
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_integer_reductions(device: Any, name: str, of: DType) -> None:
    operation = {"sum": np.add, "min": np.minimum, "max": np.maximum}[name]
    for block in BLOCKS[:4]:
        check(device, block, of, of, f"warp_{name}(v)", folded(operation))


def prefix_sum(of: DType) -> Callable[[Warp], Warp]:
    """By halves, in the order that the table states, with a list of what is there."""

    def model(lanes: Warp) -> Warp:
        part = dict(lanes)
        for distance in (1, 2, 4, 8, 16):
            before = dict(part)
            for lane in part:
                below = [other for other in before if lane & distance and other // distance == lane // distance - 1]
                if below:
                    part[lane] = of.numpy.type(before[max(below)] + before[lane])
        return part

    return model


@DEVICES
@pytest.mark.parametrize("of", NUMBERS, ids=str)
def test_prefix_sums(device: Any, of: DType) -> None:
    for block in BLOCKS[:4]:
        check(device, block, of, of, "warp_prefix_sum(v)", prefix_sum(of))


def running(operation: Callable[[Any, Any], Any]) -> Callable[[Warp], Warp]:
    """Combined from the lowest lane on; exact, so that no order shows."""

    def model(lanes: Warp) -> Warp:
        return dict(zip(lanes, itertools.accumulate(lanes.values(), operation), strict=True))

    return model


def larger(a: Any, b: Any) -> Any:
    """-0 is below 0."""
    return max(a, b, key=lambda v: (v, not np.signbit(v)))


def smaller(a: Any, b: Any) -> Any:
    return min(a, b, key=lambda v: (v, not np.signbit(v)))


def next_below(model: Callable[[Warp], Warp], first: Any) -> Callable[[Warp], Warp]:
    """What the model gives the next lane below that is there, the first one `first`."""

    def exclusive(lanes: Warp) -> Warp:
        return dict(zip(lanes, [first, *model(lanes).values()], strict=False))

    return exclusive


@DEVICES
@pytest.mark.parametrize("of", NUMBERS, ids=str)
def test_exclusive_scans_and_extremes(device: Any, of: DType) -> None:
    least, most = (of.numpy.type(v) for v in ((-np.inf, np.inf) if of.is_float else (of.minimum, of.maximum)))
    for block in (17, 96):
        check(device, block, of, of, "warp_prefix_max(v)", running(larger))
        check(device, block, of, of, "warp_prefix_min(v)", running(smaller))
        check(device, block, of, of, "warp_exclusive_max(v)", next_below(running(larger), least))
        check(device, block, of, of, "warp_exclusive_min(v)", next_below(running(smaller), most))
        check(device, block, of, of, "warp_exclusive_sum(v)", next_below(prefix_sum(of), of.numpy.type(0)))


@DEVICES
def test_scans_among_some_lanes(device: Any) -> None:
    """By a mask, and among those that have not returned; NaN stays with whoever is above it."""
    lines = "".join(
        f"    y[{32 * n} + i] = {call}\n"
        for n, call in enumerate(
            (
                "warp_exclusive_sum(v, mask=m)",
                "warp_exclusive_max(v, mask=m)",
                "warp_exclusive_min(v, mask=m)",
                "warp_prefix_max(v, mask=m)",
            )
        )
    )
    for first in (f"if i % 3 == 1:\n    m = u32({sum(1 << n for n in range(1, 32, 3))})\n" + lines,
                  "if i % 3 != 1:\n    return\nif True:\n" + lines.replace(", mask=m", "")):  # fmt: skip
        kernel = written("x: Slice[f32], y: SliceMut[f32]", f"i = thread_index()\nv = x[i]\n{first}", 32)
        x = np.random.default_rng(1).integers(-9, 9, 32).astype(np.float32)
        x[19] = np.nan
        y = device.array(np.full(4 * 32, 77, np.float32))
        kernel(device.array(x), y)
        found = y.numpy().reshape(4, 32)
        part = x[1::3]
        total = np.concatenate([[0], np.cumsum(part)])
        most = np.concatenate([[-np.inf], np.maximum.accumulate(part)])
        least = np.concatenate([[np.inf], np.minimum.accumulate(part)])
        np.testing.assert_array_equal(found[:, 1::3], [total[:-1], most[:-1], least[:-1], most[1:]])
        assert (np.delete(found, np.s_[1::3], axis=1) == 77).all()


@DEVICES
def test_the_sign_of_zero_in_exclusive_sums(device: Any) -> None:
    kernel = written("x: Slice[f32], y: SliceMut[f32]", "y[thread_index()] = warp_exclusive_sum(x[thread_index()])", 48)
    y = device.array(np.ones(48, np.float32))
    kernel(device.array(np.full(48, -0.0, np.float32)), y)
    assert np.signbit(y.numpy()).tolist() == [i % 32 != 0 for i in range(48)]


@DEVICES
def test_a_prefix_sum_is_one(device: Any) -> None:
    """The model above shows the order; this one shows the sum."""
    x = np.random.default_rng(0).integers(-9, 9, 3 * 48).astype(np.float32)
    check(
        device,
        48,
        DTYPES["f32"],
        DTYPES["f32"],
        "warp_prefix_sum(v)",
        lambda lanes: dict(zip(lanes, np.cumsum(list(lanes.values())), strict=True)),
        x,
    )


@DEVICES
def test_a_prefix_sum_of_what_all_lanes_share_differs_from_lane_to_lane(device: Any) -> None:
    kernel = written("y: SliceMut[i64]", "n = warp_prefix_sum(1)\nif n > 3:\n    y[thread_index()] = n", 40)
    y = device.array(np.zeros(40, np.int64))
    kernel(y)
    assert list(y.numpy()) == [0, 0, 0, *range(4, 33), 0, 0, 0, *range(4, 9)]


# --------------------------------------------------------------------------------------------------------------------------------- PTX


@pytest.mark.parametrize(
    ("call", "instruction"),
    [("warp_sum(i32(v))", "redux.sync.add.s32"), ("warp_min(u32(v))", "redux.sync.min.u32"), ("warp_max(i32(v))", "redux.sync.max.s32"),
     ("warp_and(i32(v))", "redux.sync.and.b32"), ("warp_or(u32(v))", "redux.sync.or.b32"), ("warp_xor(u32(v))", "redux.sync.xor.b32"),
     ("warp_match_any(v)", "match.any.sync.b32"), ("warp_match_all(v)", "match.all.sync.b32"), ("shuffle(v, 3, width=8)", "shfl.sync.idx.b32"),
     ("shuffle_up(v, 1, width=4)", ", 7168, -1;")],
)  # fmt: skip
def test_instructions_of_whole_warps(call: str, instruction: str) -> None:
    ptx = written("y: SliceMut[f32]", f"v = y[thread_index()]\ny[thread_index()] = f32({call})", 64).ptx("sm_80")
    assert instruction in ptx
    assert "vote" not in ptx


def test_a_partial_warp_names_its_lanes() -> None:
    ptx = written("y: SliceMut[i32]", "y[thread_index()] = warp_sum(y[thread_index()])", 48).ptx("sm_80")
    filecheck(ptx, """
    CHECK: vote.sync.ballot.b32 [[PRESENT:%r[0-9]+]], %p{{[0-9]+}}, -1;
    CHECK: redux.sync.add.s32 %r{{[0-9]+}}, %r{{[0-9]+}}, [[PRESENT]];
    """)  # fmt: skip


def test_the_default_width_is_a_warp() -> None:
    plain, given = (written("y: SliceMut[f32]", f"y[thread_index()] = shuffle_xor(y[0], 1{w})").ir() for w in ("", ", width=32"))
    assert kdsl.WARP_SIZE == 32
    assert [getattr(op, "width", None) for op in plain.body] == [getattr(op, "width", None) for op in given.body]


@DEVICES
def test_warpgroups_are_four_warps_each(device: Any) -> None:
    kernel = written("y: SliceMut[i32]", "y[thread_idx.x + 16 * thread_idx.y] = i32(10 * warp_group_index() + warp_index())", (16, 24))
    y = device.array(poison(384, kdsl.dtype("i32")))
    kernel(y)
    warps = np.arange(384) // 32
    np.testing.assert_array_equal(y.numpy(), 10 * (warps // 4) + warps)
