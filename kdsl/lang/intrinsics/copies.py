"""Copies from device memory to shared memory that run beside other work, and a hint of what is read soon."""

from __future__ import annotations

from typing import Any, Final

from kdsl.lang.intrinsics.row import ToInstruction, row

_COPIES: Final[dict[str, Any]] = {"topic": "Asynchronous copies", "element": "f32", "least_ptx": (7, 0), "least_capability": 80}
_TILE: Final = "s = shared_array((32, 4), f32)\n"

# fmt: off
copy_async = row("copy_async", "(array, index, source, source_index, count: int, valid: i64 = count) -> None", ToInstruction("copy_async"), "Begin to copy `count` neighbouring elements of a view, 4, 8 or 16 bytes, to a shared array. Elements from `valid` on are not read and become 0.", memory="reads and writes", isa="cp.async", example=_TILE + "copy_async(s, (t, 0), x, 4 * t, 4)", **_COPIES)
commit_copies = row("commit_copies", "() -> None", ToInstruction("commit_copies"), "Make a group of the copies that the thread has begun and not yet put into one; the group may be empty.", memory="orders", isa="cp.async.commit_group", example=_TILE + "copy_async(s, (t, 0), x, 4 * t, 2)\ncommit_copies()", **_COPIES)
wait_copies = row("wait_copies", "(newest: int) -> None", ToInstruction("wait_copies"), "Wait until all groups of the thread but the `newest` ones are done; what they copied is then visible to the thread, and behind a barrier to the block.", memory="orders", isa="cp.async.wait_group", example=_TILE + "copy_async(s, (t, 0), x, 4 * t, 1)\ncommit_copies()\nwait_copies(0)\ny[t] = s[t, 0]", **_COPIES)
wait_all_copies = row("wait_all_copies", "() -> None", ToInstruction("wait_all_copies"), "Wait until all copies that the thread has begun are done.", memory="orders", isa="cp.async.wait_all", example=_TILE + "copy_async(s, (t, 0), x, 4 * t, 4, valid=3)\nwait_all_copies()\ny[t] = s[t, 3]", **_COPIES)
prefetch = row("prefetch", "(source, index) -> None", ToInstruction("prefetch"), "Say that this element of a view is read soon: its cache line is brought into the level-2 cache. Nothing is read; an index outside the array is left out.", isa="prefetch", topic=_COPIES["topic"], element="f32", example="prefetch(x, t + 1024)")
# fmt: on
