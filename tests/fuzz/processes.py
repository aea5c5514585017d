"""Programs in processes of their own, because a mistake of the compiler can end one, or the work of a GPU: that is a difference, too.

Pieces of consecutive programs are handed out in order until the time is up, and every piece that is begun is finished: what has run is one range without gaps.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.fuzz.batch import Report, batch

_ON_GPU = 50
"""Programs of a piece, and kernels of one GPU module."""
_ON_CPU = 10
_RENEWED = 500
"""After so many programs a process makes room for another, which has its memory back."""
_PATIENCE = 60.0
"""Seconds for one program, or for a piece on a GPU: then it is taken for one that does not end."""


def work(device: str | None, on_cpu: bool) -> None:
    """The other side: run the pieces that standard input names, and say on standard output what happens."""

    def say(line: str) -> None:
        print(line, flush=True)

    gc.disable()  # a tenth of the time; each piece ends with a collection
    gc.freeze()
    for line in sys.stdin:
        first, count = map(int, line.split())
        say(f"report {json.dumps(vars(batch(first, count, device, say, on_cpu=on_cpu)))}")


class _Worker:
    """A process that runs pieces."""

    def __init__(self, device: str | None, on_cpu: bool) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
        command = [sys.executable, "-m", "tests.fuzz.run", "--worker", device or "", *([] if on_cpu else ["--without-cpu"])]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.programs = 0
        self.on_device = False
        """Whether it was at the GPU's part when it ended."""
        self.seed = 0
        """The program that it was at."""

    def piece(self, first: int, count: int) -> Report | None:
        """What the programs came to; None if the process has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.seed, self.on_device = first, False
        self.programs += count
        try:
            self.process.stdin.write(f"{first} {count}\n")
            self.process.stdin.flush()
            while True:
                watch = threading.Timer(_PATIENCE, self.process.kill)
                watch.start()
                line = self.process.stdout.readline()
                watch.cancel()
                word, _, rest = line.partition(" ")
                if word == "report":
                    return Report.of(json.loads(rest))
                if word == "seed":
                    self.seed = int(rest)
                elif word == "device":
                    self.on_device = True
                elif not line:
                    return None
        except BrokenPipeError:
            return None

    def end(self) -> int:
        """Let it end; its status."""
        self.process.communicate()
        return self.process.returncode


class _Pieces:
    """Pieces of a range, in order."""

    def __init__(self, first: int, count: int, size: int, seconds: float) -> None:
        self.next = first
        """The first program that nobody has begun."""
        self._end = first + count
        self._size = size
        self._until = time.monotonic() + seconds
        self._lock = threading.Lock()

    def take(self) -> tuple[int, int] | None:
        """The next piece, None if all are begun or the time is up."""
        with self._lock:
            count = min(self._size, self._end - self.next)
            if count <= 0 or time.monotonic() > self._until:
                return None
            self.next += count
            return self.next - count, count


class Supervisor:
    """Runs pieces in one worker after the other."""

    def __init__(self, device: str | None, on_cpu: bool = True) -> None:
        self.device = device
        self.on_cpu = on_cpu
        self.worker: _Worker | None = None

    def piece(self, first: int, count: int) -> Report:
        """The report of a piece. A program at which a worker ends differs; those around it run again."""
        if self.worker is None or self.worker.programs >= _RENEWED:
            self.close()
            self.worker = _Worker(self.device, self.on_cpu)
        worker = self.worker
        report = worker.piece(first, count)
        if report is not None:
            return report
        self.worker = None
        status = worker.end()
        report = Report()
        place = " on the GPU" if worker.on_device else ""
        ended = f"the process ended with status {status}{place}"
        if count == 1:
            report.differences.append((first, ended))
            return report
        # said at once: with what follows it takes a while, and a run may be cut off
        print(f"seeds {first} to {first + count - 1}: {ended}, at {worker.seed}; each runs again", file=sys.stderr, flush=True)
        if worker.on_device:  # any of them
            parts = [(seed, 1) for seed in range(first, first + count)]
        else:
            parts = [(first, worker.seed - first), (worker.seed, 1), (worker.seed + 1, first + count - worker.seed - 1)]
        for begin, length in parts:
            if length:
                report.add(self.piece(begin, length))
        return report

    def close(self) -> None:
        """End the worker."""
        if self.worker is not None:
            self.worker.end()
            self.worker = None


def run_all(
    first: int, count: int, *, device: str | None, on_cpu: bool = True, processes: int, seconds: float, heard: Callable[[Report], None]
) -> tuple[Report, int]:
    """Run programs; what they came to, and the first that was not run. `heard` is called with each piece's report."""
    total = Report()
    pieces = _Pieces(first, count, _ON_GPU if device else _ON_CPU, seconds)
    lock = threading.Lock()

    def one() -> None:
        supervisor = Supervisor(device, on_cpu)
        try:
            while (piece := pieces.take()) is not None:
                report = supervisor.piece(*piece)
                with lock:
                    total.add(report)
                    heard(report)
        finally:
            supervisor.close()

    with ThreadPoolExecutor(processes) as pool:
        for done in [pool.submit(one) for _ in range(processes)]:
            done.result()
    total.differences.sort()
    return total, pieces.next
