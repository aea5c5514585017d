"""Asynchronous stores to other blocks of a cluster: PTX, and results on a GPU of compute capability 9.0 or more."""

from __future__ import annotations

import re
from typing import Any

import async_kernels as kernels
import numpy as np
import pytest

import kdsl
from kdsl import f16, f32, f64, i32, i64, u8, u32, u64
from kdsl.lang.types import dtype
from kdsl.testing import devices
from kdsl.testing.ptx import assemble, filecheck

on_clusters = pytest.mark.parametrize(
    "gpu",
    [d for d in devices() if d.name != "cpu" and d.capability >= (9, 0)],  # type: ignore[attr-defined]  # GPUs have one
    ids=str,
)
OPERATIONS: dict[int, tuple[Any, tuple[Any, ...]]] = {
    0: (np.add, (i32, u32, i64, u64)),
    1: (np.minimum, (i32, u32)),
    2: (np.maximum, (i32, u32)),
    3: (np.bitwise_and, (i32, u32)),
    4: (np.bitwise_or, (i32, u32)),
    5: (np.bitwise_xor, (i32, u32)),
}
REDUCED = [(op, of) for op, (_, types) in OPERATIONS.items() for of in types]
VECTORS = [(f16, 2), (f16, 4), (f16, 8), (f32, 2), (f32, 4), (f64, 2), (i64, 2), (u8, 4), (u8, 8), (u8, 16)]
TARGETS = ["sm_90", "sm_90a", "sm_100a", "sm_110", "sm_120"]


@on_clusters
@pytest.mark.parametrize("of", [f32, f64, i32, u64], ids=str)
@pytest.mark.parametrize("rounds", [0, 1, 2, 7])
@pytest.mark.parametrize("clusters", [1, 5])
def test_numbers_are_passed_on(gpu: Any, clusters: int, rounds: int, of: Any) -> None:
    x = np.random.default_rng(rounds).integers(0, 1000, (clusters, 4, 32)).astype(of.numpy)
    y = gpu.zeros(x.size, of)
    kernels.passed_on(y, gpu.array(x.reshape(-1)), rounds)
    np.testing.assert_array_equal(y.numpy().reshape(x.shape), np.roll(x, rounds, axis=1))


@on_clusters
@pytest.mark.parametrize(("of", "lanes"), VECTORS, ids=str)
def test_vectors_are_exchanged(gpu: Any, of: Any, lanes: int) -> None:
    x = np.random.default_rng(lanes).integers(0, 200, (3, 2, 256)).astype(of.numpy)
    y = gpu.zeros(x.size, of)
    kernels.exchanged(y, gpu.array(x.reshape(-1)), 256, lanes)
    np.testing.assert_array_equal(y.numpy().reshape(x.shape), x[:, ::-1])


@on_clusters
@pytest.mark.parametrize(("op", "of"), REDUCED, ids=str)
def test_numbers_are_combined(gpu: Any, op: int, of: Any) -> None:
    limits = np.iinfo(of.numpy)
    x = np.random.default_rng(op).integers(limits.min, limits.max, 1 + 3 * 256, of.numpy, endpoint=True)
    sums = gpu.zeros(3, of)
    kernels.counted(sums, gpu.array(x), op)
    combine = OPERATIONS[op][0]
    with np.errstate(over="ignore"):
        wanted = [combine.reduce(np.append(x[1 + 256 * n : 257 + 256 * n], x[0]), dtype=of.numpy) for n in range(3)]
    np.testing.assert_array_equal(sums.numpy(), np.array(wanted, of.numpy))


@on_clusters
def test_what_is_inside_arrives(gpu: Any) -> None:
    y = gpu.zeros(64, f32)
    kernels.outside(y, 0, 1, 0, 1)
    np.testing.assert_array_equal(y.numpy(), [-1] * 32 + [1] * 32)
    kernels.trusted(y, 1, 1)
    np.testing.assert_array_equal(y.numpy()[:32], np.arange(32))
    kernels.two_kinds(y)
    np.testing.assert_array_equal(y.numpy(), np.ones(64))


@on_clusters
@pytest.mark.parametrize("row", [2, -1, 1 << 40])
def test_a_place_outside_is_left_out_and_nobody_waits(gpu: Any, row: int) -> None:
    y = gpu.zeros(64, f32)
    kernels.outside(y, row, 1, 0, 1)
    with pytest.raises(kdsl.BoundsError, match=r"store_async\(\): the place exists"):
        gpu.synchronize()
    np.testing.assert_array_equal(y.numpy(), [-1] * 64)


@on_clusters
@pytest.mark.parametrize(
    ("rank", "bar", "message"), [(2, 0, "the block is one of the cluster"), (-1, 0, "the block is one"), (1, 2, "the barrier exists")]
)
def test_a_block_or_a_barrier_that_is_not_there(gpu: Any, rank: int, bar: int, message: str) -> None:
    y = gpu.zeros(64, f32)
    kernels.outside(y, 0, rank, bar, 0)
    with pytest.raises(kdsl.BoundsError, match=message):
        gpu.synchronize()
    np.testing.assert_array_equal(y.numpy(), [-1] * 64)


# ------------------------------------------------------------------------------------------------------------------------------- PTX


EVERY: list[tuple[Any, dict[str, Any]]] = [
    (kernels.outside, {}),
    (kernels.trusted, {}),
    (kernels.two_kinds, {}),
    *((kernels.passed_on, {"T": of}) for of in (f32, u64)),
    *((kernels.exchanged, {"T": of, "LANES": lanes}) for of, lanes in VECTORS),
    *((kernels.counted, {"T": of, "OP": op}) for op, of in REDUCED),
]


@pytest.mark.parametrize(("of", "settings"), EVERY, ids=str)
def test_assembles(of: kdsl.Kernel, settings: dict[str, Any]) -> None:
    assert assemble(of.ptx("sm_90", **settings), "sm_90").spills == 0


@pytest.mark.parametrize("target", TARGETS[1:])
def test_assembles_for_other_targets(target: str) -> None:
    assert assemble(kernels.passed_on.ptx(target, T=f32), target).spills == 0
    assert assemble(kernels.counted.ptx(target, T=i32, OP=0), target).spills == 0


def test_place_and_barrier_are_those_of_the_other_block() -> None:
    filecheck(
        kernels.passed_on.ptx("sm_90", T=f32),
        """
        CHECK: .version 8.1
        CHECK: barrier.cluster.wait.aligned;
        CHECK: mapa.shared::cluster.u32 bar, [[BAR:%r[0-9]+]], [[RANK:%r[0-9]+]]; mapa.shared::cluster.u32 there, %r{{[0-9]+}}, [[RANK]];
        CHECK-SAME: st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [there], %r{{[0-9]+}}, [bar]; }
        CHECK: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64
        """,
    )
    assert "ld.shared.b32" in kernels.passed_on.ptx("sm_90", T=f32)


@pytest.mark.parametrize(("of", "lanes"), VECTORS, ids=str)
def test_vectors_are_one_store(of: Any, lanes: int) -> None:
    ptx = kernels.exchanged.ptx("sm_90", T=of, LANES=lanes)
    form = {4: "b32", 8: "b64", 16: "v2.b64"}[of.itemsize * lanes]
    found = re.findall(r"st\.async\.weak\.shared::cluster\.mbarrier::complete_tx::bytes\.(\S+) ", ptx)
    assert set(found) == {form}
    assert "mbarrier.test_wait.parity.acquire.cluster.shared.b64" in ptx


@pytest.mark.parametrize(("op", "of"), REDUCED, ids=str)
def test_forms_of_reductions(op: int, of: Any) -> None:
    name = ("add", "min", "max", "and", "or", "xor")[op]
    kind = {
        "add": {"i32": "s32", "u32": "u32"}.get(of.name, "u64"),
        "min": of.name.replace("i", "s"),
        "max": of.name.replace("i", "s"),
    }.get(name, "b32")
    ptx = kernels.counted.ptx("sm_90", T=of, OP=op)
    assert f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{name}.{kind} [there], " in ptx


def test_bytes_of_what_is_left_out_are_counted() -> None:
    ptx = kernels.outside.ptx("sm_90")
    assert ptx.count("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], ") == 1  # the other store is proved
    assert "mbarrier.complete_tx" not in kernels.trusted.ptx("sm_90")


def test_waits_at_other_barriers_acquire_from_the_block_only() -> None:
    """One for the cluster lets go of what the level-1 cache holds."""
    filecheck(
        kernels.two_kinds.ptx("sm_90"),
        """
        CHECK: st.async
        CHECK: mbarrier.try_wait.parity.shared::cta.b64
        CHECK: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64
        """,
    )


def test_targets_that_lack_it() -> None:
    from kdsl.backend.nvptx import TargetError, compile_ptx

    with pytest.raises(TargetError, match=r"cannot be compiled for sm_89 .* it needs compute capability 9.0"):
        compile_ptx(kernels.outside.ir(), "sm_89")
    with pytest.raises(kdsl.KernelError, match="GPU only"):
        kernels.counted.compile("cpu", T=dtype("i32"), OP=0)
