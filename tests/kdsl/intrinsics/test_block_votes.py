"""Barriers that say for how many threads of the block something holds: on every device, in their PTX, and in wrong places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusal import refused
from written import BLOCKS, poison, written

import kdsl
from kdsl import SliceMut, i32, kernel, sync_threads_or, thread_idx
from kdsl.lang.types import DTYPES
from kdsl.testing import devices, sanitized
from kdsl.testing.ptx import assemble, filecheck, unrecorded

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
VOTES = (
    "    counts[i] = sync_threads_count(x[i] > k)\n"
    "    bits[i] = i32(sync_threads_and(x[i] > k)) + 2 * i32(sync_threads_or(x[i] > k))\n"
)  # fmt: skip


def launched(device: Any, kernel: Any, x: Any) -> tuple[Any, Any]:
    counts, bits = device.array(poison(len(x), DTYPES["u32"])), device.array(poison(len(x), DTYPES["i32"]))
    kernel(device.array(x), counts, bits)
    return counts.numpy(), bits.numpy()


@DEVICES
@pytest.mark.parametrize("block", sorted({*BLOCKS, 1, 32, 64, 65, 993}))
@pytest.mark.parametrize("holds", ["nowhere", "in one", "in some", "everywhere"])
def test_votes(device: Any, block: int, holds: str) -> None:
    """Three in a row, in a loop, so that a vote begins while slow threads still look at the last one."""
    kernel = written(
        "x: Slice[i32], counts: SliceMut[u32], bits: SliceMut[i32]", f"i = thread_index()\nfor k in range(3):\n{VOTES}", block, "2"
    )
    x = {"nowhere": np.zeros(2 * block), "in one": np.arange(2 * block) % block == block - 1, "everywhere": np.ones(2 * block)}.get(
        holds, np.random.default_rng(block).integers(0, 2, 2 * block)
    )
    counts, bits = launched(device, kernel, 5 * x.astype(np.int32))
    for first in (0, block):
        part = x[first : first + block]
        count = int(part.sum())
        assert set(counts[first : first + block]) == {count}
        assert set(bits[first : first + block]) == {(count == block) + 2 * (count > 0)}


@DEVICES
@pytest.mark.parametrize("gone", [[0], [0, 1, 31], [*range(32)], [*range(32, 70)], [*range(0, 70, 2)]], ids=str)
def test_threads_that_have_returned_do_not_vote(device: Any, gone: list[int]) -> None:
    """Single lanes, the first one of a warp among them, and whole warps."""
    kernel = written(
        "x: Slice[i32], counts: SliceMut[u32], bits: SliceMut[i32]",
        f"i = thread_index()\nif x[i] < 0:\n    return\nfor k in range(2):\n{VOTES}",
        70,
    )
    x = np.random.default_rng(3).integers(0, 5, 70).astype(np.int32)
    x[gone] = -1
    here = x >= 0
    counts, bits = launched(device, kernel, x)
    count = int((x > 1).sum())
    assert set(counts[here]) == {count}
    assert set(bits[here]) == {int((x[here] > 1).all()) + 2 * (count > 0)}
    assert (counts[~here] == 0xA5A5A5A5).all()


@DEVICES
def test_a_loop_that_ends_for_all_together(device: Any) -> None:
    """The answer is the same for the whole block, so barriers may depend on it; it waits as `sync_threads()` does."""
    kernel = written(
        "x: Slice[i32], y: SliceMut[i32]",
        "i = thread_idx.x\ns = shared_array(96, i32)\ns[i] = x[i]\nrounds = i32(0)\n"
        "while sync_threads_or(s[i] > 0):\n    rounds += 1\n    value = s[95 - i]\n    sync_threads()\n    s[i] = value - 1\ny[i] = rounds",
        96,
    )
    x = np.random.default_rng(0).integers(-3, 9, 96).astype(np.int32)
    y = device.array(poison(96, DTYPES["i32"]))
    kernel(device.array(x), y)
    assert set(y.numpy()) == {x.max()}


def test_one_instruction_each() -> None:
    ptx = written("x: Slice[i32], counts: SliceMut[u32], bits: SliceMut[i32]", f"i = thread_index()\nk = 1\nif True:\n{VOTES}", 96).ptx(
        "sm_80"
    )
    filecheck(unrecorded(ptx), """
    CHECK-NOT: bar.sync
    CHECK: bar.red.popc.u32 {{[[:space:]]*}}%r{{[0-9]+}}, 0, %p{{[0-9]+}};
    CHECK-NOT: bar.sync
    CHECK: bar.red.and.pred {{[[:space:]]*}}%p{{[0-9]+}}, 0, %p{{[0-9]+}};
    CHECK-NOT: .shared
    CHECK: bar.red.or.pred {{[[:space:]]*}}%p{{[0-9]+}}, 0, %p{{[0-9]+}};
    CHECK-NOT: bar.sync
    """)  # fmt: skip
    assemble(ptx, "sm_80")


def test_not_all_threads_come() -> None:
    @kernel(grid=1, block=64)
    def wrong(y: SliceMut[i32]) -> None:
        if thread_idx.x < 7:
            y[0] = i32(sync_threads_or(y[1] > 0))

    refused(
        wrong, "not all threads of the block reach sync_threads_or() together", at="sync_threads_or(y[1] > 0)", hint="for the whole block"
    )


def test_the_sanitizer_and_checked_builds_take_it_for_a_barrier() -> None:
    body = "i = thread_idx.x\ns = shared_array(96, i32)\ns[i] = x[i]\nif sync_threads_count(x[i] > 3) > 5:\n    y[i] = s[95 - i]\nelse:\n    y[i] = 0"
    x, cpu = np.arange(96, dtype=np.int32), kdsl.device("cpu")
    for checked in (False, True):
        y = cpu.array(poison(96, DTYPES["i32"]))
        kdsl.checked(checked)
        try:
            tested = written("x: Slice[i32], y: SliceMut[i32]", body + "\n" * checked, 96)
            with sanitized() as found:
                tested(cpu.array(x), y)
        finally:
            kdsl.checked(False)
        assert y.numpy().tolist() == x[::-1].tolist()
        assert not found
