"""Barriers of the grid that some thread does not reach, and attributes that make no sense."""

from __future__ import annotations

from typing import Any

import pytest
from refusal import refused

from kdsl import KernelError, SliceMut, block_index, elements, f32, i64, kernel, shared_array, sync_grid, thread_idx, thread_index


def test_a_kernel_that_is_not_cooperative() -> None:
    @kernel(grid=2, block=32)
    def wrong(y: SliceMut[f32]) -> None:
        sync_grid()
        y[0] = 1.0

    refused(wrong, "blocks all run at the same time", at="sync_grid()", hint="cooperative=True")


def test_a_branch_that_depends_on_the_block() -> None:
    @kernel(grid=2, block=32, cooperative=True)
    def wrong(y: SliceMut[f32]) -> None:
        if block_index() == 0:
            sync_grid()
        y[0] = 1.0

    refused(wrong, "not all threads of the grid", at="sync_grid()", hint="same for the whole grid", also="block_index() == 0")


def test_a_branch_that_depends_on_the_thread() -> None:
    @kernel(grid=2, block=32, cooperative=True)
    def wrong(y: SliceMut[f32]) -> None:
        if thread_idx.x == 0:
            sync_grid()
        y[0] = 1.0

    refused(wrong, "not all threads of the block reach sync_grid()", at="sync_grid()", hint="move the barrier", also="thread_idx.x == 0")


def test_a_loop_whose_trips_depend_on_what_a_block_keeps_to_itself() -> None:
    @kernel(grid=2, block=32, cooperative=True)
    def wrong(y: SliceMut[f32], n: i64) -> None:
        own = shared_array(1, i64)
        own[0] = n
        for k in range(own[0]):
            sync_grid()
            y[k] = 1.0

    refused(wrong, "not all threads of the grid", at="sync_grid()", hint="same for the whole grid", also="range(own[0])")


def test_a_block_that_has_returned() -> None:
    @kernel(grid=elements("y"), block=32, cooperative=True)
    def wrong(y: SliceMut[f32]) -> None:
        if block_index() * 32 >= 1000:
            return
        sync_grid()
        y[0] = 1.0

    refused(wrong, "has returned never comes", at="sync_grid()", hint="go on to the barrier", also="return")


def test_a_return_that_a_loop_leads_to_before_the_barrier() -> None:
    @kernel(grid=elements("y"), block=32, cooperative=True)
    def wrong(y: SliceMut[f32], n: i64) -> None:
        for k in range(n):
            sync_grid()
            if thread_index() == k:
                return
        y[0] = 1.0

    refused(wrong, "has returned never comes", at="sync_grid()", hint="go on to the barrier", also="return")


def test_what_is_the_same_for_the_whole_grid_is_allowed() -> None:
    @kernel(grid=elements("y"), block=32, cooperative=True)
    def right(y: SliceMut[f32], n: i64) -> None:
        if n == 0:
            return
        for k in range(n):
            sync_grid()
            if y[k] > 1.0:
                sync_grid()
                break
        if thread_index() == 5:
            return
        y[0] = 1.0

    assert right.ir()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cooperative": 1}, "cooperative=1 is neither True nor False"),
        ({"programmatic": "yes"}, "programmatic='yes' is neither True nor False"),
        ({"cooperative": True, "programmatic": True}, "cooperative or programmatic, not both"),
    ],
)
def test_declarations(options: Any, message: str) -> None:
    with pytest.raises(KernelError, match=message) as caught:

        @kernel(grid=2, **options)
        def wrong(y: SliceMut[f32]) -> None:
            y[0] = 1.0

    assert caught.value.hint


def test_a_programmatic_kernel_that_never_waits() -> None:
    @kernel(grid=2, block=32, programmatic=True)
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = 1.0

    refused(wrong, "nowhere waits", at="def wrong(y: SliceMut[f32]) -> None:"[4:9], hint="wait_for_dependencies()")
