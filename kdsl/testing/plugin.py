"""A plugin of pytest: with `--kdsl-sanitize` every kernel that tests launch on the CPU is watched, and a test fails if something is found in its kernels;
with `--kdsl-same-bits` and `--kdsl-bits-file` what tests read is compared between devices and runs (`same_bits.py`).

Installed with kdsl; from a source tree that is not installed it is `-p kdsl.testing.plugin`. A test that plants faults takes what is found out of the report
with `kdsl.testing.sanitized()`.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from kdsl.runtime import sanitizer
from kdsl.testing import same_bits


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("kdsl")
    group.addoption(
        "--kdsl-sanitize",
        action="store_true",
        help="Watch what kernels do on the CPU; races and other faults fail the test (docs/sanitizer.md).",
    )
    group.addoption("--kdsl-sanitize-nan", action="store_true", help="The same, and report where a NaN or an infinity first arises.")
    group.addoption("--kdsl-same-bits", action="store_true", help="Tests must read the same bytes on all devices (docs/same-bits.md).")
    group.addoption("--kdsl-bits-file", type=Path, metavar="FILE", help="Write what tests read to FILE, or if it exists compare with it.")


def pytest_configure(config: pytest.Config) -> None:
    """Turn the sanitizer on before tests are imported, with the CPU as the default device."""
    file = config.getoption("--kdsl-bits-file")
    if config.getoption("--kdsl-same-bits") or file is not None:
        same_bits.start(config, file)
    numbers = config.getoption("--kdsl-sanitize-nan")
    if numbers or config.getoption("--kdsl-sanitize"):
        os.environ["KDSL_DEVICE"] = "cpu"
        sanitizer.start(numbers=numbers)
        config.stash[_UNCHECKED] = {}


_UNCHECKED: pytest.StashKey[dict[str, None]] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test in which something was found. What its kernels check by themselves is the test's affair: it gets a BoundsError."""
    try:
        result = yield
    finally:
        session = sanitizer.session()
        report = None if session is None else session.take()
    if report is not None:
        item.config.stash[_UNCHECKED].update(dict.fromkeys(report.unchecked))
        if not all(finding.reported for finding in report.findings):
            pytest.fail(report.text(), pytrace=False)
    return result


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what a worker of pytest-xdist has looked at."""
    session = sanitizer.session()
    launches, kernels, unchecked = getattr(node, "workeroutput", {}).get("kdsl_watched", (0, (), ()))
    if session is not None and _UNCHECKED in node.config.stash:
        session.launches += launches
        session.kernels.update(kernels)
        node.config.stash[_UNCHECKED].update(dict.fromkeys(unchecked))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what this process has looked at to the one that reports, if another one does."""
    watched, given = sanitizer.session(), getattr(session.config, "workeroutput", None)
    if watched is not None and given is not None and _UNCHECKED in session.config.stash:
        unchecked = session.config.stash[_UNCHECKED]
        given["kdsl_watched"] = (watched.launches, sorted(watched.kernels), list(unchecked))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how much was looked at, and what was not."""
    session = sanitizer.session()
    if session is None or _UNCHECKED not in config.stash:
        return
    terminalreporter.write_line(f"kdsl: {session.launches:,} launches of {len(session.kernels)} kernels were watched")
    for each in config.stash[_UNCHECKED]:
        terminalreporter.write_line(f"kdsl: not checked: {each}")
