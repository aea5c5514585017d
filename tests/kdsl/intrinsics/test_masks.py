"""Lane exchange among the lanes that a mask names: on every device, against models in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from written import numbers, poison, written

import kdsl
from kdsl.lang.types import DTYPES
from kdsl.testing import devices
from kdsl.testing.ptx import assemble, filecheck

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
BLOCKS = (1, 31, 32, 33, 96)


def sets(keys: Any) -> list[list[int]]:
    """For each thread those of its warp that have its key, in order."""
    return [[j for j in range(t - t % 32, min(t - t % 32 + 32, len(keys))) if keys[j] == keys[t]] for t in range(len(keys))]


def run(device: Any, kernel: Any, *arrays: Any) -> list[Any]:
    held = [device.array(a) for a in arrays]
    kernel(*held)
    return [a.numpy() for a in held]


@DEVICES
@pytest.mark.parametrize("block", BLOCKS)
def test_groups_of_equal_keys_reduce_on_their_own(device: Any, block: int) -> None:
    """The masks of a warp differ from lane to lane, and the lanes come on two ways."""
    kernel = written(
        "key: Slice[i32], x: Slice[i32], total: SliceMut[i32], low: SliceMut[u64], some: SliceMut[u32], order: SliceMut[i32]",
        "t = thread_index()\nm = warp_match_any(key[t])\nlow[t] = warp_min(u64(x[t] & 0xFFFF) << 33, mask=m)\n"
        "if key[t] > 1:\n    total[t] = warp_sum(x[t], mask=m)\n    some[t] = warp_ballot(x[t] > 0, mask=m)\n    order[t] = warp_prefix_sum(i32(1), mask=m)\n"
        "else:\n    total[t] = warp_max(x[t], mask=m)\n    some[t] = u32(warp_any(x[t] > 0, mask=m)) + u32(warp_all(x[t] > 0, mask=m))\n    order[t] = -1",
        block,
    )
    random = np.random.default_rng(block)
    key = random.integers(0, 5, block).astype(np.int32)
    x = random.integers(-(2**31), 2**31, block).astype(np.int32)
    i32, u64, u32 = DTYPES["i32"], DTYPES["u64"], DTYPES["u32"]
    _, _, total, low, some, order = run(
        device, kernel, key, x, poison(block, i32), poison(block, u64), poison(block, u32), poison(block, i32)
    )
    for t, together in enumerate(sets(key)):
        mine = x[together]
        assert low[t] == min(int(v) & 0xFFFF for v in mine) << 33
        if key[t] > 1:
            assert total[t] == np.sum(mine, dtype=np.int32)
            assert some[t] == sum(1 << j % 32 for j in together if x[j] > 0)
            assert order[t] == together.index(t) + 1
        else:
            assert total[t] == mine.max()
            assert some[t] == int((mine > 0).any()) + int((mine > 0).all())


@DEVICES
@pytest.mark.parametrize("name", ["f32", "f64", "f16", "i64", "u8"])
def test_shuffles_stay_among_their_lanes(device: Any, name: str) -> None:
    """A lane that is not in the mask is one that takes no part: the own value is the result."""
    of, block = DTYPES[name], 64
    kernel = written(
        f"x: Slice[{name}], a: SliceMut[{name}], b: SliceMut[{name}], c: SliceMut[{name}]",
        "t = thread_index()\na[t] = x[t]\nb[t] = x[t]\nc[t] = x[t]\n"
        "if t % 32 < 12:\n    a[t] = shuffle(x[t], 13 - t % 32, mask=0xFFF)\n"
        "    b[t] = shuffle_xor(x[t], 4, mask=0xFFF)\n    c[t] = shuffle_down(x[t], 2, width=8, mask=0xFFF)",
        block,
    )
    x = numbers(block, of, 3)
    _, a, b, c = run(device, kernel, x, poison(block, of), poison(block, of), poison(block, of))
    for t in range(block):
        base, lane = t - t % 32, t % 32
        inside = lane < 12
        source = (13 - lane) % 32
        assert a[t].tobytes() == x[base + source if inside and source < 12 else t].tobytes()
        assert b[t].tobytes() == x[base + (lane ^ 4) if inside and lane ^ 4 < 12 else t].tobytes()
        stays = lane % 8 + 2 < 8 and lane + 2 < 12
        assert c[t].tobytes() == x[t + 2 if inside and stays else t].tobytes()


@DEVICES
def test_sums_of_floats_keep_their_order(device: Any) -> None:
    """The tree of xor 16, 8, 4, 2, 1 with absent lanes left out: the same bits as of a partial warp."""
    kernel = written("x: Slice[f32], y: SliceMut[f32]", "t = thread_index()\nif t < 21:\n    y[t] = warp_sum(x[t], mask=0x1FFFFF)", 32)
    partial = written("x: Slice[f32], y: SliceMut[f32]", "t = thread_index()\ny[t] = warp_sum(x[t])", 21)
    x = numbers(32, DTYPES["f32"], 8)
    _, named = run(device, kernel, x, poison(21, DTYPES["f32"]))
    _, alone = run(device, partial, x[:21], poison(21, DTYPES["f32"]))
    assert named.tobytes() == alone.tobytes()


def test_the_instructions_carry_the_mask() -> None:
    kernel = written(
        "x: Slice[u32], y: SliceMut[f32]", "t = thread_index()\nm = x[t]\nif t > 3:\n    y[t] = shuffle_xor(y[t], 1, mask=m)", 64
    )
    ptx = kernel.ptx("sm_80")
    filecheck(ptx, """
    CHECK: shfl.sync.bfly.b32 %r{{[0-9]+}}, %r{{[0-9]+}}, 1, 31, %r{{[0-9]+}};
    """)  # fmt: skip
    assemble(ptx, "sm_80")


def test_a_mask_that_names_nobody_or_everybody() -> None:
    with pytest.raises(kdsl.KernelError, match=r"the mask of warp_sum\(\) names no lane"):
        written("y: SliceMut[i32]", "y[0] = warp_sum(i32(1), mask=0)").ir()
    with pytest.raises(kdsl.KernelError, match=r"not all lanes of the warp reach warp_sum\(\) together") as caught:
        written("y: SliceMut[i32]", "if thread_index() < 3:\n    y[0] = warp_sum(i32(1), mask=0xFFFFFFFF)").ir()
    assert "mask=" in caught.value.hint
    with pytest.raises(kdsl.KernelError, match=r"the mask of warp_sum\(\)"):
        written("y: SliceMut[i32]", "y[0] = warp_sum(i32(1), mask=-1)").ir()


@DEVICES
def test_a_lane_outside_its_own_mask_takes_part_alone(device: Any) -> None:
    """On a GPU the instruction would end the program."""
    kernel = written(
        "x: Slice[i32], y: SliceMut[i32], z: SliceMut[f32], w: SliceMut[u32]",
        "t = thread_index()\ny[t] = warp_sum(x[t], mask=0xF0)\nz[t] = warp_max(f32(x[t] % 1000), mask=0xF0)\nw[t] = warp_ballot(x[t] > 0, mask=0xF0)",
        40,
    )
    x = numbers(40, DTYPES["i32"], 9)
    arrays = run(device, kernel, x, poison(40, DTYPES["i32"]), poison(40, DTYPES["f32"]), poison(40, DTYPES["u32"]))
    for t in range(40):
        base = t - t % 32
        lanes = list(range(base + 4, base + 8)) if 4 <= t % 32 < 8 else [t]
        assert arrays[1][t] == np.sum(x[lanes], dtype=np.int32)
        assert arrays[2][t] == max(np.float32(v % 1000) for v in x[lanes])
        assert arrays[3][t] == sum(1 << i - base for i in lanes if x[i] > 0)
