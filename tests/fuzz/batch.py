"""Some programs in this process: made, interpreted, compiled, compared; on a GPU all of them together."""

from __future__ import annotations

import collections
import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kdsl.frontend.errors import KernelError
from tests.fuzz.check import Case, Difference, prepare
from tests.fuzz.generate import generate
from tests.fuzz.interpret import Program
from tests.fuzz.values import IllTyped


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

    @classmethod
    def of(cls, parts: dict[str, Any]) -> Report:
        """A report that came as JSON."""
        found = [(seed, what) for seed, what in parts["differences"]]
        return cls(parts["programs"], collections.Counter(parts["refused"]), parts["on_device"], found)


def batch(first: int, count: int, device: str | None, announce: Callable[[str], None] = lambda _: None, *, on_cpu: bool = True) -> Report:
    """Run the programs made from `first` to `first + count - 1`. `announce` hears what comes next, since that may end the process."""
    report = Report()
    cases: list[tuple[int, Case]] = []
    for seed in range(first, first + count):
        announce(f"seed {seed}")
        source = generate(seed)
        try:
            case = prepare(source, seed)
        except KernelError as error:
            kind = expected_refusal(error, source)
            if kind is None:
                report.differences.append((seed, f"{refusal(source)}: {error}"))
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
            if on_cpu:
                case.check_cpu()
        except Difference as difference:
            report.differences.append((seed, str(difference)))
            continue
        cases.append((seed, case))
    if device is not None:
        from tests.fuzz.on_gpu import check_gpu

        announce(f"device {first}")
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


_ILL_TYPED = (" and a float literal", " would have two types")
"""Refusals that the interpreter must share: it reads the types of names by the page, too."""


def expected_refusal(error: KernelError, source: str) -> str | None:
    """The language's own name for a refusal that random programs run into; None if the program should have been compiled."""
    first = str(error).splitlines()[0]
    if any(words in first for words in _ILL_TYPED):
        return None if ill_typed(source) is None else "types that do not meet"
    return next((kind for words, kind in _REFUSALS.items() if words in first), None)


def refusal(source: str) -> str:
    """Whose mistake a refusal is that no program should meet: the compiler's, or the generator's if the interpreter has no meaning for the program either."""
    also = ill_typed(source)
    return "kdsl refuses it" if also is None else f"kdsl refuses it, and the interpreter does ({also})"


def ill_typed(source: str) -> str | None:
    """Why the interpreter refuses a program; None if it does not."""
    try:
        Program(source)
    except IllTyped as error:
        return str(error)
    return None
