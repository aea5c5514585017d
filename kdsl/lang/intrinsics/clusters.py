"""Clusters: blocks that run at the same time and reach each other's shared memory."""

from __future__ import annotations

from typing import Any

from kdsl.lang.intrinsics.row import ToFrontend, ToInstruction, row

_ROW: dict[str, Any] = {"topic": "Clusters", "least_ptx": (7, 8), "least_capability": 90, "element": "f32", "example_options": "cluster=2"}

# fmt: off
cluster_rank = row("cluster_rank", "() -> i64", ToFrontend("cluster_rank"), "Number of the block in its cluster, x fastest.", targets=("gpu",), example="y[t] = v + f32(cluster_rank())", isa="%cluster_ctarank", **_ROW)
cluster_size = row("cluster_size", "() -> i64", ToFrontend("cluster_size"), "Number of blocks of a cluster, which the compiler knows.", example="y[t] = v + f32(cluster_size())", isa="%cluster_nctarank", **_ROW)
sync_cluster = row("sync_cluster", "() -> None", ToInstruction("sync_cluster"), "Wait for all threads of the cluster that have not returned; what they have written before is visible then. All blocks of the cluster come to it equally often.", targets=("gpu",), convergence="block", memory="orders", example="y[t] = v\nsync_cluster()\ny[t + 1] = w", isa="barrier.cluster", **_ROW)
remote = row("remote", "(array, rank: i64) -> array", ToInstruction("remote"), "The same shared array of block `rank` of the cluster: its elements are read and written as one's own, `remote(tile, 1)[i, j]`, and checked likewise.", targets=("gpu",), memory="reads and writes", example="tile = shared_array(32, f32)\ntile[t % 32] = v\nsync_cluster()\ny[t] = remote(tile, 1 - cluster_rank())[t % 32]\nremote(tile, t)[3] = w\nsync_cluster()", isa="mapa, ld, st", **_ROW)
# fmt: on
