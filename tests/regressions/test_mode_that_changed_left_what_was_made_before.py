"""Elsewhere a build in another mode was served what the mode before had left behind, and the compiler that made it had moved on from what it was called with.

Modes are checked builds, builds without checks, the sanitizer, and the releases of kdsl and llvmlite. Each is changed there and back with one cache, in one
process and from process to process.
"""

from __future__ import annotations

import importlib.metadata
import linecache
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np
import pytest
from from_text import DEVICES

import kdsl
from kdsl import compiler
from kdsl.testing import sanitized

TEXT = """
from kdsl import Slice, SliceMut, i32, kernel, thread_index

@kernel(grid=1, block=32)
def quotient(y: SliceMut[i32], x: Slice[i32], n: Slice[i32]) -> None:
    i = thread_index()
    y[i] = x[i] // n[i]
"""
FILE = "/somewhere/quotient.py"
X, N = np.full(32, 7, np.int32), np.where(np.arange(32) == 5, 0, 2).astype(np.int32)
"""A division by zero gives 0, which checked builds and the sanitizer report."""
PROGRAM = f"""
import linecache
import numpy as np
import kdsl

linecache.cache[{FILE!r}] = ({len(TEXT)}, None, {TEXT.splitlines(True)}, {FILE!r})
exec(compile({TEXT!r}, {FILE!r}, "exec"))
device = kdsl.device("cpu")
y = device.zeros(32, i32)
quotient(y, device.array(np.full(32, 7, np.int32)), device.array((np.arange(32) != 5).astype(np.int32)))
try:
    print(y.numpy()[4:7].tolist())
except kdsl.BoundsError:
    print("reported")
print("kdsl_record_failure" in quotient.ptx("sm_90"))
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of the test's own, and afterwards the mode that was there before."""
    monkeypatch.setenv("KDSL_CACHE_DIR", str(tmp_path / "cache"))
    before = compiler._checks
    yield tmp_path / "cache"
    compiler._checks = before


def made() -> Any:
    """The kernel, from one file whenever it is made, so that nothing but the mode tells one build from another."""
    linecache.cache[FILE] = (len(TEXT), None, TEXT.splitlines(True), FILE)
    space: dict[str, Any] = {"__name__": "quotients"}
    exec(compile(TEXT, FILE, "exec"), space)
    return space["quotient"]


def outcome(device: Any, kernel: Any) -> str:
    """What a launch says: its result, or that a check has failed."""
    y = device.array(np.full(32, -1, np.int32))
    kernel(y, device.array(X), device.array(N))
    try:
        assert y.numpy().tolist() == np.where(N == 0, 0, 3).tolist()
    except kdsl.BoundsError:
        return "reported"
    return "gives 0"


@DEVICES
def test_there_and_back_in_a_process(device: Any, own_cache: Path) -> None:
    said = []
    for mode in ("plain", "checked", "plain", "unchecked", "checked", "unchecked", "plain"):
        kdsl.checked(False)
        {"plain": lambda: None, "checked": kdsl.checked, "unchecked": kdsl.unchecked}[mode]()
        said.append((mode, outcome(device, made())))
    assert said == [(mode, "reported" if mode == "checked" else "gives 0") for mode, _ in said]


def test_there_and_back_with_the_sanitizer(own_cache: Path) -> None:
    cpu = kdsl.device("cpu")
    for _ in range(2):
        assert outcome(cpu, made()) == "gives 0"
        with sanitized() as found:
            assert outcome(cpu, made()) == "gives 0"
        assert [finding.kind for finding in found] == ["divide"]
    entries = len(list(own_cache.glob("*.kdsl")))
    assert entries == 2


def test_there_and_back_from_process_to_process(own_cache: Path) -> None:
    said = []
    for mode in ({}, {"KDSL_CHECKED": "1"}, {"KDSL_UNCHECKED": "1"}) * 2:
        environment = {name: value for name, value in os.environ.items() if name not in ("KDSL_CHECKED", "KDSL_UNCHECKED")}
        environment |= {"KDSL_CACHE_DIR": str(own_cache), "PYTHONPATH": os.pathsep.join(sys.path), **mode}
        ended = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True, timeout=120)
        said.append(ended.stdout.splitlines())
    assert said == [["[7, 0, 7]", "True"], ["reported", "True"], ["[7, 0, 7]", "False"]] * 2
    assert len(list(own_cache.glob("*.kdsl"))) == 6


@pytest.mark.parametrize("changed", ["kdsl", "llvmlite"])
def test_another_release_makes_its_own(changed: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the release before has left in the cache is not touched, and serves again when one goes back to it."""

    def entries() -> set[str]:
        compiler._version_of_compiler.cache_clear()
        kernel = made()
        kernel.ptx("sm_90")
        kernel.compile("cpu")
        return {path.name for path in own_cache.glob("*.kdsl")}

    before = entries()
    with monkeypatch.context() as patched:
        if changed == "llvmlite":
            patched.setattr(llvmlite, "__version__", "999.0")
        else:
            patched.setattr(importlib.metadata, "version", lambda name: "999.0")
        after = entries()
    assert len(before) == 2
    assert len(after) == 4
    assert entries() == after
