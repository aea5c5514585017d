"""Elsewhere an instruction that a target lacks ended the process inside LLVM ("Cannot select"), or was accepted where only newer GPUs have it.

Every row of the table is refused below its least compute capability by an error that names both; at the least one a probe is assembled
(tests/kdsl/intrinsics/test_probes.py).
"""

from __future__ import annotations

import pytest
from from_text import kernel_of

import kdsl
from kdsl.backend.nvptx.targets import TARGETS
from kdsl.testing.ptx import assemble

CALLS = {
    "cluster_rank": ("y[0] = f32(cluster_rank())", "9.0"),
    "stmatrix": ("stmatrix(s, (lane_index() % 8, 0), (u32(1),))", "9.0"),
    "fence_async_proxy": ("fence_async_proxy()", "9.0"),
    "wait_for_dependencies": ("wait_for_dependencies()", "9.0"),
    "bulk_store": ("bulk_store(y, 0, f, 0, 4)", "9.0"),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_one_below_the_least(name: str) -> None:
    call, least = CALLS[name]
    body = f"b = shared_barriers(1)\ns = shared_array((8, 8), f16)\nf = shared_array(32, f32)\nf[thread_idx.x] = 1.0\nsync_threads()\n{call}\ny[0] = f[0]"
    options = "grid=2, block=32" + (", cluster=2" if "cluster" in name else "") + (", programmatic=True" if "dependencies" in name else "")
    made = kernel_of("y: SliceMut[f32]", body, options)
    for target in ("sm_80", "sm_86", "sm_87", "sm_89"):
        with pytest.raises(kdsl.KernelError, match=rf"(?s){name}.*{least}|{least}.*") as caught:
            made.ptx(target)
        assert target in str(caught.value)
    assemble(made.ptx("sm_90"), "sm_90")


@pytest.mark.parametrize("target", list(TARGETS))
def test_no_target_ends_the_process(target: str) -> None:
    """What every target has, in one kernel: shuffles, votes, atomics of 16 bits, roots, narrow floats."""
    body = """
t = thread_idx.x
v = x[t]
h = f16(v) * f16(2) + f16(shuffle_xor(v, 1))
b = bf16(v) + bf16(1)
y[t] = sqrt(abs(v)) + f32(h) + f32(b) + f32(popcount(warp_ballot(v > 0))) + exp(v) + v % 3.0
atomic_add(y, 0, 1.0, order="acq_rel")
""".strip()
    ptx = kernel_of("x: Slice[f32], y: SliceMut[f32]", body).ptx(target)
    assert f".target {target}" in ptx
    assemble(ptx, target)
