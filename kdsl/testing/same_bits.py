"""A plugin of pytest that compares what tests read back from their devices, byte for byte: between devices, and between runs.

With `--kdsl-same-bits` a test that is parametrised by a device must read the same bytes (`Array.numpy()`) on each of them, in the same order; one that reads
more on one device is compared as far as the other goes. With `--kdsl-bits-file FILE` moreover the first run writes what all tests read, and later ones, with
other settings (KDSL_THREADS, KDSL_SHUFFLE_BLOCKS, KDSL_CPU) or on another machine, must read the same. NaNs compare equal.

Exceptions stand in `same_bits_exceptions.toml`, in the root folder of the tests' project or in its folder `tests`: the beginning of a test's id, in which `*`
stands for anything, and the reason. The device is not part of the id.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from kdsl.runtime.array import Array
from kdsl.runtime.device import Device

_PROPERTY: Final = "kdsl bits"
_NAME: Final = "kdsl-same-bits"
EXCEPTIONS: Final = "same_bits_exceptions.toml"
_SHOWN: Final = 50

Read = dict[str, dict[str, list[str]]]
"""For each test, and each device (or `any`), the digests of all arrays that it read."""


def start(config: pytest.Config, file: Path | None = None) -> None:
    """Compare from now on, if that is not done yet; `file` is what other runs are compared by."""
    if not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(SameBits(exceptions_of(config.rootpath), file), _NAME)


def exceptions_of(root: Path) -> dict[str, str]:
    """The exceptions of a project, with their reasons. Raises UsageError for a file that says something else."""
    path = next((path for path in (root / EXCEPTIONS, root / "tests" / EXCEPTIONS) if path.exists()), None)
    if path is None:
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise pytest.UsageError(f"{path} cannot be read: {error}") from error
    for test, reason in found.items():
        if not isinstance(reason, str) or not reason:
            raise pytest.UsageError(f'{path}: {test} has no reason; a line is "test" = "reason"')
    return found


def names(pattern: str, test: str) -> bool:
    """Whether an exception names a test."""
    return re.match(".*".join(re.escape(part) for part in pattern.split("*")), test) is not None


def digest(values: npt.NDArray[Any]) -> str:
    """A short name of an array's type, shape and bytes, the same for all NaNs."""
    found = hashlib.sha256(f"{values.dtype.str if values.dtype.names is None else values.dtype.descr} {values.shape}".encode())
    _update(found, values)
    return found.hexdigest()[:24]


def _update(found: Any, values: npt.NDArray[Any]) -> None:
    if values.dtype.names is not None:
        for name in values.dtype.names:
            _update(found, values[name])
        return
    if values.dtype.kind not in "biu":
        nan = np.isnan(values)
        if nan.any():
            values = np.where(nan, values.dtype.type(np.nan), values)
    found.update(values.tobytes())


class SameBits:
    """Records what tests read back, and compares it when all have run."""

    def __init__(self, exceptions: Mapping[str, str], file: Path | None) -> None:
        self._exceptions = exceptions
        self._file = file
        self._read: Read = {}
        self._found: list[str] = []
        """What differs, for people."""
        self._excepted: dict[str, int] = {}
        """How many tests differ under each exception."""
        self._compared = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note all that is read while the test runs."""
        read: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Array, "numpy", _recording(Array.numpy, read))
            try:
                return (yield)
            finally:
                test, device = _identity(item)
                if read and (device is not None or self._file is not None):
                    item.user_properties.append((_PROPERTY, [test, "any" if device is None else str(device), read]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a test has read, here or in another process."""
        if report.when == "call" and report.passed:
            for name, value in report.user_properties:
                if name == _PROPERTY:
                    recorded: Any = value
                    test, device, read = recorded
                    self._read.setdefault(test, {})[device] = read

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare."""
        if hasattr(session.config, "workerinput"):
            return
        for test, by_device in self._read.items():
            first, *others = sorted(by_device)
            for other in others:
                self._compare(test, f"{first} and {other}", list(zip(by_device[first], by_device[other], strict=False)))
        if self._file is not None:
            self._compare_with_file(self._file)
        if self._found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _compare_with_file(self, file: Path) -> None:
        if not file.exists():
            file.write_text(json.dumps(self._read, indent=0), encoding="utf-8")
            return
        before: Read = json.loads(file.read_text(encoding="utf-8"))
        for test in before.keys() & self._read.keys():
            for device in before[test].keys() & self._read[test].keys():
                first, second = before[test][device], self._read[test][device]
                if len(first) != len(second):
                    self._differs(test, f"{device}: {len(first)} arrays were read before, and {len(second)} now")
                else:
                    self._compare(test, f"{device} before and now", list(zip(first, second, strict=True)))

    def _compare(self, test: str, between: str, pairs: list[tuple[str, str]]) -> None:
        self._compared += 1
        different = [number for number, (first, second) in enumerate(pairs, 1) if first != second]
        if different:
            self._differs(test, f"{between}: array {different[0]} of {len(pairs)} that the test reads")

    def _differs(self, test: str, what: str) -> None:
        by = [pattern for pattern in self._exceptions if names(pattern, test)]
        if by:
            self._excepted[by[0]] = self._excepted.get(by[0], 0) + 1
        else:
            self._found.append(f"{test}: {what}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what differs, and what was compared."""
        write = terminalreporter.write_line
        for line in sorted(self._found)[:_SHOWN]:
            write(f"kdsl: other bits: {line}", red=True)
        if self._compared:
            write(
                f"kdsl: same bits: {self._compared} comparisons, {len(self._found)} differ, {sum(self._excepted.values())} more are exceptions"
            )
            for pattern, count in self._excepted.items():
                write(f"kdsl: exception: {count} times {pattern} ({self._exceptions[pattern]})")


def _recording(original: Callable[[Array], npt.NDArray[Any]], read: list[str]) -> Callable[[Array], npt.NDArray[Any]]:
    def numpy(array: Array) -> npt.NDArray[Any]:
        values = original(array)
        read.append(digest(values))
        return values

    return numpy


def _identity(item: pytest.Item) -> tuple[str, Device | None]:
    """The test's id without its device, and the device."""
    call = getattr(item, "callspec", None)
    device = None if call is None else next((value for value in call.params.values() if isinstance(value, Device)), None)
    if call is None or device is None:
        return item.nodeid, None
    base, _, _ = item.nodeid.partition("[")
    parts = call.id.split("-")
    if str(device) in parts:
        parts.remove(str(device))
    return f"{base}[{'-'.join(parts)}]", device
