"""Elsewhere an index that was promised to be unique was not: in blocks of two dimensions, in warps of a block whose size is no multiple of 32, or because it
was computed with one width and used in an array of another.

`thread_index()`, `row_index()` and `block_index()` name each thread, warp and block of the grid once, whatever the grid and the block; what is computed from
them is no witness.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of

import kdsl

I32 = kdsl.dtype("i32")
BLOCKS = ["48", "1", "17", "(8, 2)", "(2, 8)", "(16, 3)", "(4, 4, 4)", "(1, 1, 33)", "(33, 2, 3)", "(1, 64)", "1024", "(32, 32)"]
GRIDS = {
    "grid=4": 4,
    "grid=(3, 2)": 6,
    "grid=(1, 5, 2)": 10,
    "grid=(2, 1, 3)": 6,
    "grid=sweep(blocks=5)": 5,
    "grid=tiles(rows=20, columns=9, batch=2, tile=(8, 8))": 12,
}


def counted(device: Any, parameters: str, body: str, options: str, count: int) -> Any:
    """How often each element was touched, of somewhat more than there should be."""
    y = device.zeros(count + 70, I32)
    kernel_of(parameters, body, options)(y)
    return y.numpy()


@DEVICES
@pytest.mark.parametrize("block", BLOCKS)
def test_each_thread_warp_and_block_once(device: Any, block: str) -> None:
    threads = int(np.prod(eval(block)))
    for grid, blocks in list(GRIDS.items())[BLOCKS.index(block) % 2 :: 2]:
        options = f"{grid}, block={block}"
        for body, count in (
            ("atomic_add(y, thread_index(), 1)", blocks * threads),
            ("if is_first_lane():\n    atomic_add(y, row_index(), 1)", blocks * -(-threads // 32)),
            ("if is_first_thread():\n    atomic_add(y, block_index(), 1)", blocks),
        ):
            found = counted(device, "y: SliceMut[i32]", body, options, count)
            np.testing.assert_array_equal(found, np.arange(count + 70) < count, f"{options}: {body}")


@DEVICES
@pytest.mark.parametrize("block", [48, 33, 17, 96, 1000])
def test_sums_of_warps_have_a_place_of_their_own(device: Any, block: int) -> None:
    """4 blocks of 48 threads have 8 warps, not 6; the second warp of each has 16 lanes."""
    body = "i = thread_index()\ntotal = warp_sum(x[i])\nif is_first_lane():\n    y[row_index()] = total"
    kernel = kernel_of("y: DisjointSlice[i32], x: Slice[i32]", body, f"grid=4, block={block}")
    x = np.random.default_rng(block).integers(-1000, 1000, 4 * block).astype(np.int32)
    warps = -(-block // 32)
    y = device.full(4 * warps, -1, I32)
    kernel(y, device.array(x))
    parts = [part[first : first + 32] for part in np.split(x, 4) for first in range(0, block, 32)]
    assert y.numpy().tolist() == [int(part.sum()) for part in parts]


@pytest.mark.parametrize(
    "index",
    [
        "thread_index() // 32",
        "thread_index() % 32",
        "thread_index() + 0",
        "thread_index() * 2",
        "thread_idx.x",
        "block_idx.x * 32 + thread_idx.x",
        "lane_index()",
        "warp_index()",
        "block_index()",
        "row_index()",
        "j[thread_index()]",
        "0",
        "thread_index() if n > 0 else 0",
        "n",
        "last",
    ],
)
def test_what_is_computed_is_no_witness(index: str) -> None:
    """Not even where it happens to be unique: the compiler's word is by construction, not by luck."""
    body = f"last = 0\nfor k in range(3):\n    last = k\ny[{index}] = 1.0"
    with pytest.raises(kdsl.KernelError, match=r"not a witness|not unique|alone is not") as caught:
        kernel_of("y: DisjointSlice[f32], j: Slice[i32], n: i32", body, "grid=4, block=64").ir()
    assert "SliceMut" in caught.value.hint or "is_first" in caught.value.hint


@pytest.mark.parametrize(
    ("guard", "index"),
    [
        ("is_first_lane()", "block_index()"),
        ("lane_index() == 1", "row_index()"),
        ("thread_idx.x == 0", "row_index()"),
        ("not is_first_thread()", "block_index()"),
        ("is_first_thread() or n > 0", "block_index()"),
        ("n > 0", "block_index()"),
        ("is_first_lane() != (n > 0)", "row_index()"),
    ],
)
def test_a_guard_that_lets_more_than_one_thread_pass(guard: str, index: str) -> None:
    with pytest.raises(kdsl.KernelError, match="alone is not unique"):
        kernel_of("y: DisjointSlice[f32], n: i32", f"if {guard}:\n    y[{index}] = 1.0", "grid=4, block=(16, 6)").ir()


@pytest.mark.parametrize(
    ("first", "second"), [("thread_index()", "block_index()"), ("row_index()", "block_index()"), ("thread_index()", "row_index()")]
)
def test_two_kinds_for_one_array(first: str, second: str) -> None:
    with pytest.raises(kdsl.KernelError, match="two threads could meet") as caught:
        kernel_of("y: DisjointSlice[f32]", f"if is_first_thread():\n    y[{first}] = 1.0\n    y[{second}] = 2.0", "grid=4, block=64").ir()
    assert caught.value.notes


@DEVICES
def test_arrays_of_two_lengths_take_the_same_index(device: Any) -> None:
    """Each is checked against its own length; no width of one is ever applied to the other."""
    kernel = kernel_of(
        "y: DisjointSlice[i32], z: DisjointSlice[i32]",
        "i = thread_index()\nif i in y:\n    y[i] = i32(i)\nif i in z:\n    z[i] = i32(i) + 100",
        "grid=elements('z'), block=32",
    )
    y, z = device.full(5, -1, I32), device.full(100, -1, I32)
    kernel(y, z)
    assert y.numpy().tolist() == list(range(5))
    assert z.numpy().tolist() == list(range(100, 200))


def test_no_witness_in_two_dimensions() -> None:
    """The flaw of a width that is passed beside the index cannot be written down: such an array takes no witness."""
    with pytest.raises(kdsl.KernelError, match="several dimensions is the thread's own"):
        kernel_of("y: DisjointSlice[f32, D2]", "y[0, thread_index()] = 1.0")
