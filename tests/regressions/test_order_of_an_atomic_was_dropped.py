"""Elsewhere the scope and the memory order of an atomic operation were lost on the way: LLVM 22 makes a plain `atom.add` of every `atomicrmw`.

Each is in PTX as it is written, for additions, exchanges, compare-and-swap, loads and stores, and so are fences. That what a release publishes is seen by
whoever acquires it is run as well. Every operation and type: tests/kdsl/intrinsics/test_atomic_ptx.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, kernel_of

from kdsl.testing.ptx import assemble, filecheck

SCOPES = {"block": "cta", "device": "gpu", "system": "sys"}


@pytest.mark.parametrize("scope", list(SCOPES))
@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel", "seq_cst"])
def test_scope_and_order_are_in_ptx(scope: str, order: str) -> None:
    body = "\n".join(
        f'{call}, scope="{scope}", order="{order}")' for call in ("atomic_add(y, 0, 1", "atomic_cas(y, 1, 2, 3", "atomic_exchange(y, 2, 4")
    )
    ptx = kernel_of("y: SliceMut[u32]", body, "grid=1, block=1").ptx("sm_90")
    plain, fence = ("acq_rel", f"CHECK: fence.sc.{SCOPES[scope]};") if order == "seq_cst" else (order, "")
    lines = [f"{fence}\nCHECK: atom.{plain}.{SCOPES[scope]}.global.{op}" for op in ("add.u32", "cas.b32", "exch.b32")]
    filecheck(ptx, "\n".join(lines))
    assemble(ptx, "sm_90")


@pytest.mark.parametrize("scope", list(SCOPES))
def test_loads_stores_and_fences(scope: str) -> None:
    body = (
        f'v = atomic_load(y, 0, scope="{scope}", order="acquire")\natomic_store(y, 1, v, scope="{scope}", order="release")\nfence_{scope}()'
    )
    ptx = kernel_of("y: SliceMut[u32]", body, "grid=1, block=1").ptx("sm_90")
    filecheck(
        ptx, f"CHECK: ld.acquire.{SCOPES[scope]}.global.b32\nCHECK: st.release.{SCOPES[scope]}.global.b32\nCHECK: {{{{fence|membar}}}}"
    )
    assemble(ptx, "sm_90")


@DEVICES
def test_the_last_block_sees_what_the_others_have_released(device: Any) -> None:
    body = """
partial = shared_array(1, u32)
total = block_sum(u32(1))
if is_first_thread():
    y[1 + block_idx.x] = total * u32(block_idx.x + 1)
    partial[0] = atomic_add(y, 0, 1, scope="device", order="acq_rel")
sync_threads()
if partial[0] == u32(grid_dim.x - 1) and is_first_thread():
    whole = u32(0)
    for i in range(grid_dim.x):
        whole += y[1 + i]
    y[1] = whole
""".strip()
    k = kernel_of("y: SliceMut[u32]", body, "grid=64, block=64")
    for _ in range(20):
        y = device.array(np.zeros(65, np.uint32))
        k(y)
        assert y.numpy()[1] == 64 * 64 * 65 // 2
