"""Running compiled kernels on the CPU: blocks one after the other on the calling thread, or shared among the threads of the pool.

Whether to share is decided by what a block has cost before, since waking threads costs some ten microseconds. Leaves out compilation
(`kdsl.backend.cpu`) and the threads themselves (`pool.py`).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Final, Protocol

from kdsl.runtime.order import shuffle_seed, shuffled_order
from kdsl.runtime.pool import Job, KernelJob, pool, threads
from kdsl.runtime.scratch import scratch as scratch_of_thread


class CpuCode(Protocol):
    """Compiled code of one kernel; it stays loaded as long as the object lives."""

    @property
    def address(self) -> int:
        """Of `void entry(void* arguments, int64 first_block, int64 end_block, void* scratch)`."""

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory that one running thread needs."""


_Entry: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)  # releases the interpreter's lock

ALONE_NS: Final = 200_000
"""Launches that should take less than this run on the calling thread."""
RANGE_NS: Final = 10_000
"""What is handed to a thread should not take less than this: threads then end together, and handing out costs little."""
PROBE: Final = 8
"""Of a launch that should be short, one block in `PROBE` runs first, to see whether that is still true."""


@dataclass(frozen=True)
class CpuLaunch:
    """A launch with its packed arguments, to be run any number of times."""

    function: CpuFunction
    """The kernel."""
    blocks: int
    """Number of blocks."""
    arguments: int
    """Address of the packed arguments."""
    owner: object
    """What keeps them."""
    scratch: int = 0
    """Bytes of scratch memory, if it needs more than the kernel says."""

    def run(self) -> None:
        """Run all blocks; they have run when it returns."""
        if self.blocks:
            self.function.run(self.arguments, self.blocks, self.scratch)

    fire = run

    def recover(self, status: int) -> None:
        """Never called: there is no status."""


class CpuFunction:
    """A compiled kernel with what its blocks have cost so far."""

    def __init__(self, code: CpuCode) -> None:
        self._code = code
        self._entry = _Entry(code.address)
        self._scratch_bytes = code.scratch_bytes
        self._block_ns: float | None = None
        """Estimate of one block's time, half of it from the last launch; None before the first one."""

    def run(self, arguments: int, blocks: int, scratch: int = 0) -> None:
        """Run the blocks 0 to `blocks` - 1 with the packed arguments at that address, and at least `scratch` bytes of scratch memory for each running thread;
        they have run when it returns."""
        if scratch < self._scratch_bytes:
            scratch = self._scratch_bytes
        workers = threads()
        if shuffle_seed() is not None:
            self._run_shuffled(arguments, blocks, workers, scratch)
            return
        block_ns = self._block_ns
        if workers == 1 or blocks == 1:  # nobody has to know how long it takes
            self._call(arguments, 0, blocks, scratch)
            return
        first = 0
        if block_ns is None:
            first = 1
        elif blocks * block_ns < ALONE_NS / PROBE:  # even if the estimate is far too low, little is lost
            pass
        elif blocks * block_ns < ALONE_NS:
            first = -(-blocks // PROBE)
        if first:
            block_ns = self._timed(arguments, 0, first, scratch)
        if block_ns is not None and (blocks - first) * block_ns >= ALONE_NS:
            self._share(arguments, first, blocks, workers, block_ns, scratch)
            return
        self._timed(arguments, first, blocks, scratch)

    def _call(self, arguments: int, first: int, end: int, scratch: int) -> None:
        own = scratch_of_thread
        self._entry(arguments, first, end, own.address if own.size >= scratch else own.reserve(scratch))

    def _run_shuffled(self, arguments: int, blocks: int, workers: int, scratch: int) -> None:
        """Run single blocks in a pseudo-random order, on all threads from the first launch on."""
        order = shuffled_order(blocks)

        def run(number: int) -> None:
            block = int(order[number])
            self._call(arguments, block, block + 1, scratch)

        pool().run(Job(run, blocks), min(workers, blocks) - 1)

    def _timed(self, arguments: int, first: int, end: int, scratch: int) -> float:
        start = perf_counter_ns()
        self._call(arguments, first, end, scratch)
        return self._learn((perf_counter_ns() - start) / max(end - first, 1))

    def _learn(self, block_ns: float) -> float:
        known = self._block_ns
        self._block_ns = block_ns if known is None else 0.5 * (known + block_ns)
        return self._block_ns

    def _share(self, arguments: int, first: int, end: int, workers: int, block_ns: float, scratch: int) -> None:
        blocks = end - first
        workers = min(workers, blocks)
        least = min(int(RANGE_NS / max(block_ns, 1.0)) + 1, -(-blocks // workers))
        helpers = pool()
        job = KernelJob(helpers.slots, self._code.address, arguments, range(first, end), scratch, threads=workers, least=least)
        helpers.run(job, workers - 1)
        if job.own_blocks:
            self._learn(job.own_ns / job.own_blocks)
