"""Differential fuzzing: `python -m tests.fuzz.run --programs 1000 --seed 0`.

Each program runs on the CPU target, compiled with little and with full optimisation, and in the reference interpreter; all bits are compared. With
`--device cuda:0` it also runs on that GPU, many kernels to a module. Program number n of seed s is the same in every process: it is made from s * 10**9 + n.
The first differences are shrunk and printed.
"""

from __future__ import annotations

import argparse
import collections
import gc
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from kdsl.frontend.errors import KernelError
from tests.fuzz.check import Case, Difference, prepare
from tests.fuzz.generate import generate
from tests.fuzz.shrink import shrink

PER_SEED = 10**9
_BATCH = 50
"""Programs that a process takes at a time: kernels of one GPU module."""


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


def batch(first: int, count: int, device: str | None) -> Report:
    """Run the programs made from `first` to `first + count - 1`."""
    report = Report()
    cases: list[tuple[int, Case]] = []
    for seed in range(first, first + count):
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


def batches(first: int, programs: int) -> Iterator[tuple[int, int]]:
    """Pieces of work."""
    for start in range(first, first + programs, _BATCH):
        yield start, min(_BATCH, first + programs - start)


def run(
    programs: int, seed: int, *, device: str | None = None, processes: int = 1, seconds: float | None = None, quiet: bool = True
) -> Report:
    """Run so many programs of a seed, or as many as go into `seconds`."""
    total, start = Report(), time.monotonic()
    shown = start
    work = batches(seed * PER_SEED, programs)

    def account(part: Report) -> None:
        nonlocal shown
        total.add(part)
        for place, what in part.differences:
            print(f"seed {place}: {what}", file=sys.stderr, flush=True)
        if not quiet and time.monotonic() - shown > 10:
            shown = time.monotonic()
            rate = total.programs / (shown - start)
            print(f"{total.programs} programs, {len(total.differences)} differences, {rate:.1f}/s", file=sys.stderr, flush=True)

    if processes == 1:
        for first, count in work:
            account(batch(first, count, device))
            if seconds is not None and time.monotonic() - start > seconds:
                break
        return total
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=40) as pool:
        pending = set()
        for first, count in work:
            pending.add(pool.submit(batch, first, count, device))
            if len(pending) > 2 * processes:
                done = next(iter(pending))
                account(done.result())
                pending.discard(done)
            if seconds is not None and time.monotonic() - start > seconds:
                break
        for rest in pending:
            account(rest.result())
    return total


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000, help="how many programs (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the programs (default 0)")
    parser.add_argument("--device", help="also run on this GPU, such as cuda:0")
    parser.add_argument("--processes", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--seconds", type=float, help="begin no further programs after so many seconds")
    parser.add_argument(
        "--show", type=int, metavar="SEED", help="print the program made from SEED, shrunk if it shows a difference, and stop"
    )
    parser.add_argument("--shrink", type=int, default=3, help="so many differences are shrunk (default 3)")
    chosen = parser.parse_args()
    if chosen.show is not None:
        print(shrink(generate(chosen.show), chosen.show, chosen.device))
        return 0
    start = time.monotonic()
    report = run(chosen.programs, chosen.seed, device=chosen.device, processes=chosen.processes, seconds=chosen.seconds, quiet=False)
    for seed, _ in report.differences[: chosen.shrink]:
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
