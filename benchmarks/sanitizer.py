"""Who finds which planted fault: `kdsl check` on the CPU and, where a GPU and compute-sanitizer are present, its four tools on the GPU.

python benchmarks/sanitizer.py [NAME ...] [--device cuda:0] [--timeout SECONDS]

Each fault of `sanitizer_faults.py` runs in a process of its own for each tool, as it is and mended. The table, in Markdown, has a row per fault: `yes` if the
tool reports something of it, `no` if not, `false` if it also reports something of the mended form, `hangs` if it does not end in time. A dash stands for a
tool that is not there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sanitizer_faults import FAULTS, Fault

import kdsl

TOOLS: Final = ("racecheck", "memcheck", "initcheck", "synccheck")
_SUMMARY: Final = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")


def run(name: str, device: str, fixed: bool) -> None:
    """Launch one kernel. What its own checks find is no affair of this table."""
    fault = next(fault for fault in FAULTS if fault.name == name)
    with contextlib.suppress(kdsl.BoundsError):
        fault.run(kdsl.device(device), fixed)


def command(fault: Fault, device: str, fixed: bool) -> list[str]:
    """How a process launches one kernel."""
    return [str(Path(__file__).resolve()), "--run", fault.name, "--device", device, *(["--fixed"] if fixed else [])]


def ours(fault: Fault, fixed: bool, timeout: float) -> bool:
    """Whether `kdsl check` finds something: for a planted fault what it is."""
    options = ["--json", *(["--nan"] if fault.numbers else [])]
    ended = subprocess.run(
        [sys.executable, "-m", "kdsl", "check", *options, *command(fault, "cpu", fixed)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    kinds = [finding["kind"] for finding in json.loads(ended.stdout)["findings"]]
    return bool(kinds) if fixed else fault.kind in kinds


def theirs(fault: Fault, tool: str, device: str, fixed: bool, timeout: float) -> bool:
    """Whether a tool of compute-sanitizer finds something."""
    ended = subprocess.run(
        ["compute-sanitizer", "--tool", tool, "--print-limit", "1", sys.executable, *command(fault, device, fixed)],
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
    found = _SUMMARY.search(ended.stdout + ended.stderr)
    if found is None:
        raise RuntimeError(
            f"{fault.name}: compute-sanitizer --tool {tool} ended without a summary:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
        )
    return int(found.group(1)) > 0


def cell(fault: Fault, tool: str, device: str, timeout: float) -> str:
    """What stands in the table."""

    def finds(fixed: bool) -> bool:
        return ours(fault, fixed, timeout) if tool == "kdsl" else theirs(fault, tool, device, fixed, timeout)

    try:
        planted = finds(False)
    except subprocess.TimeoutExpired:
        return "hangs"
    try:
        mended = finds(True)
    except subprocess.TimeoutExpired:
        return "hangs, also mended"
    return "false" if mended else "yes" if planted else "no"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="only these faults")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--timeout", type=float, default=180.0)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--fixed", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.run:
        run(given.run, given.device, given.fixed)
        return
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parents[1]))
    present = shutil.which("compute-sanitizer") is not None and any(each.name == given.device for each in kdsl.testing.devices())
    print(f"| fault | kind | kdsl check | {' | '.join(TOOLS)} |")
    print("|---" * (3 + len(TOOLS)) + "|")
    for fault in FAULTS:
        if given.names and fault.name not in given.names:
            continue
        cells = [cell(fault, "kdsl", given.device, given.timeout)]
        cells += [cell(fault, tool, given.device, given.timeout) if present else "-" for tool in TOOLS]
        print(f"| {fault.name.replace('_', ' ')} | {fault.kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    import kdsl.testing

    main()
