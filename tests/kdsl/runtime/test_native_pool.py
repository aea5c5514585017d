"""Blocks handed out by machine code: parts that grow shorter, workers that wait in their slots, and what happens at the end."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from kdsl.runtime.native_pool import AWAY, WAITING, Slots, native_pool
from kdsl.runtime.pool import PARTS, Job, KernelJob, Pool
from kdsl.runtime.scratch import scratch

Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class Log:
    """Code of a kernel that notes what it is called with."""

    def __init__(self, body: Callable[[int, int], None] = lambda first, end: None) -> None:
        self.calls: list[tuple[int, int, int, int]] = []

        def run(arguments: int | None, first: int, end: int, scratch: int | None) -> None:
            self.calls.append((first, end, scratch or 0, threading.get_ident()))
            body(first, end)

        self._entry = Entry(run)
        self.address = ctypes.cast(self._entry, ctypes.c_void_p).value or 0

    def job(self, pool: Pool, blocks: range, threads: int, *, least: int = 1, scratch: int = 64) -> KernelJob:
        """Some blocks as a job."""
        return KernelJob(pool.slots, self.address, 0, blocks, scratch, threads=threads, least=least)

    @property
    def blocks(self) -> list[int]:
        return sorted(block for first, end, *_ in self.calls for block in range(first, end))


def pool_of(slots: int) -> Pool:
    """A pool of which so many workers may wait in a slot, however many cores there are."""
    pool = Pool()
    pool.slots = Slots(slots)
    return pool


def until(condition: Callable[[], bool]) -> bool:
    """Wait for something for at most ten seconds; whether it has come."""
    for _ in range(100_000):
        if condition():
            return True
        time.sleep(0.0001)
    return False


@pytest.mark.parametrize(("first", "end", "least"), [(0, 1, 1), (0, 100, 1), (7, 1000, 3), (5, 6, 10), (0, 64, 64)])
def test_parts_come_in_order_and_grow_shorter(first: int, end: int, least: int) -> None:
    log, pool = Log(), pool_of(1)
    job = log.job(pool, range(first, end), 1, least=least)
    job.run()
    begin = first
    for start, stop, *_ in log.calls:
        left = end - begin
        assert (start, stop - start) == (begin, min(left, max(least, left // PARTS)))
        begin = stop
    assert begin == end
    assert job.own_blocks == end - first


def test_blocks_reach_a_worker_in_its_slot() -> None:
    pool, stop, helped = pool_of(1), threading.Event(), threading.Event()
    main = threading.get_ident()

    def wait_in_the_slot() -> None:
        scratch.reserve(64)
        while not stop.is_set():
            pool.slots.wait(0)

    def body(first: int, end: int) -> None:
        if threading.get_ident() == main:
            helped.wait(0.02)  # time for the other to take a part
        else:
            helped.set()

    log, worker = Log(body), threading.Thread(target=wait_in_the_slot)
    worker.start()
    try:
        for _ in range(500):  # it may have left the slot just now
            log.calls.clear()
            until(lambda: pool.slots.waiting(64) == 1)
            log.job(pool, range(8), 2).run()
            assert log.blocks == list(range(8))
            if helped.is_set():
                break
    finally:
        stop.set()
        worker.join(10)
    assert helped.is_set()
    assert {thread for *_, thread in log.calls} <= {main, worker.ident}


@pytest.mark.parametrize("slots", [0, 1, 3])
@pytest.mark.parametrize("least", [1, 5])
def test_every_block_runs_once_whoever_helps(slots: int, least: int) -> None:
    pool = pool_of(slots)
    for turn in range(100):
        log = Log((lambda first, end: time.sleep(0.0002)) if turn % 10 == 0 else (lambda first, end: None))
        pool.run(log.job(pool, range(turn % 3, 40 + turn), 4, least=least, scratch=64 * (1 + turn // 20)), 3)
        assert log.blocks == list(range(turn % 3, 40 + turn))
        assert all(own % 64 == 0 and own for _, _, own, _ in log.calls)
        owners = {(own, thread) for _, _, own, thread in log.calls}
        assert len({own for own, _ in owners}) == len({thread for _, thread in owners})


def test_several_launchers_share_the_workers() -> None:
    pool = pool_of(2)
    logs = [Log() for _ in range(4)]

    def launch(log: Log) -> None:
        for _ in range(100):
            pool.run(log.job(pool, range(30), 3), 2)

    launchers = [threading.Thread(target=launch, args=(log,)) for log in logs]
    for launcher in launchers:
        launcher.start()
    for launcher in launchers:
        launcher.join(60)
    assert [log.blocks for log in logs] == [sorted(list(range(30)) * 100)] * 4


def test_a_worker_with_less_scratch_memory_is_called() -> None:
    pool, log = pool_of(1), Log()
    pool.slots._words[0] = [WAITING, 4096, *[0] * 6]
    assert log.job(pool, range(4), 2, scratch=4096).to_call(1) == 0
    big = log.job(pool, range(4), 2, scratch=8192)
    assert big.to_call(1) == 1
    big.run()
    assert pool.slots._words[0, 0] == WAITING  # nobody has given it the job
    assert log.blocks == [0, 1, 2, 3]


def test_other_jobs_reach_a_worker_that_waits() -> None:
    pool, log = pool_of(1), Log(lambda first, end: time.sleep(0.001))
    pool.run(log.job(pool, range(20), 2), 1)
    workers: set[int] = set()

    def run(number: int) -> None:
        workers.add(threading.get_ident())
        time.sleep(0.002)

    pool.run(Job(run, 40), 1)
    assert len(workers) == 2


def test_closed_slots_let_nobody_wait() -> None:
    pool, log = pool_of(1), Log(lambda first, end: time.sleep(0.001))
    pool.run(log.job(pool, range(20), 2), 1)
    pool.slots.close()
    assert pool.slots._words[0, 0] == AWAY
    for _ in range(3):
        log.calls.clear()
        pool.run(log.job(pool, range(20), 2), 1)
        assert log.blocks == list(range(20))
        assert pool.slots._words[0, 0] == AWAY


def test_a_program_ends_while_workers_wait() -> None:
    code = """
from kdsl.runtime.native import native
from kdsl.runtime.pool import KernelJob, pool, set_threads
nothing = native("define void @nothing(ptr %a, i64 %f, i64 %e, ptr %s) { ret void }", "nothing")
for _ in range(200):
    pool().run(KernelJob(pool().slots, nothing.address, 0, range(1000), 64, threads=2, least=1), 1)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(3):
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120, env=environment)


def test_the_functions_are_compiled_once() -> None:
    assert native_pool() is native_pool()
