"""The threads that run a kernel's blocks on the CPU: a job is split into ranges of blocks that whoever is free takes next.

The calling thread always takes part, so that a job finishes whatever the workers do. Leaves out how machine code hands out the blocks of a kernel
(`native_pool.py`), and whether a launch is worth splitting (`cpu.py`).
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import queue
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from kdsl.errors import DeviceError
from kdsl.runtime.native_pool import Blocks, Slots, native_pool
from kdsl.runtime.scratch import scratch


def _from_environment() -> int:
    text = os.environ.get("KDSL_THREADS", "")
    if not text:
        return available_cores()
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise DeviceError(f"KDSL_THREADS is a number of threads of at least 1, not {text!r}")
    return int(text)


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_chosen: int | None = None


def threads() -> int:
    """How many threads a kernel runs on: set by `set_threads`, else by KDSL_THREADS, else the cores that the process may use."""
    global _chosen
    if _chosen is None:
        _chosen = _from_environment()
    return _chosen


def set_threads(count: int) -> None:
    """Let kernels on the CPU run on `count` threads (at least 1), the calling one included."""
    global _chosen
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"the number of threads is an int of at least 1, not {count!r}")
    _chosen = count


class Job:
    """Ranges to be run by the calling thread and by any worker that comes along."""

    def __init__(self, run: Callable[[int], None], ranges: int) -> None:
        """`run(i)` runs range i, for 0 <= i < `ranges`."""
        self._run = run
        self._ranges = ranges
        self._next = itertools.count()  # taking a number is one step of the interpreter: no two threads get the same
        self._stopped = False
        self._closed = False
        self._lock = threading.Lock()
        self._helpers = 0
        self._idle: threading.Event | None = None  # what the owner waits for, if it has to
        self._error: BaseException | None = None

    def _take_ranges(self) -> None:
        while not self._stopped:
            number = next(self._next)
            if number >= self._ranges:
                return
            self._run(number)

    def to_call(self, helpers: int) -> int:
        """How many of so many helpers have to be called by the queue."""
        return helpers

    def _take_own(self) -> None:
        """What the thread that owns the job does of it."""
        self._take_ranges()

    def _finish(self) -> None:
        """Wait for workers that help without having called `help`."""

    def help(self) -> None:
        """Called by a worker: run ranges until none is left. It does nothing once the job is closed."""
        with self._lock:
            if self._closed:
                return
            self._helpers += 1
        try:
            self._take_ranges()
        except BaseException as error:  # handed to the thread that waits for the job
            self._error = error
            self._stopped = True
        finally:
            with self._lock:
                self._helpers -= 1
                if self._idle is not None and self._helpers == 0:
                    self._idle.set()

    def run(self) -> None:
        """Called by the thread that owns the job: run ranges, then wait for the helpers. Raises what any of them raised.

        When it returns or raises, no thread uses the job's memory any more, even if Ctrl-C interrupts it.
        """
        try:
            self._take_own()
        except BaseException:
            self._stopped = True
            raise
        finally:
            self._close()
        if self._error is not None:
            raise self._error

    def _close(self) -> None:
        interrupted: BaseException | None = None
        while True:
            try:
                self._finish()
                with self._lock:
                    self._closed = True
                    if self._helpers == 0:
                        break
                    if self._idle is None:
                        self._idle = threading.Event()
                self._idle.wait()
                break
            except KeyboardInterrupt as interrupt:  # wait first: the helpers still write to arrays of the caller
                self._stopped = True
                interrupted = interrupt
        if interrupted is not None:
            raise interrupted


PARTS: Final = 4
"""A thread takes so much of the blocks that are left that there would be `PARTS` such parts for each thread."""


class KernelJob(Job):
    """The blocks of a launch, handed out by machine code to the calling thread, to workers that wait in their slots, and to those that come by `help`."""

    def __init__(self, slots: Slots, entry: int, arguments: int, blocks: range, scratch_bytes: int, *, threads: int, least: int) -> None:
        """Runs the blocks of a range on up to so many threads, at least `least` at a time. `entry` is the address of the kernel's code."""
        super().__init__(_never, 0)
        self._slots = slots
        self._wanted = threads - 1
        code = native_pool()
        self._blocks = Blocks(
            entry=entry, arguments=arguments, end=blocks.stop, least=least, divisor=PARTS * threads, scratch_bytes=scratch_bytes,
            give_way=code.give_way, next=blocks.start,
        )  # fmt: skip
        self._code = code
        self._address = ctypes.addressof(self._blocks)
        self.own_blocks = 0
        """How many blocks the calling thread has run."""
        self.own_ns = 0
        """The time that it took for them."""

    def to_call(self, helpers: int) -> int:
        """How many of so many helpers have to be called by the queue: those that do not wait in a slot."""
        return helpers - self._slots.waiting(self._blocks.scratch_bytes)

    def _take_ranges(self) -> None:
        self._code.help(self._address, scratch.reserve(self._blocks.scratch_bytes))

    def _take_own(self) -> None:
        own, slots = scratch.reserve(self._blocks.scratch_bytes), self._slots
        start = perf_counter_ns()
        self.own_blocks = self._code.share(self._address, own, slots.address, slots.count, self._wanted)
        self.own_ns = perf_counter_ns() - start

    def _finish(self) -> None:
        self._code.finish(self._address, self._slots.address, self._slots.count)


def _never(number: int) -> None:
    raise AssertionError(f"there is no range {number}")


class Pool:
    """Threads that help with jobs. They are started when first needed, and are daemons: the end of the program does not wait for them."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._workers = 0
        self.slots = Slots(available_cores() - 1)  # a worker that waits on a core that others need is in their way
        """Where workers wait for blocks."""

    def run(self, job: Job, helpers: int) -> None:
        """Run `job` on this thread and on up to `helpers` workers."""
        if self._workers < helpers:
            self._start(helpers)
        for _ in range(job.to_call(helpers)):
            self._jobs.put(job)
        job.run()

    def _start(self, wanted: int) -> None:
        with self._lock:
            while self._workers < wanted:
                threading.Thread(
                    target=_work, args=(self._jobs, self.slots, self._workers), name=f"kdsl worker {self._workers}", daemon=True
                ).start()
                self._workers += 1


def _work(jobs: queue.SimpleQueue[Job], slots: Slots, number: int) -> None:
    while True:
        job = jobs.get()
        job.help()
        del job  # it holds the arrays of the launch
        if jobs.empty():
            slots.wait(number)


_pool = Pool()


def pool() -> Pool:
    """The pool of this process."""
    return _pool


def _new_pool() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = Pool()


@atexit.register
def _close() -> None:
    """What the machine code uses goes with the interpreter."""
    _pool.slots.close()


os.register_at_fork(after_in_child=_new_pool)
