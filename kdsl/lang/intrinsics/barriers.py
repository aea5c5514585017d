"""Barriers in shared memory (PTX's mbarrier), named barriers of some of the threads, and the fences that go with them.

A barrier in shared memory counts, phase by phase: a phase ends when as many threads have arrived as `barrier_init` said, and all the bytes that arrivals
announced have come. Phases are waited for by their parity: the first has 0, the next 1, then 0 again.
"""

from __future__ import annotations

from typing import Any, Final

from kdsl.lang.intrinsics.row import ToFrontend, ToInstruction, row

WAIT: Final = 10_000_000_000
"""Nanoseconds after which a wait that has no limit of its own is given up in checked builds."""

_TOPIC: Final = "Barriers in shared memory"
_AMPERE: dict[str, Any] = {"topic": _TOPIC, "targets": ("gpu",), "least_ptx": (7, 1), "least_capability": 80, "element": "u32"}
_HOPPER: dict[str, Any] = {"topic": _TOPIC, "targets": ("gpu",), "least_ptx": (8, 0), "least_capability": 90, "element": "u32"}
_NAMED: dict[str, Any] = {
    "topic": "Named barriers",
    "targets": ("gpu",),
    "convergence": "warp",
    "memory": "orders",
    "element": "u32",
    "example_block": 64,
}
_TWO: Final = "full = shared_barriers(2)\n"


# fmt: off
shared_barriers = row("shared_barriers", "(count: int) -> barriers", ToFrontend("shared_barriers"), "So many barriers in shared memory, which `barrier_init` has to set up before they are used.", topic=_TOPIC, element="u32", example="full = shared_barriers(2)\ny[t] = v", isa="mbarrier")
barrier_init = row("barrier_init", "(barriers, index: i64, count: u32) -> None", ToInstruction("barrier_init"), "Set up a barrier whose phases end with the arrival of `count` threads; by one thread, before any other use and behind it `fence_barrier_init()` and a barrier of the block (or cluster).", memory="writes", isa="mbarrier.init", example=_TWO + "barrier_init(full, 1, 32)", **_AMPERE)
barrier_arrive = row("barrier_arrive", "(barriers, index: i64) -> None", ToInstruction("barrier_arrive"), "Arrive; what the thread has written before is visible to whoever waits for the phase.", memory="orders", isa="mbarrier.arrive", example=_TWO + "barrier_arrive(full, t % 2)", **_AMPERE)
barrier_arrive_expect = row("barrier_arrive_expect", "(barriers, index: i64, bytes: u32) -> None", ToInstruction("barrier_arrive_expect"), "Arrive, and let the phase wait for so many bytes of copies. It must be what the copies bring, no more and no less.", memory="orders", isa="mbarrier.arrive.expect_tx", example=_TWO + "barrier_arrive_expect(full, 0, 128)", **_HOPPER)
barrier_arrive_copies = row("barrier_arrive_copies", "(barriers, index: i64, noinc: bool = False) -> None", ToInstruction("barrier_arrive_copies"), "Arrive as soon as all copies that the thread has begun with `copy_async` are done, without waiting for them. The arrival is one more than `barrier_init` said; with `noinc=True` it is one of those.", memory="orders", isa="cp.async.mbarrier.arrive", example=_TWO + "barrier_arrive_copies(full, t % 2)\nbarrier_arrive_copies(full, 0, noinc=True)", **_AMPERE)
barrier_invalidate = row("barrier_invalidate", "(barriers, index: i64) -> None", ToInstruction("barrier_arrive"), "Let a barrier be one no more; by one thread, when nobody uses it. `barrier_init` may set it up anew, with another count.", memory="writes", isa="mbarrier.inval", example=_TWO + "barrier_invalidate(full, 1)", **_AMPERE)
barrier_arrive_remote = row("barrier_arrive_remote", "(barriers, index: i64, block: u32) -> None", ToInstruction("barrier_arrive_remote"), "Arrive at the same barrier of block `block` of the cluster.", memory="orders", isa="mapa, mbarrier.arrive", example=_TWO + "barrier_arrive_remote(full, 1, v)", **_HOPPER)
barrier_complete = row("barrier_complete", "(barriers, index: i64, bytes: u32) -> None", ToInstruction("barrier_complete"), "Count so many announced bytes as come, for a copy that is left out.", memory="orders", isa="mbarrier.complete_tx", example=_TWO + "barrier_complete(full, 0, 128)", **_HOPPER)
barrier_wait = row("barrier_wait", "(barriers, index: i64, parity, timeout: int = 0) -> None", ToInstruction("barrier_wait"), "Wait for the end of the phase of that parity; what arriving threads and copies have written is visible then. With a `timeout` in nanoseconds the wait is given up after it, reported as a failed check, and the thread goes on.", memory="orders", isa="mbarrier.try_wait", example=_TWO + "barrier_wait(full, 1, 0)\nbarrier_wait(full, 0, 1, timeout=1000)", **_HOPPER)
barrier_test = row("barrier_test", "(barriers, index: i64, parity) -> bool", ToInstruction("barrier_test"), "Whether the phase of that parity has ended, without waiting; if so, what was written before is visible.", memory="orders", isa="mbarrier.test_wait", example=_TWO + "y[t] = u32(barrier_test(full, t % 2, v))", **_AMPERE)
fence_barrier_init = row("fence_barrier_init", "() -> None", ToInstruction("fence"), "Make barriers that were set up visible to copies and to the other blocks of the cluster; by the thread that set them up.", memory="orders", isa="fence.mbarrier_init", example="fence_barrier_init()", **_HOPPER)
fence_async_proxy = row("fence_async_proxy", '(space: str = "shared") -> None', ToInstruction("fence_async_proxy"), 'Order plain accesses of the thread before asynchronous ones (copies, `wgmma`), in "shared" or "global" memory or in "all": between writing a shared array and a copy out of it, say.', memory="orders", isa="fence.proxy.async", example="fence_async_proxy()", **_HOPPER)
elect_one = row("elect_one", "() -> bool", ToInstruction("elect_one"), "True in one lane of the warp.", convergence="warp", isa="elect.sync", example="if elect_one():\n    y[0] = v", **_HOPPER)
# Named barriers
barrier_sync = row("barrier_sync", "(number: i64, count: int) -> None", ToInstruction("barrier_sync"), "Wait at named barrier `number`, 1 to 15, until `count` threads of the block have come to it by this or by `barrier_arrive_named`: whole warps, so a multiple of 32.", example="barrier_sync(1, 64)", isa="bar.sync", **_NAMED)
barrier_arrive_named = row("barrier_arrive_named", "(number: i64, count: int) -> None", ToInstruction("barrier_sync"), "Come to a named barrier without waiting for the others.", example="barrier_arrive_named(1, 64)\nbarrier_sync(2 + warp_index() % 2, 32)", isa="bar.arrive", **_NAMED)
# fmt: on
