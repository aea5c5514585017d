"""Barriers in shared memory, named barriers, fences between proxies (PTX ISA, "Parallel Synchronization and Communication Instructions").

Arrivals release and waits acquire, among the threads of the block, as the instructions do that name nothing else. Waits for stores of other blocks acquire
from the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.nvptx import assembly

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I1: Final = ir.IntType(1)
_I64: Final = ir.IntType(64)
_NOTHING: Final = ()
_PROXY: Final = {"shared": ".shared::cta", "global": ".global", "all": ""}


def _on_barrier(text: str) -> Callable[[Emission], Sequence[Any]]:
    """An instruction whose first operand is the address of a barrier."""

    def emit(e: Emission) -> Sequence[Any]:
        assembly.statement(e.builder, text, assembly.shared_address(e.builder, e.addresses[0]), *e.arguments)
        return _NOTHING

    return emit


def _arrive_copies(e: Emission) -> Sequence[Any]:
    noinc = ".noinc" if e.op.options["noinc"] else ""
    return _on_barrier(f"cp.async.mbarrier.arrive{noinc}.shared.b64 [$0];")(e)


def _wait(e: Emission) -> Sequence[Any]:
    """Asks again and again: the hardware suspends the thread for a while each time. With a timeout, whether it was in time."""
    b = e.builder
    address, parity = assembly.shared_address(b, e.addresses[0]), e.arguments[0]
    timeout = int(e.op.options["timeout"])  # type: ignore[arg-type]  # an int, as the frontend has it
    ask, done = b.append_basic_block("barrier.ask"), b.append_basic_block("barrier.done")
    began = assembly.value(b, "mov.u64 $0, %globaltimer;", _I64) if timeout else None
    b.branch(ask)
    b.position_at_end(ask)
    passed = assembly.holds(b, f"mbarrier.try_wait.parity{_acquire(e)}.shared::cta.b64 p, [$1], $2;", address, parity)
    if began is None:
        b.cbranch(passed, done, ask)
        b.position_at_end(done)
        return _NOTHING
    late = b.append_basic_block("barrier.late")
    b.cbranch(passed, done, late)
    b.position_at_end(late)
    waited = b.sub(assembly.value(b, "mov.u64 $0, %globaltimer;", _I64), began)
    b.cbranch(b.icmp_unsigned(">", waited, _I64(timeout)), done, ask)
    b.position_at_end(done)
    in_time = b.phi(_I1)
    in_time.add_incoming(_I1(1), ask)
    in_time.add_incoming(_I1(0), late)
    return (in_time,)


def _test(e: Emission) -> Sequence[Any]:
    address = assembly.shared_address(e.builder, e.addresses[0])
    return (assembly.holds(e.builder, f"mbarrier.test_wait.parity{_acquire(e)}.shared.b64 p, [$1], $2;", address, e.arguments[0]),)


def _acquire(e: Emission) -> str:
    return ".acquire.cluster" if e.op.elements[0].memory in e.entry.filled_from_cluster else ""


def _fence_barrier_init(e: Emission) -> Sequence[Any]:
    assembly.statement(e.builder, "fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;")
    return _NOTHING


def _fence_async_proxy(e: Emission) -> Sequence[Any]:
    assembly.statement(e.builder, f"fence.proxy.async{_PROXY[str(e.op.options['space'])]};")
    return _NOTHING


def _elect_one(e: Emission) -> Sequence[Any]:
    return (assembly.holds(e.builder, "elect.sync _|p, 0xffffffff;", convergent=True),)


def _named(instruction: str) -> Callable[[Emission], Sequence[Any]]:
    def emit(e: Emission) -> Sequence[Any]:
        count, number = e.op.options["count"], e.op.options.get("number")
        if number is None:
            assembly.statement(e.builder, f"{instruction} $0, {count};", e.arguments[0], convergent=True)
        else:
            assembly.statement(e.builder, f"{instruction} {number}, {count};", convergent=True)
        return _NOTHING

    return emit


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {
    "barrier_init": _on_barrier("mbarrier.init.shared.b64 [$0], $1;"),
    "barrier_arrive": _on_barrier("mbarrier.arrive.shared.b64 _, [$0];"),
    "barrier_arrive_copies": _arrive_copies,
    "barrier_invalidate": _on_barrier("mbarrier.inval.shared.b64 [$0];"),
    "barrier_arrive_expect": _on_barrier("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"),
    # With a scope of the cluster written out, a fence of the whole device would come before it
    "barrier_arrive_remote": _on_barrier(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; mbarrier.arrive.shared::cluster.b64 _, [there]; }"
    ),
    "barrier_complete": _on_barrier("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [$0], $1;"),
    "barrier_wait": _wait,
    "barrier_test": _test,
    "fence_barrier_init": _fence_barrier_init,
    "fence_async_proxy": _fence_async_proxy,
    "elect_one": _elect_one,
    "barrier_sync": _named("bar.sync"),
    "barrier_arrive_named": _named("bar.arrive"),
}
"""By the name of the row."""
