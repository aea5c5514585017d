"""Running blocks on the CPU: every block once, on many threads, and what interrupts or breaks."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kdsl.errors import DeviceError
from kdsl.runtime import pool
from kdsl.runtime.cpu import ALONE_NS, CpuFunction

Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


class Code:
    """Code that logs what it is called with."""

    def __init__(self, body: Callable[[int, int], None] = lambda first, end: None, scratch_bytes: int = 100) -> None:
        self.scratch_bytes = scratch_bytes
        self.calls: list[tuple[int, int, int, int]] = []

        def run(arguments: int | None, first: int, end: int, scratch: int | None) -> None:
            self.calls.append((first, end, scratch or 0, threading.get_ident()))
            body(first, end)

        self._entry = Entry(run)
        self.address = ctypes.cast(self._entry, ctypes.c_void_p).value or 0

    @property
    def blocks(self) -> list[int]:
        return sorted(block for first, end, _, _ in self.calls for block in range(first, end))


@pytest.fixture(autouse=True)
def four_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_chosen", 4)


def slow(first: int, end: int) -> None:
    time.sleep(0.001 * (end - first))


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("body", [slow, lambda first, end: None])
def test_every_block_runs_once(blocks: int, body: Any) -> None:
    if body is slow and blocks > 64:
        body = lambda first, end: time.sleep(0.0002)  # noqa: E731
    code = Code(body)
    function = CpuFunction(code)
    for turn in range(1, 4):
        function.run(0, blocks)
        assert code.blocks == sorted(list(range(blocks)) * turn)
    assert all(scratch % 64 == 0 and scratch for _, _, scratch, _ in code.calls)


def test_long_launches_use_threads_and_short_ones_do_not() -> None:
    code = Code(slow)
    function = CpuFunction(code)
    function.run(0, 100)
    assert len({thread for *_, thread in code.calls}) > 1
    code = Code()
    function = CpuFunction(code)
    for _ in range(5):
        function.run(0, 4)
    assert {thread for *_, thread in code.calls} == {threading.get_ident()}


def test_threads_of_a_launch_have_their_own_scratch() -> None:
    code = Code(slow, 4096)
    CpuFunction(code).run(0, 60)
    owners = {(scratch, thread) for _, _, scratch, thread in code.calls}
    assert len({scratch for scratch, _ in owners}) == len({thread for _, thread in owners}) == len(owners)


def test_a_launch_that_becomes_long_is_shared_after_all() -> None:
    pause = 0.0
    code = Code(lambda first, end: time.sleep(pause * (end - first)))
    function = CpuFunction(code)
    for _ in range(3):
        function.run(0, 64)
    pause = 0.002
    code.calls.clear()
    for _ in range(2):
        function.run(0, 64)
    assert len({thread for *_, thread in code.calls}) > 1
    assert function._block_ns is not None
    assert 64 * function._block_ns > ALONE_NS


def test_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_chosen", 1)
    code = Code(slow)
    CpuFunction(code).run(0, 10)
    assert [(first, end) for first, end, *_ in code.calls] == [(0, 10)]


def test_launches_from_several_threads() -> None:
    codes = [Code(slow) for _ in range(6)]
    launchers = [threading.Thread(target=CpuFunction(code).run, args=(0, 40)) for code in codes]
    for launcher in launchers:
        launcher.start()
    for launcher in launchers:
        launcher.join(30)
    for code in codes:
        assert code.blocks == list(range(40))


def test_an_exception_in_a_worker_reaches_the_caller() -> None:
    main = threading.get_ident()

    def run(number: int) -> None:
        time.sleep(0.002)
        if threading.get_ident() != main:
            raise ValueError("in a worker")

    with pytest.raises(ValueError, match="in a worker"):
        pool.Pool().run(pool.Job(run, 50), 2)


def test_an_exception_in_the_caller_waits_for_the_workers() -> None:
    main, running = threading.get_ident(), []

    def run(number: int) -> None:
        if threading.get_ident() == main:
            time.sleep(0.01)
            raise KeyboardInterrupt
        running.append(number)
        time.sleep(0.05)
        running.remove(number)

    with pytest.raises(KeyboardInterrupt):
        pool.Pool().run(pool.Job(run, 50), 2)
    assert not running


def test_ctrl_c_while_waiting() -> None:
    main, running, started = threading.get_ident(), [], threading.Event()

    def run(number: int) -> None:
        if threading.get_ident() == main:
            started.wait(10)
            return
        running.append(number)
        started.set()
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)  # here, so that the job is certainly under way
        time.sleep(0.3)
        running.remove(number)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background jobs ignore Ctrl-C
    try:
        with pytest.raises(KeyboardInterrupt):
            pool.Pool().run(pool.Job(run, 2), 1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not running


def test_a_late_worker_leaves_a_finished_job_alone() -> None:
    seen: list[int] = []
    job = pool.Job(seen.append, 3)
    job.run()
    job.help()
    assert seen == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_its_own_pool() -> None:
    code = """
import os, time, threading, ctypes
from kdsl.runtime import pool
def run(number): time.sleep(0.001)
pool.set_threads(3)
pool.pool().run(pool.Job(run, 20), 2)
child = os.fork()
if child == 0:
    names = []
    pool.pool().run(pool.Job(lambda number: (names.append(threading.current_thread().name), time.sleep(0.005)), 20), 2)
    os._exit(0 if len(set(names)) > 1 else 7)
assert os.waitpid(child, 0)[1] == 0
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], check=True, timeout=60, env=environment)


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_chosen", None)
    monkeypatch.setenv("KDSL_THREADS", "3")
    assert pool.threads() == 3
    monkeypatch.setattr(pool, "_chosen", None)
    monkeypatch.setenv("KDSL_THREADS", "")
    assert pool.threads() == pool.available_cores() >= 1
    pool.set_threads(5)
    assert pool.threads() == 5
    for bad in (0, -1, 1.5, True, "2"):
        with pytest.raises(ValueError, match="at least 1"):
            pool.set_threads(bad)  # type: ignore[arg-type]
    for text in ("0", "x", "-1", "1.5"):
        monkeypatch.setattr(pool, "_chosen", None)
        monkeypatch.setenv("KDSL_THREADS", text)
        with pytest.raises(DeviceError, match="KDSL_THREADS"):
            pool.threads()
