"""Elsewhere the descriptor of a tensor map was passed by a pointer, or copied to local memory first, where the copy engine does not find it.

It is a parameter of the entry, 128 bytes at a multiple of 64, and the engine gets its address in the space of parameters.
"""

from __future__ import annotations

import re

from from_text import kernel_of

from kdsl.testing.ptx import assemble

BODY = """
tile = shared_array((8, 32), f32)
full = shared_barriers(1)
if is_first_thread():
    barrier_init(full, 0, 1)
    fence_barrier_init()
    barrier_arrive_expect(full, 0, tile.nbytes)
    tma_load(tile, (), a, (n, 0), full, 0)
    barrier_wait(full, 0, 0)
    tma_store(b, (n, 0), tile, ())
    commit_stores()
    wait_stores()
""".strip()


def test_it_is_a_parameter() -> None:
    ptx = kernel_of("a: TensorMap[f32, D2], b: TensorMap[f32, D2], n: i32", BODY).ptx("sm_90")
    assert len(re.findall(r"\.param \.align 64 \.b8 \w+\[128\]", ptx)) == 2
    assert ".local" not in ptx
    assert not re.search(r"ld\.param\.\S+\s+\S+, \[tested_param_[01]\]", ptx), "nobody reads the descriptor but the engine"
    assemble(ptx, "sm_90")
