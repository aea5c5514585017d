"""`kdsl check`: run a program with every kernel on the CPU and instrumented, and report what is found.

The program is a process of its own, so that it may end as it likes; processes that it starts are looked at, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kdsl.runtime.sanitizer.report import REPORT_FILE, Report


@dataclass(frozen=True)
class Checked:
    """A program that has run."""

    report: Report | None
    """What was found, None if the program ended before it could be said."""
    status: int
    """The exit status of the program, negative for a signal."""


def check(program: str, arguments: Sequence[str], *, module: bool, numbers: bool, quiet: bool) -> Checked:
    """Run a Python program, a file or the name of a module. `quiet` sends its output to standard error."""
    with tempfile.TemporaryDirectory(prefix="kdsl-check-") as folder:
        file = Path(folder, "report")
        environment = os.environ | {"KDSL_SANITIZE": "nan" if numbers else "1", "KDSL_DEVICE": "cpu", REPORT_FILE: str(file)}
        command = [sys.executable, *(("-m", program) if module else (program,)), *arguments]
        status = subprocess.run(command, env=environment, stdout=sys.stderr if quiet else None, check=False).returncode
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return Checked(Report.joined(map(Report.from_json, lines)) if lines else None, status)
