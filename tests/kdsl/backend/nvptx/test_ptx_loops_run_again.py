"""Loops that only read: no trip has a branch for its checks, and what its number decides is tested once; those that do more keep their checks."""

from __future__ import annotations

import re
from typing import Any

from kdsl import DisjointSlice, Slice, SliceMut, elements, f32, i32, kernel, thread_index, u32
from kdsl.testing.ptx import assemble


@kernel(grid=elements("y"))
def gathered(y: DisjointSlice[f32], x: Slice[f32], places: Slice[i32], count: i32) -> None:
    i = thread_index()
    if i in y:
        total = f32(0)
        for n in range(count):
            total += x[places[n]]
        y[i] = total


@kernel(grid=1, block=32)
def moved(y: SliceMut[f32], x: Slice[f32], places: Slice[i32], count: i32) -> None:
    for n in range(count):
        y[n] = x[places[n]]


@kernel(grid=elements("y"), requires=("len(y) == width * lists", "len(first) == lists + 1", "len(x) == len(rows) * width"))
def listed(y: DisjointSlice[f32], x: Slice[f32], first: Slice[i32], rows: Slice[i32], lists: u32, width: u32) -> None:
    i = thread_index()
    if i in y:
        total = f32(0)
        for n in range(first[i // width], first[i // width + 1]):
            total += x[rows[n] * width + i % width]
        y[i] = total


def between(ptx: str) -> list[str]:
    """The code from a label to the next one."""
    return re.split(r"^\$L__BB\d+_\d+:", ptx, flags=re.MULTILINE)


def test_a_loop_that_only_reads_has_no_branch_for_its_checks(check: Any) -> None:
    """
    CHECK: min.u64 {{.*}}, 2147483647
    CHECK: setp.gt.u32
    CHECK: ld.global.nc
    CHECK: and.pred
    CHECK: @%p{{[0-9]+}} bra
    CHECK: st.global.b32
    CHECK: ret;
    CHECK: // kdsl_record_failure
    """
    ptx = gathered.ptx("sm_90")
    check(ptx)
    assert max(block.count("ld.global.nc") for block in between(ptx)) == 8, "four trips with two reads each are under way at once"
    hot = max(between(ptx), key=lambda block: block.count("ld.global.nc"))
    assert len(re.findall(r"setp\.(?:lt|gt)\.u64", hot)) == 4, "the place is tested in each trip, the number before all of them"
    assert assemble(ptx, "sm_90").spills == 0


def test_a_loop_that_writes_does_not_run_twice() -> None:
    ptx = moved.ptx("sm_90")
    assert ptx.count("// kdsl_record_failure") == 3
    assert "and.pred" not in ptx


def test_what_strips_of_rows_leave_comes_in_halves_of_them() -> None:
    ptx = listed.ptx("sm_90")
    first_run = ptx[: ptx.index("// second run")]
    reads = [count for block in between(first_run) if (count := block.count("ld.global.nc"))]
    assert reads[0] == 2, "start and end of the list"
    assert reads[1:] == [8, 8, 4, 4, 2, 2, 1 + 1], "rows of a strip together, then what they name; no label stands within the last one"
    assert assemble(ptx, "sm_90").spills == 0
