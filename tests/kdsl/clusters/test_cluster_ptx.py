"""Clusters in PTX."""

from __future__ import annotations

import cluster_kernels as kernels
import pytest

import kdsl
from kdsl.testing.ptx import assemble, filecheck

EVERY = [
    kernels.rotate,
    kernels.push,
    kernels.sized,
    kernels.histogram,
    kernels.places,
    kernels.far,
    kernels.outside,
    kernels.through_a_function,
    kernels.of_sixteen,
    kernels.of_nine,
]


@pytest.mark.parametrize("target", ["sm_90", "sm_90a", "sm_100a", "sm_110", "sm_120"])
@pytest.mark.parametrize("of", EVERY, ids=lambda of: of.name)
def test_assembles(of: kdsl.Kernel, target: str) -> None:
    assert assemble(of.ptx(target), target).spills == 0


def test_reading_another_block() -> None:
    filecheck(
        kernels.rotate.ptx("sm_90"),
        """
        CHECK: .version 7.8
        CHECK: .reqnctapercluster 4, 1, 1
        CHECK: mov.u32 [[RANK:%r[0-9]+]], %cluster_ctarank;
        CHECK: st.shared.b32
        CHECK: barrier.cluster.arrive.aligned;
        CHECK-NEXT: barrier.cluster.wait.aligned;
        CHECK: mapa.shared::cluster.u32
        CHECK: ld.shared::cluster.b32
        CHECK: barrier.cluster.arrive.aligned;
        CHECK-NEXT: barrier.cluster.wait.aligned;
        CHECK-NOT: mapa
        """,
    )


def test_writing_and_counting_in_another_block() -> None:
    ptx = kernels.push.ptx("sm_90")
    assert "st.shared::cluster.b32" in ptx
    assert ".extern .shared" in ptx
    assert "atom.relaxed.gpu.shared::cluster.add.s32" in kernels.histogram.ptx("sm_90")


def test_large_clusters() -> None:
    assert ".reqnctapercluster 16, 1, 1" in kernels.of_sixteen.ptx("sm_90")
    assert ".reqnctapercluster 9, 1, 1" in kernels.of_nine.ptx("sm_90")
    with pytest.raises(kdsl.KernelError, match=r"cluster=\(16, 1, 1\)\) cannot be compiled for sm_89 .* it needs compute capability 9.0"):
        kernels.of_sixteen.ptx("sm_89")


def test_a_value_that_another_block_may_have_changed_is_read_again() -> None:
    """Between the barriers the own array is written by the other block."""
    ptx = kernels.push.ptx("sm_90")
    assert ptx.index("ld.shared.b32") > ptx.rindex("barrier.cluster.wait")


def test_a_cluster_alone_needs_compute_capability_9() -> None:
    message = (
        r"@kernel\(cluster=\(3, 1, 1\)\) cannot be compiled for sm_80 \(A100; compute capability 8.0\): it needs compute capability 9.0"
    )
    with pytest.raises(kdsl.KernelError, match=message) as caught:
        kernels.of_rows.ptx("sm_80")
    assert caught.value.location.line > 1
    assert "def of_rows" in str(caught.value)


@pytest.mark.parametrize("target", ["sm_80", "sm_89"])
def test_an_intrinsic_of_clusters_is_shown_where_a_target_lacks_it(target: str) -> None:
    from kdsl.backend.nvptx import TargetError, compile_ptx

    with pytest.raises(TargetError, match=rf"cluster_kernels.py:\d+:\d+: .*cannot be compiled for {target}"):
        compile_ptx(kernels.rotate.ir(), target)


def test_indices_of_a_linear_cluster_cost_nothing() -> None:
    entry = kernels.rotate.ptx("sm_90").split(".visible .entry")[1].split("\n.func")[0]
    assert "mov.u32" in entry
    assert "div" not in entry
    assert "rem" not in entry
