"""Where a thread stands, arrays, marks for the compiler, and the barrier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kdsl.lang.intrinsics.row import ToBarrier, ToFrontend, ToInstruction, ToSpecial, row


@dataclass(frozen=True, eq=False)
class IndexTriple:
    """`thread_idx`, `block_idx`, `block_dim`, `grid_dim`: i64 values with the attributes x, y and z."""

    name: str
    """Name in the language."""

    @property
    def x(self) -> int:
        """Along the fastest dimension."""
        raise TypeError(f"{self.name} works only inside a function marked @kernel or @function")

    y = z = x


thread_idx: Final = IndexTriple("thread_idx")
block_idx: Final = IndexTriple("block_idx")
block_dim: Final = IndexTriple("block_dim")
grid_dim: Final = IndexTriple("grid_dim")

WARP_SIZE: Final = 32


_VOTE: dict[str, Any] = {"convergence": "block", "memory": "orders", "uniform": True, "element": "f32"}

# fmt: off
# Where the thread stands
thread_index = row("thread_index", "() -> i64", ToFrontend("thread_index"), "Number of the thread in the grid; a witness: unique to the thread.")
row_index = row("row_index", "() -> i64", ToFrontend("row_index"), "Number of the warp in the grid; under `if is_first_lane():` a witness.")
block_index = row("block_index", "() -> i64", ToFrontend("block_index"), "Number of the block in the grid; under `if is_first_thread():` a witness.")
tile_index = row("tile_index", "() -> tile", ToFrontend("tile_index"), "First row, first column and batch (`.row`, `.column`, `.batch`) of the block's tile; the grid is `tiles`.")
lane_index = row("lane_index", "() -> i64", ToSpecial("lane_index"), "Number of the thread in its warp, 0 to 31.")
warp_index = row("warp_index", "() -> i64", ToSpecial("warp_index"), "Number of the warp in its block.")
is_first_lane = row("is_first_lane", "() -> bool", ToFrontend("is_first_lane"), "Whether this is lane 0 of its warp.")
is_first_thread = row("is_first_thread", "() -> bool", ToFrontend("is_first_thread"), "Whether this is thread 0 of its block.")
# Arrays and loops
shared_array = row("shared_array", "(shape, dtype, align: int = 16, swizzle: int = 0) -> array", ToFrontend("shared_array"), "An array that the threads of a block share; its elements start undefined. It begins at a multiple of `align` bytes, a power of two up to 1024. With `swizzle` (32, 64 or 128) its rows, which are as many bytes long, lie in the swizzled layout of tensor maps and matrix products; that shows to them only.")
local_array = row("local_array", "(shape, dtype) -> array", ToFrontend("local_array"), "An array of the thread's own, whose elements start as 0 each time the call is executed; in registers where its indices are compile-time.")
as_vectors = row("as_vectors", "(array, type) -> array", ToFrontend("as_vectors"), "The same memory, its last dimension in vectors: `as_vectors(x, f32x4)`, or `as_vectors(x, 4)`.", example="a = as_vectors(x, 4)\nas_vectors(y, 4)[t] = a[t] + a[t + 1]", element="f32")
cached = row("cached", '(array, how: str = "normal", prefetch: int = 0) -> array', ToFrontend("cached"), 'The same array in device memory, whose elements are read and written with a hint for the caches, as in `cached(x, "streaming")[i]`: "streaming" (touched once), "level2" (kept in the level-2 cache only), "evict_first", "evict_last" or "no_allocate" in the level-1 cache. A read lets the level-2 cache fetch `prefetch` bytes (64, 128, 256) around it. Results and checks are those of plain accesses, and so are the accesses on the CPU.', least_ptx=(7, 4), least_capability=80, isa="ld, ld.global.nc, st", element="f32", example='cached(y, "streaming")[t] = cached(x, "evict_last", prefetch=128)[t + 2]\ncached(y, "no_allocate")[t + 8] = cached(y, "level2")[t + 1]')
unroll = row("unroll", "(start, stop, step)", ToFrontend("unroll"), "Like `range` with compile-time arguments; the body is repeated for every value, which is a constant in it.")
# Barrier
sync_threads = row("sync_threads", "() -> None", ToBarrier(), "Wait for all threads of the block that have not returned.", convergence="block", memory="orders", isa="bar{.cta}.sync")
sync_threads_count = row("sync_threads_count", "(predicate: bool) -> u32", ToInstruction("vote_of_block"), "Wait as by `sync_threads()`; for how many of the threads that wait it holds, in every thread.", isa="bar{.cta}.red", **_VOTE)
sync_threads_and = row("sync_threads_and", "(predicate: bool) -> bool", ToInstruction("vote_of_block"), "Wait as by `sync_threads()`; whether it holds for all of the threads that wait.", isa="bar{.cta}.red", **_VOTE)
sync_threads_or = row("sync_threads_or", "(predicate: bool) -> bool", ToInstruction("vote_of_block"), "Wait as by `sync_threads()`; whether it holds for some of the threads that wait.", isa="bar{.cta}.red", **_VOTE)
sync_warp = row("sync_warp", "() -> None", ToInstruction("sync_warp"), "Wait for all lanes of the warp that have not returned: what they have read and written before comes before what they do after.", convergence="warp", memory="orders", isa="bar.warp.sync", element="f32", example="s = shared_array(32, f32)\ns[t % 32] = v\nsync_warp()\ny[t] = s[(t + 1) % 32]")
# Compile time
static_assert = row("static_assert", "(condition: bool, message: str) -> None", ToFrontend("static_assert"), "An error with this message when the kernel is compiled, unless the condition is known to hold.")
# fmt: on
