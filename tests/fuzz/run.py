"""Differential fuzzing: `python -m tests.fuzz.run --programs 1000 --seed 0`.

Each program runs on the CPU target, compiled with little and with full optimisation, and in the reference interpreter; all bits are compared. With
`--device cuda:0` it also runs on that GPU, many kernels to a module. Program number n of seed s is the same in every process: it is made from s * 10**9 + n.
The first differences are shrunk and printed.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from kdsl.frontend.errors import KernelError
from tests.fuzz.check import Case, Difference, prepare
from tests.fuzz.generate import generate
from tests.fuzz.shrink import shrink

PER_SEED = 10**9
_BATCH = 50
"""Kernels of one GPU module."""
_PIECE = 500
"""Programs of one process at most."""


@dataclass
class Report:
    """What a number of programs came to."""

    programs: int = 0
    """Programs that ran and were compared."""
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    """Programs that kdsl refused with an error that is part of the language, by error."""
    on_device: int = 0
    """Of the programs, those that also ran on the GPU."""
    differences: list[tuple[int, str]] = field(default_factory=list)
    """Seeds of programs with a difference, and what differs."""

    def add(self, other: Report) -> None:
        """Count what another process did."""
        self.programs += other.programs
        self.refused.update(other.refused)
        self.on_device += other.on_device
        self.differences += other.differences


def batch(first: int, count: int, device: str | None, *, announce: bool = False) -> Report:
    """Run the programs made from `first` to `first + count - 1`."""
    report = Report()
    cases: list[tuple[int, Case]] = []
    for seed in range(first, first + count):
        if announce:
            print("seed", seed, flush=True)
        try:
            case = prepare(generate(seed), seed)
        except KernelError as error:
            kind = expected_refusal(error)
            if kind is None:
                report.differences.append((seed, f"kdsl refuses it: {error}"))
            else:
                report.refused[kind] += 1
            continue
        except Difference as difference:
            report.differences.append((seed, str(difference)))
            continue
        except Exception as error:
            report.differences.append((seed, f"{type(error).__name__}: {error}"))
            continue
        report.programs += 1
        try:
            case.check_cpu()
        except Difference as difference:
            report.differences.append((seed, str(difference)))
            continue
        cases.append((seed, case))
    if device is not None:
        from tests.fuzz.on_gpu import check_gpu

        report.differences += check_gpu(cases, device)
        report.on_device += len(cases)
    gc.collect()
    return report


_REFUSALS = {
    "by zero": "a divisor that is always zero",
    " a shift of ": "a shift by a constant outside",
    " is negative": "a constant index outside",
    " is outside ": "a constant index outside",
    "this assertion never holds": "an assertion that never holds",
    "the step of": "a step that is always zero",
}


def expected_refusal(error: KernelError) -> str | None:
    """The language's own name for a refusal that random programs run into; None if the program should have been compiled."""
    first = str(error).splitlines()[0]
    return next((kind for words, kind in _REFUSALS.items() if words in first), None)


def worker(first: int, count: int, device: str | None, seconds: float) -> None:
    """Run programs, and say on standard output what happens: a process of its own, because a mistake of the compiler can end it."""
    start = time.monotonic()
    size = _BATCH if device else _BATCH // 5
    for begin in range(first, first + count, size):
        if time.monotonic() - start > seconds:
            return
        report = batch(begin, min(size, first + count - begin), device, announce=True)
        print("report", json.dumps(vars(report)), flush=True)


def supervised(first: int, count: int, device: str | None, seconds: float) -> Report:
    """`worker` in a process of its own. If that ends, the program that it was at differs, and the next one is begun."""
    total = Report()
    end = time.monotonic() + seconds
    while count > 0 and time.monotonic() < end:
        arguments = ["--worker", str(first), str(count), device or "", str(end - time.monotonic())]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
        last = first
        with subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.run", *arguments], stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                word, _, rest = line.partition(" ")
                if word == "seed":
                    last = int(rest)
                elif word == "report":
                    part = json.loads(rest)
                    found = [(seed, what) for seed, what in part["differences"]]
                    total.add(Report(part["programs"], collections.Counter(part["refused"]), part["on_device"], found))
        if process.returncode == 0:
            break
        total.differences.append((last, f"the process ended with status {process.returncode}"))
        count -= last + 1 - first
        first = last + 1
    return total


def run(programs: int, seed: int, *, device: str | None = None, processes: int = 1, seconds: float = 1e9, quiet: bool = True) -> Report:
    """Run so many programs of a seed, or as many as are begun within `seconds`."""
    total, start = Report(), time.monotonic()
    first = seed * PER_SEED
    with ThreadPoolExecutor(processes) as pool:
        pending = set()
        piece = max(_BATCH, min(_PIECE, -(-programs // (2 * processes))))
        for begin in range(first, first + programs, piece):
            count = min(piece, first + programs - begin)
            pending.add(pool.submit(lambda b=begin, c=count: supervised(b, c, device, seconds - (time.monotonic() - start))))  # type: ignore[misc]
        for done in as_completed(pending):
            part = done.result()
            total.add(part)
            for place, what in part.differences:
                print(f"seed {place}: {what}", file=sys.stderr, flush=True)
            if not quiet and part.programs:
                rate = total.programs / (time.monotonic() - start)
                print(f"{total.programs} programs, {len(total.differences)} differences, {rate:.1f}/s", file=sys.stderr, flush=True)
    return total


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000, help="how many programs (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the programs (default 0)")
    parser.add_argument("--device", help="also run on this GPU, such as cuda:0")
    parser.add_argument("--processes", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further programs after so many seconds")
    parser.add_argument(
        "--show", type=int, metavar="SEED", help="print the program made from SEED, shrunk if it shows a difference, and stop"
    )
    parser.add_argument("--shrink", type=int, default=3, help="so many differences are shrunk (default 3)")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker is not None:
        first, count, device, seconds = chosen.worker
        worker(int(first), int(count), device or None, float(seconds))
        return 0
    if chosen.show is not None:
        print(shrink(generate(chosen.show), chosen.show, chosen.device))
        return 0
    start = time.monotonic()
    report = run(chosen.programs, chosen.seed, device=chosen.device, processes=chosen.processes, seconds=chosen.seconds, quiet=False)
    for seed, what in report.differences[: chosen.shrink]:
        print(f"# {what}")
        print(shrink(generate(seed), seed, chosen.device))
    spent = time.monotonic() - start
    refused = ", ".join(f"{count} for {kind}" for kind, count in report.refused.most_common())
    gpu = f", {report.on_device} of them also on {chosen.device}" if chosen.device else ""
    print(
        f"{report.programs} programs of seed {chosen.seed} compared{gpu}, {len(report.differences)} with a difference, in {spent:.0f} s "
        f"({report.programs / spent:.1f}/s); refused as they should be: {refused or 'none'}"
    )
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
