"""The sanitizer of a process: whether it is on, what it has found, and the memory that instrumented code works with.

`start()` turns it on for all kernels that are launched for the first time from then on. The environment variable KDSL_SANITIZE=1 does so from the start of the
program, with the CPU as the default device, and reports at its end (KDSL_SANITIZE=nan also looks for NaNs and infinities). What is not here: launches
(`launch.py`) and the words of a report (`report.py`).
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np

from kdsl.backend.cpu.sanitizer import Options, layout
from kdsl.runtime import exit
from kdsl.runtime.sanitizer import report
from kdsl.runtime.sanitizer.findings import Finding
from kdsl.runtime.sanitizer.report import Report

_MOST_ARRAYS: Final = 1024


class Session:
    """What the sanitizer of this process knows."""

    now: ClassVar[int] = 0
    """The clock at the end of the last launch, of whichever session: what a kernel keeps of its own arrays, and an allocation, outlives sessions."""

    def __init__(self, options: Options) -> None:
        self.options = options
        """What it looks for."""
        self.findings: dict[object, Finding] = {}
        """By their keys, in the order in which they were found."""
        self.unchecked: dict[str, None] = {}
        """What could not be looked at, in words."""
        self.launches = 0
        """Launches that were looked at."""
        self.kernels: set[str] = set()
        """Names of the kernels that were."""
        self.lock = threading.Lock()
        """Held during a launch: launches run one after the other."""
        self.state = np.zeros(layout.MEMORIES + _MOST_ARRAYS, np.uint64)
        """The state of the launch."""
        self.table = np.zeros((layout.ENTRIES, layout.ENTRY), np.uint64)
        """The findings of the launch."""
        self.state[layout.TABLE] = self.table.ctypes.data

    def add(self, finding: Finding) -> None:
        """Take a finding up, as one with those that are the same."""
        known = self.findings.get(finding.key)
        self.findings[finding.key] = finding if known is None else replace(known, count=known.count + finding.count)

    def skip(self, what: str) -> None:
        """Note what could not be looked at."""
        self.unchecked[what] = None

    def take(self) -> Report:
        """What was found and what was not looked at since the last time."""
        with self.lock:
            made = Report(list(self.findings.values()), list(self.unchecked), self.launches, sorted(self.kernels))
            self.findings.clear()
            self.unchecked.clear()
        return made

    def forget(self) -> None:
        """In a forked child: what its parent found is the parent's to report."""
        self.lock = threading.Lock()
        self.findings.clear()
        self.unchecked.clear()


_session: Session | None = None


def session() -> Session | None:
    """The sanitizer of this process, None if it is off."""
    return _session


def start(*, numbers: bool = False) -> Session:
    """Turn the sanitizer on: kernels that are first launched from now on, on the CPU, are instrumented. `numbers` also looks for NaNs and infinities."""
    global _session
    if _session is None:
        _session = Session(Options(numbers))
        os.register_at_fork(after_in_child=_session.forget)
    return _session


def stop() -> None:
    """Turn it off: kernels that are first launched from now on are not instrumented. Those that were stay so."""
    global _session
    _session = None


def resume(before: Session) -> None:
    """Go on with a sanitizer that was stopped."""
    global _session
    _session = before


def _from_environment() -> None:
    wanted = os.environ.get("KDSL_SANITIZE", "0")
    if wanted in ("", "0"):
        return
    os.environ.setdefault("KDSL_DEVICE", "cpu")
    started = start(numbers=wanted == "nan")
    exit.at_exit(lambda: report.at_end(started))


_from_environment()
