"""One program: what the interpreter says of it, and whether compiled code says the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kdsl.backend.cpu import HostCpu
from tests.fuzz import inputs
from tests.fuzz.execute import Built, OnCpu, Outcome, build_program
from tests.fuzz.inputs import Arguments
from tests.fuzz.interpret import Program

RUNS: Final = 2
"""Sets of arguments per program."""


class Difference(Exception):
    """Compiled code and the interpreter disagree."""


@dataclass
class Expected:
    """A set of arguments, and what the interpreter makes of it."""

    arguments: Arguments
    """The arguments."""
    arrays: dict[str, list[Any]]
    """The arrays afterwards."""
    failures: set[Any]
    """Failed checks: line, index, extent, block, thread."""


@dataclass
class Case:
    """A program with its arguments and results."""

    program: Program
    """For the interpreter."""
    built: Built
    """For kdsl."""
    expected: list[Expected]
    """One per set of arguments."""
    seed: int
    """What it was made from."""

    def check_cpu(self) -> None:
        """Run it on the CPU target at both levels. Raises Difference."""
        host = HostCpu.detect()
        if (
            host.generation == "x86-64-v4" and self.seed % 3 == 0
        ):  # the narrower vectors of another generation, which these processors have, too
            host = HostCpu("x86-64-v3")
        compiled = OnCpu(self.built, host, (0, 3))
        for number, (name, _, _) in enumerate(compiled.codes):
            for expected in self.expected:
                self.compare(name, expected, compiled.run(number, expected.arguments, self.program.grid))

    def compare(self, where: str, expected: Expected, outcome: Outcome) -> None:
        """Compare one run. Raises Difference."""
        if outcome.overrun:
            raise Difference(f"{where}: memory beside {outcome.overrun} has changed")
        for name, wanted in expected.arrays.items():
            found = inputs.difference(name, wanted, outcome.arrays[name])
            if found is not None:
                raise Difference(f"{where}: {found}")
        failure = outcome.failure
        if failure is None:
            if expected.failures:
                raise Difference(f"{where}: the failed check {min(expected.failures)} (line, index, extent, block, thread) is not recorded")
            return
        site = self.built.kernel.sites[failure.site]
        recorded = (site.location.line, failure.index, failure.extent, failure.block, failure.thread)
        if site.kind == "assert":
            recorded = (site.location.line, 0, 0, failure.block, failure.thread)
        if recorded not in expected.failures:
            raise Difference(
                f"{where}: the failed check {recorded} (line, index, extent, block, thread) is recorded, which the interpreter does not have"
            )


def prepare(source: str, seed: int) -> Case:
    """Read a program both ways and interpret it. Raises KernelError if kdsl refuses it, IllTyped if the interpreter does."""
    built = build_program(source)
    program = Program(source)
    threads = 1
    for extent in (*program.grid, *program.block):
        threads *= extent
    expected = []
    for number in range(RUNS):
        arguments = inputs.make(program.parameters, program.requires, threads, seed * RUNS + number)
        given = arguments.for_interpreter()
        failures = program.run(given, arguments.places)
        expected.append(Expected(arguments, {name: given[name] for name in arguments.arrays}, set(failures)))
    return Case(program, built, expected, seed)
