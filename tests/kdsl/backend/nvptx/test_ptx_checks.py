"""Checked accesses and assertions: the branch stays, the failure is recorded, nothing else is touched."""

import re
from typing import Any

import pytest

from kdsl.ir import nodes
from kdsl.ir.abi import RECORD
from kdsl.lang.types import F32, I64
from kdsl.testing.ptx import assemble


def gather(build: Any, **more: Any) -> Any:
    b = build("gather", **more)
    y, x, t = b.view("y"), b.view("x", kind="Slice"), b.thread()
    index = b.load(b.view("i", I64, "Slice"), t)
    b.store(y, t, b.load(x, index, checked=True))
    return b


def test_a_checked_load_branches_and_gives_zero(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.nc.b64 %rd[[I:[0-9]+]]
    CHECK: setp.{{(lt|gt|ge|le)}}.u64
    CHECK: @{{!?}}%p{{.*}} bra
    CHECK-NOT: bra
    CHECK: ld.global.nc.b32
    CHECK: st.global.b32
    CHECK: ret;
    CHECK: // second run
    CHECK: setp.{{(lt|gt|ge|le)}}.u64
    CHECK: @%p{{.*}} bra
    CHECK: ld.global.nc.b32
    CHECK: st.global.b32
    CHECK: mov.b32 {{.*}}, 0f00000000;
    CHECK: // kdsl_record_failure
    CHECK: bra.uni
    """
    check(gather(build).ptx())


@pytest.mark.parametrize("optimise", [0, 3])
def test_the_check_survives(build: Any, optimise: int) -> None:
    ptx = gather(build).ptx(optimise=optimise)
    assert ".extern" not in ptx
    assert "trap" not in ptx
    assert len(re.findall(r"setp\.\w+\.u64", ptx)) == 2, "in each of the two runs"
    assemble(ptx, "sm_90")


def test_a_checked_store_is_left_out(build: Any, check: Any) -> None:
    """
    CHECK: setp
    CHECK: @{{!?}}%p{{.*}} bra
    CHECK: st.global.b32
    CHECK: ret;
    CHECK: // second run
    CHECK: setp
    CHECK: st.global.b32
    CHECK: // kdsl_record_failure
    CHECK: // end inline asm
    CHECK-NOT: st.global
    CHECK: bra.uni
    """
    b = build()
    b.store(b.view("y"), b.thread(), b.constant(1.0, F32), checked=True)
    check(b.ptx())


def test_the_record_is_claimed_filled_fenced_and_marked(build: Any, check: Any) -> None:
    """
    CHECK: atom.{{.*}}.cas.b32 %r[[OLD:[0-9]+]], [%rd{{[0-9]+}}], 0, 1;
    CHECK: setp.{{eq|ne}}.b32 %p[[CLAIM:[0-9]+]], %r[[OLD]], 0;
    CHECK: @%p[[CLAIM]] bra
    CHECK: // kdsl_record_failure
    CHECK: st.global.b32 [%rd{{[0-9]+}}+4],
    CHECK: fence.sc.sys;
    CHECK-NEXT: st.global.b32 [%rd{{[0-9]+}}+0], 1;
    """
    check(gather(build).ptx())


def test_all_fields_of_the_record_are_written(build: Any) -> None:
    ptx = gather(build, block=(8, 4, 2), rank=3).ptx()
    body = ptx[ptx.rindex("// kdsl_record_failure") : ptx.index("// end inline asm", ptx.rindex("// kdsl_record_failure"))]
    written: set[int] = set()
    for kind, bits, offset in re.findall(r"st\.global(\.v2)?\.b(32|64) \t?\[%rd\d+(?:\+(\d+))?\]", body):
        first = int(offset or 0)
        written.update(range(first, first + int(bits) // 8 * (2 if kind else 1), 4))
    assert written == {*RECORD.values(), RECORD["index"] + 4, RECORD["extent"] + 4}
    for register in ("%tid.x", "%tid.y", "%tid.z", "%ctaid.x"):
        assert register in ptx
    assert len(re.findall(r"div\.u32", ptx)) >= 2  # the block is unfolded along three dimensions


def test_the_failing_dimension_is_the_first(build: Any, check: Any) -> None:
    """
    CHECK: setp.gt.u64 %p{{[0-9]+}}, %rd[[I:[0-9]+]], 3;
    CHECK: setp.gt.u64 %p{{[0-9]+}}, %rd[[J:[0-9]+]], 6;
    CHECK: setp.lt.u64 %p[[ROW:[0-9]+]], %rd[[I]], 4;
    CHECK: selp.b32 {{.*}}, 1, 0, %p[[ROW]];
    CHECK: selp.b64 {{.*}}, %rd[[J]], %rd[[I]], %p[[ROW]];
    CHECK: selp.b64 {{.*}}, 7, 4, %p[[ROW]];
    CHECK: // kdsl_record_failure
    """
    b = build()
    y, t, i = b.view("y"), b.thread(), b.view("i", I64, "Slice")
    tile = b.array("tile", F32, 4, 7)
    row, column = b.load(i, t), b.load(i, b.constant(0))
    b.store(tile, b.constant(0), b.constant(0), b.load(y, t))
    b.barrier()
    b.store(y, t, b.load(tile, row, column, checked=True))
    check(b.ptx())


def test_an_assertion_records_and_goes_on(build: Any, check: Any) -> None:
    """
    CHECK: setp
    CHECK: @{{!?}}%p{{.*}} bra
    CHECK: st.global.b32
    CHECK: ret;
    CHECK: // second run
    CHECK: setp
    CHECK: st.global.b32
    CHECK: // kdsl_record_failure
    CHECK: bra.uni
    """
    b = build()
    y, t = b.view("y"), b.thread()
    x = b.load(y, t)
    b.kernel.sites.append(nodes.Site("assert", "x is positive", b.place(), None))
    b.add(nodes.Assertion, condition=b.compare("gt", x, b.constant(0.0, F32)), site=0)
    b.store(y, t, b.binary("add", x, x))
    check(b.ptx())


def test_a_kernel_without_checks_has_no_recording_function(build: Any) -> None:
    b = build()
    b.store(b.view("y"), b.thread(), b.constant(1.0, F32))
    assert "kdsl_record_failure" not in b.ptx()


def test_many_checks_spill_nothing(build: Any) -> None:
    b = build()
    y, x, t = b.view("y"), b.view("x", kind="Slice"), b.thread()
    total = b.load(x, t, checked=True)
    for number in range(1, 32):
        total = b.binary("add", total, b.load(x, b.binary("mul", t, b.constant(number)), checked=True))
    b.store(y, t, total, checked=True)
    ptx = b.ptx()
    first, second = ptx.split("// second run")
    assert (first.count("// kdsl_record_failure"), second.count("// kdsl_record_failure")) == (0, 33)
    assert "call" not in ptx
    assert assemble(ptx, "sm_90").spills == 0
