"""Elsewhere code declared `llvm.lifetime.start` with two arguments, and a release of LLVM that wants one refused all of it.

LLVM is told nothing of lifetimes here. What is declared is known to the LLVM at hand, with the arguments that it has there or with older ones that LLVM
itself makes new (those of `llvm.masked.load` have changed, too); a name that LLVM does not know would be a call of something outside of the module.
The tests are to pass with every release of llvmlite that is allowed, the oldest and the newest.
"""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from from_text import DEVICES, kernel_of, result_of

from kdsl import f32
from kdsl.backend.cpu import HostCpu, compile_object
from kdsl.backend.llvm.module import ALLOWED
from kdsl.backend.nvptx import compile_ptx
from kdsl.testing.ptx import assemble

ARITHMETIC = """
i = thread_index()
if i in x:
    v = x[i]
    y[i] = sqrt(abs(v)) + floor(v) + ceil(v) + trunc(v) + rint(v) + min(v, x[0]) + max(v, x[0]) + fma(v, v, x[0])
    n = i32(v)
    y[i] += f32(i64(v) + u32(v) + i16(v) + u8(v) + popcount(n) + leading_zeros(n) + trailing_zeros(n) + reverse_bits(n))
    y[i] += f32(min(n, i32(i)) + max(n, i32(i)) + funnel_shift_left(u32(n), u32(i), u32(3)))
""".strip()
ARRAYS = """
s = shared_array(64, f32)
t = thread_idx.x
scratch = local_array(8, f32)
for k in range(8):
    scratch[k] = x[(t * 7 + k) % len(x)]
s[t] = scratch[t % 8]
sync_threads()
for k in range(t % 5):
    s[t] += scratch[(k + t) % 8]
sync_threads()
i = thread_index()
if i in x:
    y[i] = s[63 - t]
""".strip()
EXCHANGES = """
i = thread_index()
v = x[i]
n = u32(v)
y[i] = warp_sum(v) + shuffle(v, 3) + shuffle_up(v, 1) + shuffle_down(v, 1) + shuffle_xor(v, 1)
y[i] += f32(warp_sum(n) + warp_max(n) + warp_min(n) + warp_and(n) + warp_or(n) + warp_xor(n) + warp_max(i32(v)))
y[i] += f32(warp_ballot(v > 1) + warp_match_any(n)) + f32(warp_any(v > 1)) + f32(warp_all(v > 1)) + f32(warp_match_all(n))
y[i] += f32(sync_threads_count(v > 1)) + f32(sync_threads_and(v > 1)) + f32(sync_threads_or(v > 1))
""".strip()
PARAMETERS = "y: SliceMut[f32], x: Slice[f32]"
PROGRAMS = {
    name: (PARAMETERS, body, f"grid=2, block=64{more}")
    for name, body, more in (
        ("arithmetic", ARITHMETIC, ""),
        ("arrays", ARRAYS, ""),
        ("exchanges", EXCHANGES, ""),
        ("clusters", "sync_cluster()\ny[thread_index()] = f32(cluster_rank())", ", cluster=2"),
        (
            "dependent launches",
            "wait_for_dependencies()\ny[thread_index()] = x[thread_index()]\nlaunch_dependents()",
            ", programmatic=True",
        ),
    )
}
TOGETHER = re.compile(r"llvm\.nvvm\.(barrier|shfl|vote|match|redux)\.")
"""What no thread may be moved past others to."""


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What modules declare, with the attributes that LLVM gives it."""
    found: dict[str, str] = {}
    parse = llvm.parse_assembly

    def noting(text: str, *more: Any) -> Any:
        parsed = parse(text, *more)
        names = set(re.findall(r'^declare .*?@"?([\w.]+)"?\(', text, re.MULTILINE))
        assert names == {f.name for f in parsed.functions if f.is_declaration}  # LLVM has put nothing else in their place
        found.update({f.name: " ".join(map(str, f.attributes)) for f in parsed.functions if f.is_declaration})
        return parsed

    monkeypatch.setattr(llvm, "parse_assembly", noting)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", ["sm_90a", "sm_120", "cpu"])
def test_llvm_knows_what_is_declared(declared: dict[str, str], name: str, target: str) -> None:
    kernel = kernel_of(*PROGRAMS[name]).ir()
    if target != "cpu":
        for level in (0, 3):
            assemble(compile_ptx(kernel, target, optimise=level), target)
    elif name in ("arithmetic", "arrays", "exchanges"):
        assert compile_object(kernel, HostCpu.detect()).bytes
    else:
        pytest.skip("GPU only")
    assert declared
    for intrinsic, attributes in declared.items():
        assert "nounwind" in attributes, intrinsic  # which kdsl gives to none: LLVM has it in its table
        assert "convergent" in attributes or not TOGETHER.match(intrinsic), intrinsic


def test_lifetimes_are_not_declared() -> None:
    for name in ("llvm.lifetime.start.p0", "llvm.lifetime.end.p0i8", "llvm.invariant.start.p0", "llvm.memcpy.p0.p0.i64"):
        assert not ALLOWED.fullmatch(name)


@DEVICES
def test_masked_accesses(device: Any) -> None:
    """The end of an array within a group of lanes, where loads and stores have masks and alignments."""
    x = np.arange(77, dtype=np.float32)
    y = result_of(device, kernel_of(*PROGRAMS["arrays"]), 77, f32, x)
    scratch = x[(np.arange(64)[:, None] * 7 + np.arange(8)) % 77]
    t = np.arange(64)
    s = scratch[t, t % 8].copy()
    for k in range(4):
        s = np.where(k < t % 5, s + scratch[t, (k + t) % 8], s)
    np.testing.assert_array_equal(y, np.concatenate([s[::-1], s[::-1]])[:77])
