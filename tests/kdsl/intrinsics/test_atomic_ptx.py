"""Atomic operations and fences in PTX: operation, type, scope, order and space are as written."""

from __future__ import annotations

import re

import pytest
from written import written

import kdsl
from kdsl.lang.intrinsics import INTRINSICS, SCOPES, ToAtomic
from kdsl.testing.ptx import assemble, filecheck, unrecorded

ATOMICS = {name: row.lowering for name, row in INTRINSICS.items() if isinstance(row.lowering, ToAtomic)}
_VALUES = {"load": "", "cas": ", v, x[1]"}


def lines(ptx: str) -> list[str]:
    """The instructions of the kernel that touch memory atomically, in order."""
    body = unrecorded(ptx).split(".entry")[1].split("\n}")[0]
    return re.findall(r"^\s*((?:atom|fence|ld\.[ars]|st\.r)\S*)", body, re.MULTILINE)


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ATOMICS)
def test_every_type_scope_order_and_space(name: str, target: str) -> None:
    lowering = ATOMICS[name]
    for of, kind in lowering.types.items():
        if kind == "noftz.bf16" and target == "sm_80":
            continue
        body, expected = [f"s = shared_array(64, {of})", "t = thread_idx.x", "v = x[t]"], []
        for array, space in (("y", "global"), ("s", "shared")):
            for scope, ptx_scope in SCOPES.items():
                if scope == "cluster" and target == "sm_80":
                    continue
                for order in lowering.orders:
                    body.append(f'{name}({array}, t{_VALUES.get(lowering.op, ", v")}, scope="{scope}", order="{order}")')
                    plain = {"load": "acquire", "store": "release"}.get(lowering.op, "acq_rel") if order == "seq_cst" else order
                    head, _, operation = lowering.ptx.partition(".")
                    expected += [f"fence.sc.{ptx_scope}"] if order == "seq_cst" else []
                    expected.append(".".join(part for part in (head, plain, ptx_scope, space, operation, kind) if part))
        ptx = written(f"x: Slice[{of}], y: SliceMut[{of}]", "\n".join(body)).ptx(target)
        assert [line.rstrip(";") for line in lines(ptx)] == expected
        assemble(ptx, target)


@pytest.mark.parametrize("order", ["relaxed", "acq_rel", "seq_cst"])
def test_bf16_is_added_by_exchange_where_there_is_no_instruction(order: str) -> None:
    ptx = written("y: SliceMut[bf16]", f'atomic_add(y, 0, bf16(1.5), scope="block", order="{order}")').ptx("sm_80")
    plain = "acq_rel" if order == "seq_cst" else order
    fence = "CHECK: fence.sc.cta;" if order == "seq_cst" else ""
    filecheck(ptx, f"""
    {fence}
    CHECK: ld.relaxed.cta.global.b16 %rs{{{{[0-9]+}}}}
    CHECK: atom.{plain}.cta.global.cas.b16
    CHECK: setp.{{{{eq|ne}}}}
    """)  # fmt: skip
    assemble(ptx, "sm_80")


def test_an_addition_with_its_check() -> None:
    ptx = written("y: SliceMut[f32], i: i64", 'atomic_add(y, i, 1.5, scope="block", order="acq_rel")').ptx("sm_90")
    filecheck(ptx, """
    CHECK: .entry tested
    CHECK: setp.{{l|g}}{{t|e}}.u64
    CHECK: atom.acq_rel.cta.global.add.f32 %r{{[0-9]+}}, [%rd{{[0-9]+}}], %r{{[0-9]+}};
    CHECK-NOT: atom.acq_rel
    """)  # fmt: skip


def test_sequential_consistency_is_a_fence_in_front() -> None:
    ptx = written("y: SliceMut[u64]", 'atomic_exchange(y, 0, 7, scope="system", order="seq_cst")').ptx("sm_90")
    filecheck(ptx, """
    CHECK: fence.sc.sys;
    CHECK: atom.acq_rel.sys.global.exch.b64
    """)  # fmt: skip


def test_fences() -> None:
    ptx = written("y: SliceMut[i32]", "y[0] = 1\nfence_block()\ny[1] = 2\nfence_device()\ny[2] = 3\nfence_system()\ny[3] = 4").ptx("sm_80")
    filecheck(ptx, """
    CHECK: st.global.b32
    CHECK: fence.sc.cta;
    CHECK: st.global.b32
    CHECK: fence.sc.gpu;
    CHECK: st.global.b32
    CHECK: fence.sc.sys;
    CHECK: st.global.b32
    """)  # fmt: skip
    assemble(ptx, "sm_80")


def test_fences_that_acquire_and_release_only() -> None:
    names = ("block", "cluster", "device", "system")
    ptx = written("y: SliceMut[i32]", "\n".join(f'fence_{name}(order="acq_rel")\ny[0] += 1' for name in names) + "\nfence_cluster()").ptx(
        "sm_90"
    )
    filecheck(ptx, """
    CHECK: fence.acq_rel.cta;
    CHECK: fence.acq_rel.cluster;
    CHECK: fence.acq_rel.gpu;
    CHECK: fence.acq_rel.sys;
    CHECK: fence.sc.cluster;
    """)  # fmt: skip
    assemble(ptx, "sm_90")


@pytest.mark.parametrize("name", ATOMICS)
def test_the_scope_of_a_cluster_needs_a_gpu_that_has_clusters(name: str) -> None:
    of = next(iter(ATOMICS[name].types))
    kernel = written(f"x: Slice[{of}], y: SliceMut[{of}]", f'v = x[0]\n{name}(y, 0{_VALUES.get(ATOMICS[name].op, ", v")}, scope="cluster")')
    assert ".version 7.8" in kernel.ptx("sm_90")
    with pytest.raises(
        kdsl.KernelError, match=rf'{name}\(\) with scope "cluster" cannot be compiled for sm_89 .*needs compute capability 9.0'
    ):
        kernel.ptx("sm_89")


def test_accesses_stay_on_their_side_of_an_atomic_operation() -> None:
    """A message through plain memory: what is written before the flag is written before it, and read after it."""
    ptx = written(
        "data: SliceMut[i32], flag: SliceMut[i32], out: SliceMut[i32]",
        'old = data[1]\ndata[0] = 5\natomic_store(flag, 0, 1, order="release")\nseen = atomic_load(flag, 1, order="acquire")\n'
        "out[0] = data[1] + seen + old",
    ).ptx("sm_90")
    filecheck(ptx, """
    CHECK: ld.global.b32
    CHECK: st.global.b32
    CHECK: st.release.gpu.global.b32
    CHECK: ld.acquire.gpu.global.b32
    CHECK: ld.global.b32
    CHECK: st.global.b32
    """)  # fmt: skip


def test_the_hardware_has_no_subtraction() -> None:
    ptx = written("y: SliceMut[i32], v: i32", "atomic_sub(y, 0, v)").ptx("sm_80")
    filecheck(ptx, """
    CHECK: {{neg|xor|sub}}
    CHECK: atom.relaxed.gpu.global.add.s32
    """)  # fmt: skip
