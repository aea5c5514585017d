"""Shuffles of `bool` and of every vector type on every device: the four modes, widths, masks, partial warps and lanes that have returned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from written import written

import kdsl
from kdsl.lang.types import BOOL, DTYPES
from kdsl.lang.vectors import VECTORS
from kdsl.testing import devices, sanitized
from kdsl.testing.ptx import assemble, filecheck

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
MODES = ("", "_xor", "_up", "_down")
WIDTHS = (2, 4, 8, 16, 32)
BLOCKS = (17, 32, 33, 96)
Array = npt.NDArray[Any]


@pytest.fixture
def checked() -> Iterator[None]:
    kdsl.checked()
    yield
    kdsl.checked(False)


def source_of(mode: str, t: int, amount: int, width: int) -> int | None:
    """The thread whose value thread `t` asks for; None beyond its segment."""
    lane, by = t % 32, amount % width
    first = lane // width * width
    source = {"": first + by, "_xor": lane ^ by, "_up": lane - by, "_down": lane + by}[mode]
    return t - lane + source if first <= source < first + width else None


def expected(x: Array, there: Array, mode: str, amounts: Array, width: int) -> Array:
    """Rows of `x`, one for each thread, after a shuffle among the threads that are there; of the others zeros."""
    result = np.zeros_like(x)
    for t in np.flatnonzero(there):
        source = source_of(mode, int(t), int(amounts[t]), width)
        result[t] = x[source] if source is not None and source < len(x) and there[source] else x[t]
    return result


def patterns(count: int, lanes: int, of: Any, seed: int) -> Array:
    """Any bits: NaNs that signal, too, come through as they are."""
    random = np.random.default_rng(seed)
    if of is BOOL:
        return random.integers(0, 2, (count, lanes)).astype(np.bool_)
    return np.frombuffer(random.bytes(count * lanes * of.itemsize), of.numpy).reshape(count, lanes)


def check(device: Any, block: int, name: str, mode: str, width: int, amount: str, who: str, seed: int) -> None:
    """One shuffle of elements of type `name`. `who` is a way to the call: all threads, those that have not returned, or a mask."""
    of = VECTORS.get(name)
    element, lanes = (of.element, of.lanes) if of else (DTYPES[name], 1)
    call = f"shuffle{mode}(v, {amount}, width={width}{', mask=0x5555FF0F' if who == 'mask' else ''})"
    way = {
        "all": f"y[t] = {call}",
        "returned": f"if t * 5 % 7 == 3:\n    return\ny[t] = {call}",
        "mask": f"if (u32(0x5555FF0F) >> u32(lane)) & 1 == 1:\n    y[t] = {call}",
    }[who]
    kernel = written(f"x: Slice[{name}], y: SliceMut[{name}]", f"t = thread_index()\nlane = lane_index()\nv = x[t]\n{way}", block)
    t = np.arange(block)
    there = {
        "all": np.ones(block, np.bool_),
        "returned": t * 5 % 7 != 3,
        "mask": np.array([0x5555FF0F >> lane & 1 for lane in t % 32], np.bool_),
    }[who]
    amounts = np.array([eval(amount, {"lane": int(lane)}) for lane in t % 32])
    x = patterns(block, lanes, element, seed)
    y = device.zeros(block * lanes, element)
    kernel(device.array(x.reshape(-1)), y)
    assert y.numpy().tobytes() == expected(x, there, mode, amounts, width).tobytes(), (block, call, who)


@DEVICES
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["bool", *VECTORS])
def test_every_type_and_mode(device: Any, name: str, mode: str) -> None:
    """Amounts that the compiler knows and others, in whole and partial warps, each width with some type."""
    number = (["bool", *VECTORS].index(name) + 2 * MODES.index(mode)) % 5
    check(device, BLOCKS[number % 4], name, mode, WIDTHS[number], "5", "all", number)
    check(device, 48, name, mode, WIDTHS[(number + 2) % 5], "3 * lane + 1", ("returned", "mask")[number % 2], number)


@DEVICES
@pytest.mark.parametrize("who", ["all", "returned", "mask"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["bool", "f16x2", "u8x16", "f32x4", "f64x2"])
def test_every_width(device: Any, name: str, width: int, who: str) -> None:
    for mode, block, amount in (("", 33, "-lane"), ("_xor", 96, "1"), ("_up", 64, "lane"), ("_down", 31, "2")):
        check(device, block, name, mode, width, amount, who, width)


@DEVICES
def test_masks_that_differ_in_a_warp(device: Any) -> None:
    """Lanes of one key shuffle among themselves, whichever they are; so do their answers to a question."""
    kernel = written(
        "key: Slice[i32], x: Slice[f16x4], y: SliceMut[f16x4], more: SliceMut[bool]",
        "t = thread_index()\nm = warp_match_any(key[t])\ny[t] = shuffle_xor(x[t], 3, mask=m)\nmore[t] = shuffle(key[t] > 2, 7, mask=m)",
        64,
    )
    random = np.random.default_rng(1)
    key, x = random.integers(0, 5, 64).astype(np.int32), patterns(64, 4, DTYPES["f16"], 3)
    y, more = device.zeros(256, "f16"), device.zeros(64, "bool")
    kernel(device.array(key), device.array(x.reshape(-1)), y, more)
    wanted = np.stack([x[t ^ 3] if key[t ^ 3] == key[t] else x[t] for t in range(64)])
    assert y.numpy().tobytes() == wanted.tobytes()
    np.testing.assert_array_equal(more.numpy(), key > 2)


@DEVICES
def test_values_that_are_no_elements(device: Any) -> None:
    """What all lanes share, literals, comparisons, and vectors that were just made."""
    kernel = written(
        "y: SliceMut[i32], n: i32",
        "t = thread_index()\nv = shuffle_down(i16x2(t, -t), 1) + shuffle(i16x2(n), 3)\n"
        "nine, other, true, false = shuffle(t == 9, 9), shuffle_xor(t % 2 == 0, 1), shuffle(True, 2), shuffle_up(False, 1)\n"
        "y[t] = i32(v.x) * 1000 + v.y if nine and other == (t % 2 == 1) and true and not false else -1",
    )
    y = device.zeros(32, "i32")
    kernel(y, 4)
    following = np.minimum(np.arange(32) + 1, 31)
    np.testing.assert_array_equal(y.numpy(), (following + 4) * 1000 - following + 4)


@DEVICES
def test_the_sum_of_vectors_of_a_warp(device: Any) -> None:
    """What it is for: a reduction of four numbers at a time."""
    kernel = written(
        "x: Slice[f32x4], y: SliceMut[f32x4]",
        "v = x[thread_index()]\nfor k in unroll(5):\n    v = v + shuffle_xor(v, 16 >> k)\nif is_first_lane():\n    y[0] = v",
    )
    x = np.random.default_rng(2).integers(-99, 99, (32, 4)).astype(np.float32)
    y = device.zeros(4, "f32")
    kernel(device.array(x.reshape(-1)), y)
    np.testing.assert_array_equal(y.numpy(), x.sum(axis=0))


# --------------------------------------------------------------------------------------------------------------------------------- PTX


@pytest.mark.parametrize(
    ("name", "shuffles"),
    [("bool", 1), ("i8x2", 1), ("u8x4", 1), ("i8x16", 4), ("f16x2", 1), ("bf16x2", 1), ("u16x4", 2), ("f16x8", 4), ("bf16x8", 4), ("f32x2", 2),
     ("i32x4", 4), ("f32x4", 4), ("u64x2", 4), ("f64x2", 4)],
)  # fmt: skip
def test_a_word_takes_one_instruction(name: str, shuffles: int) -> None:
    for target in ("sm_80", "sm_90", "sm_120"):
        kernel = written(f"x: Slice[{name}], y: SliceMut[{name}]", "t = thread_index()\ny[t] = shuffle_down(x[t], 3, width=16)", 64)
        ptx = kernel.ptx(target)
        assert ptx.count("shfl.sync.down.b32") == shuffles
        assert "vote" not in ptx
        assert assemble(ptx, target).spills == 0


def test_the_instructions_of_a_vector() -> None:
    ptx = written("x: Slice[f32x2], y: SliceMut[f32x2]", "t = thread_index()\ny[t] = shuffle_up(x[t], 1, 8)", 64).ptx("sm_80")
    filecheck(ptx, """
    CHECK: ld.global{{(.nc)?}}.v2.b32 {[[A:%r[0-9]+]], [[B:%r[0-9]+]]}
    CHECK-DAG: shfl.sync.up.b32 [[C:%r[0-9]+]]{{(\\|%p[0-9]+)?}}, [[A]], 1, 6144, -1;
    CHECK-DAG: shfl.sync.up.b32 [[D:%r[0-9]+]]{{(\\|%p[0-9]+)?}}, [[B]], 1, 6144, -1;
    CHECK: st.global.v2.b32 {{.*}}, {[[C]], [[D]]};
    """)  # fmt: skip


def test_without_optimisation() -> None:
    from kdsl.backend.nvptx import compile_ptx

    for name in ("bool", "bf16x8", "i8x2", "f64x2"):
        kernel = written(f"x: Slice[{name}], y: SliceMut[{name}]", "t = thread_index()\ny[t] = shuffle(x[t], t, mask=0x7FFFFFFF)", 48)
        assemble(compile_ptx(kernel.ir(), "sm_80", optimise=0), "sm_80")


# ------------------------------------------------------------------------------------------------------------------- checks and errors


@DEVICES
def test_a_mask_without_the_lane_itself_is_reported_once(device: Any, checked: None) -> None:
    kernel = written("x: Slice[f32x4], y: SliceMut[f32x4]", "t = thread_index()\nif t < 4:\n    y[t] = shuffle_xor(x[t], 1, mask=u32(3))")
    x, y = device.array(np.arange(128, dtype=np.float32)), device.zeros(128, "f32")
    kernel(x, y)
    with pytest.raises(kdsl.BoundsError, match="mask"):
        y.numpy()
    np.testing.assert_array_equal(y.numpy()[:16], [4, 5, 6, 7, 0, 1, 2, 3, *range(8, 16)])


def test_the_sanitizer_sees_whom_a_vector_comes_from() -> None:
    kernel = written(
        "x: Slice[f32x4], y: SliceMut[f32x4]", "t = thread_index()\nif t % 32 != 5:\n    y[t] = shuffle(x[t], 5, mask=0xFFFFFFDF)"
    )
    cpu = kdsl.device("cpu")
    with sanitized() as found:
        kernel(cpu.array(np.zeros(128, np.float32)), cpu.zeros(128, "f32"))
    assert [finding.kind for finding in found] == ["inactive lane"]


def test_what_is_still_refused() -> None:
    for call, message in (
        ("warp_sum(x[t])", r"warp_sum\(\)"),
        ("warp_match_any(x[t])", r"warp_match_any\(\)"),
        ("shuffle((x[t], 1), 2)", r"the value of shuffle\(\)"),
        ("shuffle(x, 2)", r"the value of shuffle\(\)"),
    ):
        with pytest.raises(kdsl.KernelError, match=message) as caught:
            written("x: Slice[f32x4], y: SliceMut[f32]", f"t = thread_index()\nv = {call}").ir()
        assert caught.value.hint
