"""Atomic operations on shared arrays of other blocks of a cluster: numbers and vectors, the instructions, and on a GPU what they do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from written import written

import kdsl
from kdsl.lang.intrinsics import INTRINSICS, SCOPES, ToAtomic
from kdsl.lang.types import DTYPES
from kdsl.lang.vectors import VECTORS
from kdsl.testing import devices
from kdsl.testing.ptx import assemble, filecheck, unrecorded

DEVICES = pytest.mark.parametrize("device", [d for d in devices() if getattr(d, "capability", (0, 0)) >= (9, 0)], ids=str)
FORMS = [
    (name, of, kind)
    for name, row in INTRINSICS.items()
    if isinstance(row.lowering, ToAtomic)
    for of, kind in (*row.lowering.types.items(), *((v, form.ptx) for v, form in row.lowering.vectors.items() if form.shared))
]
VALUES = {"cas": "x[0], v, ", "load": ""}


def kernel(parameters: str, body: str, blocks: int = 2, block: int = 32) -> Any:
    return written(parameters, f"t = thread_idx.x\nr = cluster_rank()\n{body}\nsync_cluster()", block, str(blocks), f"cluster={blocks}")


@pytest.mark.parametrize(("name", "of", "kind"), FORMS, ids=[f"{name}-{of}" for name, of, _ in FORMS])
def test_every_type_scope_and_order(name: str, of: str, kind: str) -> None:
    lowering = INTRINSICS[name].lowering
    assert isinstance(lowering, ToAtomic)
    body, expected = [f"s = shared_array(64, {of})", "v = x[t]", "sync_cluster()"], []
    for scope, ptx_scope in SCOPES.items():
        for order in lowering.orders:
            body.append(f'{name}(remote(s, 1 - r), t, {VALUES.get(lowering.op, "v, ")}scope="{scope}", order="{order}")')
            plain = {"load": "acquire", "store": "release"}.get(lowering.op, "acq_rel") if order == "seq_cst" else order
            head, _, operation = lowering.ptx.partition(".")
            expected += [f"CHECK: fence.sc.{ptx_scope};"] if order == "seq_cst" else []
            line = ".".join(filter(None, (head, plain, ptx_scope, "shared::cluster", operation, kind.removesuffix("x2"))))
            expected += [f"CHECK: {line} "] if not kind.endswith("x2") else [f"CHECK: {line} low, [", f"CHECK-SAME: {line} high, ["]
    ptx = kernel(f"x: Slice[{of}], y: SliceMut[{of}]", "\n".join(body)).ptx("sm_90")
    filecheck(unrecorded(ptx), "\n".join(expected))
    assert not re.search(r"(atom|ld|st)\.\w+\.\w+\.shared\.", ptx)
    assemble(ptx, "sm_90")


def test_the_address_is_that_of_the_other_block() -> None:
    body = "s = shared_array(32, f32x4)\nsync_cluster()\ny[t] = atomic_exchange(remote(s, 1), t, x[t])"
    for target in ("sm_90a", "sm_100a", "sm_120"):
        ptx = kernel("x: Slice[f32x4], y: SliceMut[f32x4]", body).ptx(target)
        filecheck(ptx, """
        CHECK: mapa.shared::cluster.u32
        CHECK: atom.relaxed.gpu.shared::cluster.exch.b128 old, [%rd{{[0-9]+}}], value;
        CHECK: st.global.v
        """)  # fmt: skip
        assert assemble(ptx, target).spills == 0


def test_arrays_that_the_launch_sizes() -> None:
    body = "s = shared_array((2, 2 * len(y)), f16)\nsync_cluster()\natomic_add(as_vectors(remote(s, 1 - r), f16x2), (1, t), f16x2(a))"
    ptx = kernel("y: SliceMut[f16], a: f16", body).ptx("sm_90")
    filecheck(ptx, """
    CHECK: mapa.shared::cluster.u32
    CHECK: atom.relaxed.gpu.shared::cluster.add.noftz.f16 low
    CHECK-SAME: atom.relaxed.gpu.shared::cluster.add.noftz.f16 high
    """)  # fmt: skip
    assemble(ptx, "sm_90")


# ------------------------------------------------------------------------------------------------------------------------------ errors


def test_what_is_refused() -> None:
    with pytest.raises(kdsl.KernelError, match=r"`s` of another block is touched, and no sync_cluster\(\) comes before") as caught:
        kernel("y: SliceMut[f32x4]", "s = shared_array(4, f32x4)\natomic_store(remote(s, 1), 0, y[0])").ir()
    assert "atomic_store(remote(s, 1), 0, y[0])" in str(caught.value)
    with pytest.raises(kdsl.KernelError, match=r"atomic_add\(\) of f32x4 elements is in device memory only") as caught:
        kernel("y: SliceMut[f32x4]", "s = shared_array(4, f32x4)\nsync_cluster()\natomic_add(remote(s, 1), 0, y[0])").ir()
    assert "f16x2 and bf16x2" in caught.value.hint
    with pytest.raises(kdsl.KernelError, match="index 4 is outside"):
        kernel("y: SliceMut[f32x4]", "s = shared_array(4, f32x4)\nsync_cluster()\ny[0] = atomic_load(remote(s, 1), 4)").ir()
    with pytest.raises(kdsl.KernelError, match="block 2 is outside of the cluster"):
        kernel("y: SliceMut[f32x4]", "s = shared_array(4, f32x4)\nsync_cluster()\ny[0] = atomic_load(remote(s, 2), 3)").ir()


def test_it_needs_clusters() -> None:
    used = kernel("y: SliceMut[f32x4]", "s = shared_array(4, f32x4)\nsync_cluster()\ny[t] = atomic_load(remote(s, 1), 3)")
    with pytest.raises(kdsl.KernelError, match=r"cannot be compiled for sm_89 .*it needs compute capability 9.0"):
        used.ptx("sm_89")
    with pytest.raises(kdsl.KernelError, match="GPU only"):
        used.compile("cpu")


# ------------------------------------------------------------------------------------------------------------------------------- on a GPU


@DEVICES
@pytest.mark.parametrize("name", ["i32", "u64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"])
def test_sums(device: Any, name: str) -> None:
    """Every block adds to the arrays of all four; integral values, so that every partial sum is exact."""
    of = VECTORS.get(name)
    element, lanes = (of.element, of.lanes) if of else (DTYPES[name], 1)
    body = f"s = shared_array(3, {name})\nif t < 3:\n    s[t] = {name}(0)\nsync_cluster()\n"
    body += "for k in range(4):\n    atomic_add(remote(s, k), t % 3, x[r * 32 + t], scope='cluster')\nsync_cluster()\nif t < 3:\n    y[r * 3 + t] = s[t]"
    x = np.random.default_rng(1).integers(0, 2, (128, lanes)).astype(element.numpy)
    y = device.zeros(12 * lanes, element)
    kernel(f"x: Slice[{name}], y: SliceMut[{name}]", body, 4)(device.array(x.reshape(-1)), y)
    exact = x.astype(np.int64)
    sums = [sum(exact[r * 32 + t] for r in range(4) for t in range(32) if t % 3 == part) for part in range(3)]
    np.testing.assert_array_equal(y.numpy().astype(np.int64).reshape(4, 3, lanes), [sums] * 4)


@DEVICES
@pytest.mark.parametrize("name", ["u64x2", "f32x4", "i32", "f64"])
def test_moves(device: Any, name: str) -> None:
    """Stored into the other block, exchanged and read there, and read by the block itself."""
    of = VECTORS.get(name)
    lanes, element = (of.lanes, of.element) if of else (1, DTYPES[name])
    body = (
        f"s = shared_array(32, {name})\nsync_cluster()\natomic_store(remote(s, 1 - r), t, x[32 * r + t], scope='cluster', order='release')\nsync_cluster()\n"
        "old[32 * r + t] = atomic_exchange(remote(s, 1 - r), t, x[32 * (1 - r) + t])\nseen[32 * r + t] = atomic_load(remote(s, 1 - r), t)\nsync_cluster()\n"
        "own[32 * r + t] = atomic_load(s, t, scope='block')"
    )
    x = np.frombuffer(np.random.default_rng(2).bytes(64 * lanes * element.itemsize), element.numpy)
    old, seen, own = (device.zeros(64 * lanes, element) for _ in range(3))
    kernel(
        ", ".join(f"{p}: {k}[{name}]" for p, k in (("x", "Slice"), ("old", "SliceMut"), ("seen", "SliceMut"), ("own", "SliceMut"))), body
    )(device.array(x), old, seen, own)
    crossed = x.reshape(2, -1)[::-1].tobytes()
    assert old.numpy().tobytes() == x.tobytes()
    assert seen.numpy().tobytes() == crossed
    assert own.numpy().tobytes() == x.tobytes()


@DEVICES
def test_a_pair_that_all_blocks_change(device: Any) -> None:
    body = (
        "s = shared_array(1, u64x2)\nif t == 0:\n    s[0] = u64x2(0)\nsync_cluster()\nseen = atomic_load(remote(s, 0), 0)\ndone = False\nwhile not done:\n"
        "    found = atomic_cas(remote(s, 0), 0, seen, u64x2(seen.x + u64(1), seen.y + u64(3)))\n"
        "    done = found.x == seen.x and found.y == seen.y\n    seen = found\nsync_cluster()\nif r == 0 and t == 0:\n    y[0] = s[0]"
    )
    y = device.zeros(2, "u64")
    kernel("y: SliceMut[u64x2]", body, 4)(y)
    assert y.numpy().tolist() == [128, 384]


@DEVICES
@pytest.mark.parametrize(
    ("rank", "index", "message"),
    [
        (2, 0, "array s: rank 2 of its block is out of bounds for a cluster of 2 blocks"),
        (-1, 0, "rank -1 of its block"),
        (1, 4, "index 4 .*for 4"),
    ],
)
def test_what_is_outside_is_left_out(device: Any, rank: int, index: int, message: str) -> None:
    body = "s = shared_array(4, f32x4)\nif t < 4:\n    s[t] = f32x4(7.0)\nsync_cluster()\ny[32 * r + t] = atomic_exchange(remote(s, rank), index, f32x4(1.0))"
    y = device.full(256, np.nan, "f32")
    kernel("y: SliceMut[f32x4], rank: i64, index: i64", body)(y, rank, index)
    with pytest.raises(kdsl.BoundsError, match=message):
        y.numpy()
    assert not y.numpy().any()
