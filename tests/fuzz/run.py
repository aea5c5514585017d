"""Differential fuzzing: `python -m tests.fuzz.run --programs 1000 --seed 0`.

Each program runs on the CPU target, compiled with little and with full optimisation, and in the reference interpreter; all bits are compared. With
`--device cuda:0` it also runs on that GPU, many kernels to a module; with `--without-cpu` only there, for another machine to do the CPU's part. Program number
n of seed s is the same in every process: it is made from s * 10**9 + n.

A long run goes in several calls: `--first` is the number of the first program, `--seconds` ends a call early, and its last line is JSON:
{"seed", "first", "next": where to go on, "compared", "on_device", "refused", "differences": [[number, what], …], "seconds", "device", "on_cpu"}.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.fuzz.batch import Report
from tests.fuzz.generate import generate
from tests.fuzz.processes import run_all, work
from tests.fuzz.shrink import shrink

PER_SEED = 10**9
_SAID_EVERY = 60.0
"""Seconds between lines that say how far a run is."""


def run(
    programs: int,
    seed: int,
    *,
    first: int = 0,
    device: str | None = None,
    on_cpu: bool = True,
    processes: int = 1,
    seconds: float = 1e9,
    quiet: bool = True,
) -> tuple[Report, int]:
    """Run so many programs of a seed from number `first` on, or as many as are begun within `seconds`; what they came to, and the number to go on with."""
    start = said = time.monotonic()
    so_far = Report()

    def heard(part: Report) -> None:
        nonlocal said
        so_far.add(part)
        for place, what in part.differences:
            print(f"seed {place}: {what}", file=sys.stderr, flush=True)
        if not quiet and time.monotonic() - said > _SAID_EVERY:
            said = time.monotonic()
            rate = so_far.programs / (said - start)
            print(f"{so_far.programs} programs, {len(so_far.differences)} differences, {rate:.1f}/s", file=sys.stderr, flush=True)

    base = seed * PER_SEED
    report, following = run_all(base + first, programs, device=device, on_cpu=on_cpu, processes=processes, seconds=seconds, heard=heard)
    return report, following - base


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000, help="how many programs (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the programs (default 0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first program (default 0)")
    parser.add_argument("--device", help="also run on this GPU, such as cuda:0")
    parser.add_argument("--without-cpu", action="store_true", help="not on the CPU target: the interpreter and the GPU only")
    parser.add_argument("--processes", type=int, default=1, help="processes (default 1)")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin no further programs after so many seconds; those in hand are finished"
    )
    parser.add_argument(
        "--show", type=int, metavar="NUMBER", help="print the program made from NUMBER, shrunk if it shows a difference, and stop"
    )
    parser.add_argument("--shrink", type=int, default=3, help="so many differences are shrunk (default 3)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker is not None:
        work(chosen.worker or None, not chosen.without_cpu)
        return 0
    if chosen.show is not None:
        print(shrink(generate(chosen.show), chosen.show, chosen.device))
        return 0
    start = time.monotonic()
    report, following = run(
        chosen.programs,
        chosen.seed,
        first=chosen.first,
        device=chosen.device,
        on_cpu=not chosen.without_cpu,
        processes=chosen.processes,
        seconds=chosen.seconds,
        quiet=False,
    )
    spent = time.monotonic() - start
    for number, what in report.differences[: chosen.shrink]:
        print(f"# {what}")
        print(shrink(generate(number), number, chosen.device))
    refused = ", ".join(f"{count} for {kind}" for kind, count in report.refused.most_common())
    gpu = f", {report.on_device} of them also on {chosen.device}" if chosen.device else ""
    print(
        f"{report.programs} programs of seed {chosen.seed} compared{gpu}, {len(report.differences)} with a difference, in {spent:.0f} s "
        f"({report.programs / spent:.1f}/s); refused as they should be: {refused or 'none'}"
    )
    line = {
        "seed": chosen.seed,
        "first": chosen.first,
        "next": following,
        "compared": report.programs,
        "on_device": report.on_device,
        "refused": sum(report.refused.values()),
        "differences": report.differences,
        "seconds": round(spent, 1),
        "device": chosen.device,
        "on_cpu": not chosen.without_cpu,
    }
    print(json.dumps(line))
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
