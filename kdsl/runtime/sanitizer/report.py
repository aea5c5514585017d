"""The report of the sanitizer: what was found, as text with the lines of the source, or as JSON; and what happens to it at the end of a program."""

from __future__ import annotations

import json
import linecache
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from kdsl.errors import SanitizerError
from kdsl.runtime.sanitizer.findings import Finding, Spot

if TYPE_CHECKING:
    from kdsl.runtime.sanitizer.session import Session

REPORT_FILE: Final = "KDSL_SANITIZE_REPORT"
"""Environment variable that names a file to which the report is added, as a line of JSON, instead of being printed at the end of the program."""


@dataclass(frozen=True)
class Report:
    """What was found since the last report."""

    findings: list[Finding] = field(default_factory=list)
    """Each once, in the order in which they were found."""
    unchecked: list[str] = field(default_factory=list)
    """What could not be looked at, in words."""
    launches: int = 0
    """Launches that were looked at."""
    kernels: list[str] = field(default_factory=list)
    """Names of their kernels."""

    def as_json(self) -> str:
        """As JSON, in one line."""
        known = {
            "findings": [finding.as_dict() for finding in self.findings],
            "unchecked": self.unchecked,
            "launches": self.launches,
            "kernels": self.kernels,
        }
        return json.dumps(known)

    @staticmethod
    def from_json(text: str) -> Report:
        """The report of a line of JSON."""
        given: dict[str, Any] = json.loads(text)
        return Report([Finding.from_dict(each) for each in given["findings"]], given["unchecked"], given["launches"], given["kernels"])

    @staticmethod
    def joined(reports: Iterable[Report]) -> Report:
        """The reports of several processes as one."""
        findings: dict[object, Finding] = {}
        unchecked: dict[str, None] = {}
        launches, kernels = 0, set[str]()
        for report in reports:
            for finding in report.findings:
                known = findings.get(finding.key)
                findings[finding.key] = finding if known is None else replace(known, count=known.count + finding.count)
            unchecked.update(dict.fromkeys(report.unchecked))
            launches += report.launches
            kernels.update(report.kernels)
        return Report(list(findings.values()), list(unchecked), launches, sorted(kernels))

    def text(self) -> str:
        """As text."""
        parts = [f"{number}. {_finding(finding)}" for number, finding in enumerate(self.findings, 1)]
        parts += [f"not checked: {each}" for each in self.unchecked]
        found = f"{len(self.findings)} finding{'s' * (len(self.findings) != 1)}" if self.findings else "nothing found"
        launches = f"{self.launches:,} launch{'es' * (self.launches != 1)}"
        kernels = f"{len(self.kernels)} kernel{'s' * (len(self.kernels) != 1)}"
        return "\n\n".join([*parts, f"kdsl: {found} in {launches} of {kernels}"])


def _finding(finding: Finding) -> str:
    lines = [f"kernel {finding.kernel}: {finding.message}"]
    lines += _spot(finding.spot)
    if finding.other is not None:
        lines += _spot(finding.other)
    if finding.count > 1:
        lines.append(f"   found {finding.count:,} times; this is the first")
    lines.append(f"   hint: {finding.hint}")
    return "\n".join(lines)


def _spot(spot: Spot) -> list[str]:
    source = linecache.getline(spot.file, spot.line).rstrip()
    lines = [f"   {spot.what + ' at ' if spot.what else ''}{spot.place}, {_who(spot)}"]
    if source:
        shift = len(source) - len(source.lstrip())
        lines += [f"       {source.lstrip()}", f"       {' ' * max(spot.column - 1 - shift, 0)}^"]
    lines += [f"     called from {caller}" for caller in spot.callers]
    return lines


def _who(spot: Spot) -> str:
    thread = "several threads" if spot.thread is None else f"thread {spot.thread}"
    return f"several blocks, {thread}" if spot.block is None else f"block {spot.block}, {thread}"


def at_end(session: Session) -> Exception | None:
    """Report at the end of the program: into a file if the environment names one, else as an error to be printed."""
    report = session.take()
    path = os.environ.get(REPORT_FILE)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(report.as_json() + "\n")
        return None
    return SanitizerError(f"\n{report.text()}") if report.findings else None
