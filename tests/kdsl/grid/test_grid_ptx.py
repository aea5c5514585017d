"""The barrier of the grid, and dependent launches, in PTX."""

from __future__ import annotations

import re

import grid_kernels as kernels
import pytest

import kdsl
from kdsl.testing.ptx import assemble, filecheck


@pytest.mark.parametrize("target", ["sm_80", "sm_87", "sm_90", "sm_100a", "sm_110", "sm_120"])
@pytest.mark.parametrize("of", [kernels.turn, kernels.normalise], ids=lambda of: of.name)
def test_the_barrier_of_the_grid_assembles(of: kdsl.Kernel, target: str) -> None:
    assert assemble(of.ptx(target), target).registers


def test_clusters_that_wait_for_each_other_assemble() -> None:
    assert assemble(kernels.turn_in_clusters.ptx("sm_90"), "sm_90").registers


@pytest.mark.parametrize("target", ["sm_90", "sm_90a", "sm_100a", "sm_110", "sm_120"])
def test_dependent_launches_assemble(target: str) -> None:
    assert assemble(kernels.add.ptx(target), target).spills == 0


def test_the_barrier_of_the_grid() -> None:
    filecheck(
        kernels.normalise.ptx("sm_80"),
        """
        CHECK: .entry normalise(
        CHECK: atom.release.gpu.global.add.u32 [[BEFORE:%r[0-9]+]], [[[PLACE:%rd[0-9]+]]],
        CHECK: ld.acquire.gpu.global.u32 [[NOW:%r[0-9]+]], [[[PLACE]]];
        CHECK: xor.b32 {{%r[0-9]+}}, [[NOW]], [[BEFORE]];
        CHECK: bar{{.*}}.sync
        CHECK: ld.global.b32
        """,
    )


def test_what_other_blocks_wrote_is_read_from_memory() -> None:
    """After the barrier nothing that was read before it may be used, and nothing comes from the cache that is not coherent."""
    entry = kernels.turn.ptx("sm_90").split(".visible .entry")[1].split("\n.func")[0]
    assert "ld.global.nc" not in entry
    assert len(re.findall(r"ld\.global\.b64", entry)) == 2


def test_memory_is_read_after_the_wait() -> None:
    filecheck(
        kernels.add.ptx("sm_90"),
        """
        CHECK: .version 7.8
        CHECK: .entry add(
        CHECK-NOT: ld.global
        CHECK: griddepcontrol.launch_dependents;
        CHECK-NOT: ld.global
        CHECK: griddepcontrol.wait;
        CHECK: ld.global.b32
        """,
    )
    assert "ld.global.nc" not in kernels.add.ptx("sm_90")
    assert "ld.global.nc" in kernels.add_plainly.ptx("sm_90")
    late = kernels.last.ptx("sm_90")
    assert late.index("st.global") < late.index("griddepcontrol.wait")


def test_dependent_launches_need_compute_capability_9() -> None:
    message = r"launch_dependents\(\) cannot be compiled for sm_89 \(.*; compute capability 8.9\): it needs compute capability 9.0"
    with pytest.raises(kdsl.KernelError, match=message) as caught:
        kernels.add.ptx("sm_89")
    assert "    launch_dependents()\n    ^^^^" in str(caught.value)


def test_the_barrier_is_told_for_the_cpu() -> None:
    with pytest.raises(kdsl.KernelError, match=r"sync_grid\(\) is GPU only"):
        kernels.turn.compile("cpu")
