"""In a checked build the check of a tile stood between `wgmma_fence()` and the product, so that ptxas 13.0 noted C7519, which is an error: kernels with
`.unchecked` operands had no checked build. The accumulators are fenced again behind the check."""

from __future__ import annotations

import kdsl
from kdsl import (
    SliceMut,
    bf16,
    f32,
    i32,
    kernel,
    local_array,
    shared_array,
    thread_index,
    unroll,
    wgmma,
    wgmma_commit,
    wgmma_fence,
    wgmma_wait,
)
from kdsl.ir import nodes


@kernel(grid=1, block=128)
def product(y: SliceMut[f32], stage: i32) -> None:
    tile = shared_array((4, 64, 64), bf16, swizzle=128)
    tile[0, 0, 0] = bf16(1.0)
    sums = local_array(32, f32)
    wgmma_fence()
    for k in unroll(0, 64, 16):
        wgmma(sums, tile.unchecked, (stage, 0, k), tile, (0, 0, k))
    wgmma_commit()
    wgmma_wait(0)
    for i in unroll(32):
        y[32 * thread_index() + i] = sums[i]


def test_a_fence_stands_behind_the_check() -> None:
    kdsl.checked()
    try:
        ir = product.ir()
        product.ptx("sm_90a")
    finally:
        kdsl.checked(False)
    seen = [
        op.name if isinstance(op, nodes.Instruction) else "check"
        for op in ir.body.ops
        if (isinstance(op, nodes.Instruction) and op.name.startswith("wgmma"))
        or (isinstance(op, nodes.Assertion) and "tile" in ir.sites[op.site].name)
    ]
    assert seen.count("check") == 4
    for place, what in enumerate(seen):
        if what == "check":
            assert seen[place + 1] == "wgmma_fence"
