"""Registers that warpgroups hand to each other: PTX, errors, and one kernel that needs what it gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusal import refused

import kdsl
from kdsl import (
    Slice,
    SliceMut,
    barrier_arrive_named,
    barrier_sync,
    block_index,
    decrease_registers,
    f32,
    increase_registers,
    kernel,
    local_array,
    shared_array,
    thread_idx,
    unroll,
    warp_group_index,
)
from kdsl.testing import devices
from kdsl.testing.ptx import assemble, filecheck

HOPPER = [d for d in devices() if d.name != "cpu" and d.capability == (9, 0)]  # type: ignore[attr-defined]  # GPUs have one


@kernel(grid="len(x) // 8192", block=384, requires=("len(y) * 64 == len(x)",))
def row_sums(y: SliceMut[f32], x: Slice[f32]) -> None:
    """One warpgroup reads 128 rows of 64 into shared memory, another sums each up with all its elements in registers at once."""
    tile = shared_array((128, 65), f32)
    if warp_group_index() == 2:
        decrease_registers(40)
        for i in range(thread_idx.x - 256, 8192, 128):
            tile[i // 64, i % 64] = x[block_index() * 8192 + i]
        barrier_arrive_named(1, 256)
    elif warp_group_index() == 1:
        decrease_registers(24)
    else:
        increase_registers(240)
        barrier_sync(1, 256)
        row = local_array(64, f32)
        for k in unroll(64):
            row[k] = tile[thread_idx.x, k]
        for half in unroll(6):
            for k in unroll(32 >> half):
                row[k] = row[k] + row[k + (32 >> half)]
        y[block_index() * 128 + thread_idx.x] = row[0]


@pytest.mark.parametrize("device", HOPPER, ids=str)
@pytest.mark.parametrize("blocks", [1, 5, 300])
def test_sums(device: Any, blocks: int) -> None:
    x = np.random.default_rng(blocks).standard_normal((128 * blocks, 64)).astype(np.float32)
    y = device.full(128 * blocks, np.nan, f32)
    row_sums(y, device.array(x.reshape(-1)))
    sums = x.copy()
    for half in (32, 16, 8, 4, 2, 1):
        sums = sums[:, :half] + sums[:, half : 2 * half]
    np.testing.assert_array_equal(y.numpy(), sums[:, 0])


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_assembles(target: str) -> None:
    """Without a note that the instruction is ignored, which would be an error."""
    report = assemble(row_sums.ptx(target), target)
    assert report.spills == 0
    assert report.registers == 168  # a third of what three warpgroups have


def test_ptx() -> None:
    filecheck(
        row_sums.ptx("sm_90a"),
        """
        CHECK: .maxntid 384, 1, 1
        CHECK: .minnctapersm 1
        CHECK-DAG: setmaxnreg.dec.sync.aligned.u32 40;
        CHECK-DAG: setmaxnreg.dec.sync.aligned.u32 24;
        CHECK-DAG: setmaxnreg.inc.sync.aligned.u32 240;
        """,
    )


@pytest.mark.parametrize("target", ["sm_90", "sm_110", "sm_120"])
def test_other_targets_lack_it(target: str) -> None:
    with pytest.raises(kdsl.KernelError, match=rf"registers\(\) cannot be compiled for {target} .*only sm_90a and sm_100a") as caught:
        row_sums.ptx(target)
    assert "_registers(" in str(caught.value)


@pytest.mark.parametrize("count", [0, 16, 25, 264, 40.0, True])
def test_counts_that_do_not_exist(count: Any) -> None:
    @kernel(grid=1, block=128)
    def wrong(y: SliceMut[f32]) -> None:
        increase_registers(count)
        y[0] = 1.0

    refused(wrong, "a multiple of 8 from 24 to 256", at="count", hint="literal")


def test_parts_of_a_warpgroup() -> None:
    @kernel(grid=1, block=192)
    def of_a_block(y: SliceMut[f32]) -> None:
        decrease_registers(40)
        y[0] = 1.0

    @kernel(grid=1, block=256)
    def of_a_branch(y: SliceMut[f32]) -> None:
        if thread_idx.x < 100:
            decrease_registers(40)
        y[0] = 1.0

    refused(of_a_block, "the block has 192", at="decrease_registers(40)", hint="multiple of 128")
    refused(
        of_a_branch, "not all warps of the warpgroup", at="decrease_registers(40)", hint="warp_group_index()", also="thread_idx.x < 100"
    )
