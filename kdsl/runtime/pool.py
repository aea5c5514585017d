"""The threads that run a kernel's blocks on the CPU: a job is split into ranges of blocks that whoever is free takes next.

The calling thread always takes part, so that a job finishes whatever the workers do. Leaves out what a block is, and whether a launch is worth
splitting (`cpu.py`).
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Callable

from kdsl.errors import DeviceError


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
        self._idle = threading.Event()
        self._error: BaseException | None = None

    def _take_ranges(self) -> None:
        while not self._stopped:
            number = next(self._next)
            if number >= self._ranges:
                return
            self._run(number)

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
                if self._closed and self._helpers == 0:
                    self._idle.set()

    def run(self) -> None:
        """Called by the thread that owns the job: run ranges, then wait for the helpers. Raises what any of them raised.

        When it returns or raises, no thread uses the job's memory any more, even if Ctrl-C interrupts it.
        """
        try:
            self._take_ranges()
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
                with self._lock:
                    self._closed = True
                    if self._helpers == 0:
                        break
                self._idle.wait()
                break
            except KeyboardInterrupt as interrupt:  # wait first: the helpers still write to arrays of the caller
                self._stopped = True
                interrupted = interrupt
        if interrupted is not None:
            raise interrupted


class Pool:
    """Threads that help with jobs. They are started when first needed, and are daemons: the end of the program does not wait for them."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._workers = 0

    def run(self, job: Job, helpers: int) -> None:
        """Run `job` on this thread and on up to `helpers` workers."""
        if self._workers < helpers:
            self._start(helpers)
        for _ in range(helpers):
            self._jobs.put(job)
        job.run()

    def _start(self, wanted: int) -> None:
        with self._lock:
            while self._workers < wanted:
                threading.Thread(target=_work, args=(self._jobs,), name=f"kdsl worker {self._workers}", daemon=True).start()
                self._workers += 1


def _work(jobs: queue.SimpleQueue[Job]) -> None:
    while True:
        job = jobs.get()
        job.help()
        del job  # it holds the arrays of the launch


_pool = Pool()


def pool() -> Pool:
    """The pool of this process."""
    return _pool


def _new_pool() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = Pool()


os.register_at_fork(after_in_child=_new_pool)
