"""Asynchronous copies between device memory and shared memory by the copy engine: by tensor maps (TMA), and of plain runs of bytes.

A copy is started by one thread. One into shared memory ends by completing its bytes at a barrier; those out of it are waited for in groups.
"""

from __future__ import annotations

from typing import Any, Final

from kdsl.lang.intrinsics.row import ToInstruction, row

EVICT: Final[dict[str, int | None]] = {"": None, "normal": 0x1000000000000000, "first": 0x12F0000000000000, "last": 0x14F0000000000000}
"""What the level-2 cache shall do with the lines of a copy, each with its policy: what `createpolicy.fractional` makes of a fraction of 1."""
_WORDS: Final = ("i32", "u32", "i64", "u64")
REDUCTIONS: Final[dict[str, tuple[str, ...]]] = {
    "add": ("i32", "u32", "u64", "f16", "bf16", "f32"), "min": (*_WORDS, "f16", "bf16"), "max": (*_WORDS, "f16", "bf16"),
    "and": _WORDS, "or": _WORDS, "xor": _WORDS,
}  # fmt: skip
"""What `tma_reduce` can do, and of which element types."""

_ROW: dict[str, Any] = {
    "topic": "Copies by the copy engine", "targets": ("gpu",), "least_ptx": (8, 0), "least_capability": 90, "element": "f32",
    "example_parameters": "m: TensorMap[f32, D2]",
}  # fmt: skip
_LOAD: Final = "a = shared_array((2, 8, 32), f32)\nfull = shared_barriers(1)\n"
_STORE: Final = "a = shared_array((8, 32), f32)\na[0, t] = v\n"

# fmt: off
tma_load = row("tma_load", '(array, index, map, coordinates, barriers, i: i64, evict: str = "") -> None', ToInstruction("tma_load"), "Copy the box of `map` that begins at `coordinates` into the shared array, or the part of it that the leading indices `index` name, and complete its bytes at barrier `i`. What lies outside of the mapped array becomes 0.", memory="writes", isa="cp.async.bulk.tensor", example=_LOAD + 'tma_load(a, 1, m, (0, t), full, 0)\ntma_load(a, t % 2, m, (8, 32), full, 0, evict="last")', **_ROW)
tma_load_multicast = row("tma_load_multicast", '(array, index, map, coordinates, barriers, i: i64, blocks: u16, evict: str = "") -> None', ToInstruction("tma_load"), "The same into the same places of all blocks of the cluster whose bits are set in `blocks`, completing the bytes of each at its own barrier.", memory="writes", isa="cp.async.bulk.tensor", example=_LOAD + "tma_load_multicast(a, 1, m, (0, t), full, 0, 3)", **(_ROW | {"only": ("sm_90a", "sm_100a")}))
tma_store = row("tma_store", '(map, coordinates, array, index, evict: str = "") -> None', ToInstruction("tma_store"), "Copy a shared array, or the part of it that the leading indices name, to the box of `map` that begins at `coordinates`. What lies outside of the mapped array is left out.", memory="writes", isa="cp.async.bulk.tensor", example=_STORE + 'tma_store(m, (0, t), a, ())\ntma_store(m, (0, 0), a, (), evict="first")', **_ROW)
tma_reduce = row("tma_reduce", '(map, coordinates, array, index, op: str = "add") -> None', ToInstruction("tma_reduce"), 'The same, combining with what is there: "add" of i32, u32, u64, f16, bf16 and f32, "min" and "max" of integers of 32 and 64 bits, f16 and bf16, "and", "or" and "xor" of such integers. Floats are added in the order of arrival.', memory="reads and writes", isa="cp.reduce.async.bulk.tensor", example=_STORE + "tma_reduce(m, (0, 0), a, ())", **_ROW)
tma_prefetch = row("tma_prefetch", "(map, coordinates) -> None", ToInstruction("tma_prefetch"), "Bring a box of `map` into the level-2 cache.", isa="cp.async.bulk.prefetch.tensor", example="tma_prefetch(m, (0, t))", **_ROW)
prefetch_map = row("prefetch_map", "(map) -> None", ToInstruction("prefetch_map"), "Bring the descriptor of `map` into the cache, ahead of its first copy.", isa="prefetch.tensormap", example="prefetch_map(m)", **_ROW)
bulk_load = row("bulk_load", '(array, index, view, start: i64, count: i64, barriers, i: i64) -> None', ToInstruction("bulk_load"), "Copy elements `start` to `start + count` of a view of one dimension into the shared array from element `index` on, and complete their bytes at barrier `i`. Both places and the bytes are multiples of 16.", memory="writes", isa="cp.async.bulk", example=_LOAD + "bulk_load(a, (1, 0, 0), x, 4 * t, 64, full, 0)", **_ROW)
bulk_store = row("bulk_store", "(view, start: i64, array, index, count: i64) -> None", ToInstruction("bulk_store"), "Copy `count` elements of the shared array from element `index` on to a view of one dimension from element `start` on.", memory="writes", isa="cp.async.bulk", example=_STORE + "bulk_store(y, 0, a, (0, 0), 256)", **_ROW)
commit_stores = row("commit_stores", "() -> None", ToInstruction("commit_stores"), "Make a group of the copies out of shared memory that the thread has started since the last one.", memory="orders", isa="cp.async.bulk.commit_group", example="commit_stores()", **_ROW)
wait_stores = row("wait_stores", "(pending: int = 0, read: bool = True) -> None", ToInstruction("wait_stores"), "Wait until at most `pending` of the thread's newest groups are under way: have yet to read shared memory, or with `read=False` to be written. The block may not end before all have been read.", memory="orders", isa="cp.async.bulk.wait_group", example="wait_stores()\nwait_stores(2, read=False)", **_ROW)
# fmt: on
