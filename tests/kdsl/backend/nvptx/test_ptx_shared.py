"""Shared arrays in PTX: declared by themselves up to 48 KiB, in dynamic shared memory beyond, with the alignment that was asked for."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kdsl.backend.nvptx import TARGETS, LimitError, compile_module, compile_ptx
from kdsl.backend.nvptx.occupancy import shared_limit
from kdsl.ir import nodes
from kdsl.ir.shared import shared_layout
from kdsl.lang.types import F32, F64, I64, U8
from kdsl.testing.ptx import assemble


def two_arrays(build: Any, a: int, b: int, *, aligned: tuple[int, int] = (16, 16), name: str = "k") -> Any:
    """A kernel that reverses its input through one array and passes it on through another one."""
    k = build(name)
    y, x, t = k.view("y"), k.view("x", kind="Slice"), k.thread()
    first, second = k.array("first", F32, a), k.array("second", F32, b)
    first.alignment, second.alignment = aligned
    k.store(first, t, k.load(x, t))
    k.barrier()
    k.store(second, t, k.load(first, k.binary("sub", k.constant(255), t)))
    k.barrier()
    k.store(y, t, k.load(second, t))
    return k


def test_exactly_48_kib_are_static(build: Any) -> None:
    ptx = two_arrays(build, 6 * 1024, 6 * 1024).ptx("sm_80")
    assert ".extern" not in ptx
    assert assemble(ptx, "sm_80").shared == 48 * 1024


def test_beyond_48_kib_all_arrays_are_dynamic(build: Any, check: Any) -> None:
    """
    CHECK: .extern .shared .align 1024 .b8 kdsl_dynamic_shared[];
    CHECK-NOT: .shared .align
    CHECK: .entry k(
    CHECK: st.shared.b32 [[[FIRST:%rd[0-9]+]]], {{%r[0-9]+}};
    CHECK: st.shared.b32 [[[FIRST]]+24576], {{%r[0-9]+}};
    """
    ptx = two_arrays(build, 6 * 1024, 6 * 1024 + 4).ptx("sm_80")
    check(ptx)
    assert assemble(ptx, "sm_80").shared == 0


@pytest.mark.parametrize("target", TARGETS)
def test_all_that_a_block_has_assembles_and_a_byte_more_is_refused(build: Any, target: str) -> None:
    most = shared_limit(TARGETS[target].capability)
    assert most % 1024 == 0
    assemble(two_arrays(build, 1024, most // 4 - 1024).ptx(target), target)
    kernel = two_arrays(build, 1024, 1).kernel
    kernel.arrays[1] = nodes.Array("second", U8, (most - 4095,), "shared")
    with pytest.raises(LimitError, match=rf"k declares {most + 16} bytes of shared arrays \(first 4096, second {most - 4095}\).* {most}: "):
        compile_ptx(kernel, target)


def test_limits_are_those_of_the_programming_guide() -> None:
    kib = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 110: 227, 120: 99}
    assert {target.capability: shared_limit(target.capability) // 1024 for target in TARGETS.values()} == kib


def test_an_alignment_that_was_asked_for(build: Any) -> None:
    ptx = two_arrays(build, 1024, 1024, aligned=(16, 128)).ptx("sm_80")
    assert re.findall(r"^\s*\.shared \.align (\d+) \.b8 (\w+)\[", ptx, re.MULTILINE) == [
        ("16", "kdsl_shared0_first"),
        ("128", "kdsl_shared1_second"),
    ]
    assemble(ptx, "sm_80")


def test_the_largest_alignment_comes_first() -> None:
    def array(size: int, alignment: int) -> nodes.Array:
        return nodes.Array("a", F32, (size,), "shared", alignment)

    small, tile, wide = array(1, 16), array(16 * 1024, 1024), array(33, 128)
    layout = shared_layout([small, tile, wide, nodes.Array("own", F64, (9,), "local")])
    assert layout.is_dynamic
    assert layout.offsets == {tile: 0, wide: 64 * 1024, small: 64 * 1024 + 144}
    assert layout.size == layout.launch_bytes == 64 * 1024 + 160


def test_a_single_array_of_48_kib_is_static_whatever_its_alignment() -> None:
    assert not shared_layout([nodes.Array("a", U8, (48 * 1024,), "shared", 1024)]).is_dynamic


def test_what_the_assembler_might_not_fit_is_dynamic() -> None:
    """In the wrong order these take more than 48 KiB."""
    arrays = [
        nodes.Array("a", U8, (size,), "shared", alignment) for size, alignment in ((16, 16), (24 * 1024, 1024), (24 * 1024 - 16, 512))
    ]
    assert shared_layout(arrays).size == 48 * 1024
    assert shared_layout(arrays).is_dynamic


def test_arrays_in_dynamic_memory_are_told_apart(build: Any) -> None:
    """A value that was stored to one array need not be read again after a store to another one."""
    b = build()
    y, t, i = b.view("y"), b.thread(), b.scalar("i", I64)
    first, second = b.array("first", F32, 8192), b.array("second", F32, 8192)
    b.store(first, t, b.load(y, t))
    b.store(second, i, b.constant(1.0, F32))
    b.store(y, i, b.load(first, t))
    ptx = b.ptx("sm_80")
    assert "ld.shared" not in ptx
    assemble(ptx, "sm_80")


def test_two_kernels_of_a_module_share_the_symbol(build: Any) -> None:
    kernels = [two_arrays(build, 8192, 8192, name=name).kernel for name in ("one", "two")]
    ptx = compile_module([*kernels, two_arrays(build, 64, 64, name="three").kernel], "sm_90")
    assert ptx.count(".extern") == 1
    assemble(ptx, "sm_90")


def test_arrays_that_the_launch_sizes_lie_behind_the_others(build: Any, check: Any) -> None:
    """
    CHECK: .extern .shared .align 1024 .b8 kdsl_dynamic_shared[];
    CHECK-NOT: .shared .align
    CHECK: .entry k(
    CHECK: mov.b64 [[START:%rd[0-9]+]], kdsl_dynamic_shared;
    CHECK: ld.param.b64 [[PLACE:%rd[0-9]+]], [k_param_8];
    CHECK: add.s64 {{%rd[0-9]+}}, [[START]], [[PLACE]];
    CHECK: st.shared.b32
    CHECK: ld.shared.b32
    """
    b = build()
    y, t = b.view("y"), b.thread()
    fixed = b.array("fixed", F32, 256)
    view = nodes.SharedView("tile", F32, "SliceMut", written=True, read=True, rank=2, extents=("len(y)", 4))
    b.kernel.shared_views.append(view)
    b.store(fixed, t, b.load(y, t))
    b.store(view, t, b.constant(3), b.load(y, t))
    b.barrier()
    b.store(y, t, b.binary("add", b.load(view, t, b.constant(0)), b.load(fixed, t)))
    ptx = b.ptx("sm_80")
    check(ptx)
    assert "mul" not in ptx.split(".entry")[1].split("tid")[0]
    assert assemble(ptx, "sm_80").shared == 0


def test_shared_arrays_that_the_launch_sizes_are_changed_atomically(build: Any) -> None:
    b = build()
    view = nodes.SharedView("tile", I64, "SliceMut", written=True, read=True, rank=1, extents=("n",))
    b.kernel.shared_views.append(view)
    b.scalar("n", I64)
    one = b.constant(1)
    b.add(nodes.Atomic, type=I64, name="atomic_add", op="add", memory=view, indices=(b.thread(),), arguments=(one,), scope="block",
          order="relaxed", checked=False, site=0)  # fmt: skip
    assert "atom.relaxed.cta.shared.add.u64" in b.ptx("sm_80")
