"""Asynchronous matrix products of a warpgroup: four consecutive warps, 128 threads, the first of which has a number that is a multiple of four."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kdsl.lang.intrinsics.row import ToInstruction, ToSpecial, row


@dataclass(frozen=True)
class Product:
    """What one type of operands gives."""

    element: str
    """Element type of an operand in shared memory."""
    accumulator: str
    """Element type of the accumulators."""
    k: int
    """Depth of one product: always 32 bytes."""
    transposes: bool
    """Whether operands in shared memory may lie with k across the rows."""
    partners: tuple[str, ...]
    """Types of the other operand."""
    packs: bool = False
    """Whether there are also sums in f16, two per register."""


PRODUCTS: Final[dict[str, Product]] = {
    "bf16": Product("bf16", "f32", 16, True, ("bf16",)),
    "f16": Product("f16", "f32", 16, True, ("f16",), packs=True),
    "tf32": Product("f32", "f32", 8, False, ("tf32",)),
    "s8": Product("i8", "i32", 32, False, ("s8", "u8")),
    "u8": Product("u8", "i32", 32, False, ("s8", "u8")),
    "e4m3": Product("u8", "f32", 32, False, ("e4m3", "e5m2"), packs=True),
    "e5m2": Product("u8", "f32", 32, False, ("e4m3", "e5m2"), packs=True),
}
"""By PTX's name of the type of an operand."""
OF_ELEMENTS: Final = {"bf16": "bf16", "f16": "f16", "f32": "tf32", "i8": "s8", "u8": "u8"}
"""What an element type is multiplied as where a call does not say."""
MIXED: Final = {"s8.u8": ((8, 4), 90), "u8.s8": ((8, 4), 90)}
"""Operands that need a newer PTX: its least version, and the least compute capability."""
FRAGMENT: Final = 4
"""Registers of A for one product."""
IN_ARGUMENTS: Final = -1
"""An option of a product whose value only the kernel knows, which is then one of its arguments."""
ROWS: Final = 64
"""Rows of a product."""
MOST_COLUMNS: Final = 256
"""Columns of a product are a multiple of 8 up to this; of integers, above 32 a multiple of 16."""

_ROW: dict[str, Any] = {
    "topic": "Matrix products of a warpgroup", "targets": ("gpu",), "convergence": "warpgroup", "whole_warps": True, "least_ptx": (8, 0), "least_capability": 90,
    "only": ("sm_90a",), "assembled": True, "example_block": 128,
}  # fmt: skip
_TILES: Final = "a = shared_array((64, 64), bf16, swizzle=128)\nb = shared_array((8, 64), bf16, swizzle=128)\na[t % 64, 0] = v\nb[0, t % 64] = v\nc = local_array(4, f32)\nfence_async_proxy()\nsync_threads()\n"
_PRODUCT: Final = _TILES + "wgmma_fence()\nwgmma(c, a, (0, 16), b, (0, 16))\n"
_END: Final = "wgmma_commit()\nwgmma_wait(0)\ny[t] = bf16(c[0])\n"

# fmt: off
warp_group_index = row("warp_group_index", "() -> i64", ToSpecial("warp_group_index"), "Number of the warpgroup in its block: `warp_index() // 4`. The compiler knows that it is the same in the whole warpgroup.", isa="%tid, shfl.sync")
wgmma_fence = row("wgmma_fence", "() -> None", ToInstruction("wgmma_fence"), "Order accesses to accumulators and to fragments in registers before the products that follow: in front of the first product, and whenever other code has touched them.", memory="orders", element="u32", example="wgmma_fence()", isa="wgmma.fence", **_ROW)
wgmma = row("wgmma", '(accumulator, a, a_index, b, b_index, accumulate: bool = True, transpose_a: bool = False, transpose_b: bool = False, type = "") -> None', ToInstruction("wgmma"), "Start a matrix product: add (or with `accumulate=False` store) the 64 x N product of two tiles to the accumulators, a local array of N / 2 elements per thread (N / 4 of u32 are sums in f16, two in each). `type` says what the elements are where their type does not: `\"e4m3\"`, `\"e5m2\"`, or a pair for both operands.", memory="reads", element="bf16", example=_PRODUCT + _END, isa="wgmma.mma_async", variants=MIXED, **_ROW)
wgmma_commit = row("wgmma_commit", "() -> None", ToInstruction("wgmma_commit"), "Make a group of the products started since the last one.", memory="orders", element="bf16", example=_PRODUCT + _END, isa="wgmma.commit_group", **_ROW)
wgmma_wait = row("wgmma_wait", "(pending: int = 0) -> None", ToInstruction("wgmma_wait"), "Wait until at most `pending` of the newest groups are under way; accumulators of the others may be read, and their tiles written, then.", memory="orders", element="bf16", example=_PRODUCT + _END, isa="wgmma.wait_group", **_ROW)
# fmt: on
