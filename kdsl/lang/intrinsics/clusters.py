"""Clusters: blocks that run at the same time and reach each other's shared memory."""

from __future__ import annotations

from typing import Any, Final

from kdsl.lang.intrinsics.row import ToFrontend, ToInstruction, row

STORED_BYTES: Final = (4, 8, 16)
"""What `store_async` moves at a time."""
_BITS: Final = {"i32": "b32", "u32": "b32"}
_ORDERED: Final = {"i32": "s32", "u32": "u32"}
ASYNC_REDUCTIONS: Final[dict[str, dict[str, str]]] = {
    "add": {**_ORDERED, "i64": "u64", "u64": "u64"}, "min": _ORDERED, "max": _ORDERED, "and": _BITS, "or": _BITS, "xor": _BITS,
}  # fmt: skip
"""What `reduce_async` can do, and of which element types, each with the type that PTX gives it."""
ASYNCHRONOUS: Final = ("store_async", "reduce_async")
"""The rows that write to another block's array and have its barrier count that. Elements of theirs: the barrier, and the place if it is written."""

_ROW: dict[str, Any] = {"topic": "Clusters", "least_ptx": (7, 8), "least_capability": 90, "element": "f32", "example_options": "cluster=2"}
_ASYNC: dict[str, Any] = _ROW | {"least_ptx": (8, 1), "targets": ("gpu",)}
_FILLED: Final = "full = shared_barriers(1)\ntile = shared_array(32, f32)\ntile[t % 32] = v\nsync_cluster()\n"
_COUNTED: Final = "full = shared_barriers(1)\ntile = shared_array(32, u32)\ntile[t % 32] = 0\nsync_cluster()\n"

# fmt: off
cluster_rank = row("cluster_rank", "() -> i64", ToFrontend("cluster_rank"), "Number of the block in its cluster, x fastest.", targets=("gpu",), example="y[t] = v + f32(cluster_rank())", isa="%cluster_ctarank", **_ROW)
cluster_size = row("cluster_size", "() -> i64", ToFrontend("cluster_size"), "Number of blocks of a cluster, which the compiler knows.", example="y[t] = v + f32(cluster_size())", isa="%cluster_nctarank", **_ROW)
sync_cluster = row("sync_cluster", "() -> None", ToInstruction("sync_cluster"), "Wait for all threads of the cluster that have not returned; what they have written before is visible then. All blocks of the cluster come to it equally often.", targets=("gpu",), convergence="block", memory="orders", example="y[t] = v\nsync_cluster()\ny[t + 1] = w", isa="barrier.cluster", **_ROW)
remote = row("remote", "(array, rank: i64) -> array", ToInstruction("remote"), "The same shared array of block `rank` of the cluster: its elements are read and written as one's own, `remote(tile, 1)[i, j]`, and checked likewise.", targets=("gpu",), memory="reads and writes", example="tile = shared_array(32, f32)\ntile[t % 32] = v\nsync_cluster()\ny[t] = remote(tile, 1 - cluster_rank())[t % 32]\nremote(tile, t)[3] = w\nsync_cluster()", isa="mapa, ld, st", **_ROW)
store_async = row("store_async", "(array, index, value, barriers, i: i64) -> None", ToInstruction("store_async"), "Store a number or a vector of 4, 8 or 16 bytes to an element of another block's array, `remote(tile, rank)`, and complete its bytes at barrier `i` of that block. Nobody waits for it here; there whoever waits for the phase sees it.", memory="writes", isa="st.async", example=_FILLED + "store_async(remote(tile, 1 - cluster_rank()), t % 32, v, full, 0)\nstore_async(as_vectors(remote(tile, 1), 4), t % 8, f32x4(v), full, 0)\nsync_cluster()", **_ASYNC)
reduce_async = row("reduce_async", '(array, index, value, barriers, i: i64, op: str = "add") -> None', ToInstruction("store_async"), 'The same, combining with what is there as one indivisible operation: "add" of integers of 32 and 64 bits, "min" and "max" of i32 and u32, "and", "or" and "xor" of 32 bits.', memory="reads and writes", isa="red.async", example=_COUNTED + 'reduce_async(remote(tile, 1 - cluster_rank()), t % 32, u32(t), full, 0)\nreduce_async(remote(tile, 1), 3, 7, full, 0, op="xor")\nsync_cluster()', **_ASYNC)
# fmt: on
