"""Elsewhere an edit of a helper in another file, or of one that is chosen at run time, left the old code in the on-disk cache: stale results without a word.

The cache's key is what was made of the kernel and of all that it calls, so there is nothing to go stale.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from from_text import DEVICES, module, result_of

import kdsl

KERNEL = """
import json, sys
import kdsl
from kdsl import SliceMut, f32, kernel, function
import helpers
from helpers import direct, by_name, FACTOR

CHOICE = {{"a": direct, "b": by_name}}
chosen = CHOICE["{choice}"]

@function
def between(x: f32) -> f32:
    return helpers.deep(x) + 1.0

@kernel(grid=1, block=1)
def k(y: SliceMut[f32]) -> None:
    y[0] = direct(1.0)
    y[1] = helpers.by_name(1.0)
    y[2] = between(1.0)
    y[3] = chosen(1.0)
    y[4] = helpers.FACTOR
    y[5] = FACTOR * helpers.Inner

{more}
y = kdsl.device("cpu").zeros(6, f32)
k(y)
print(json.dumps(y.numpy().tolist()))
"""
HELPERS = """
from kdsl import function, f32
FACTOR = {factor}
Inner = 2.0
@function
def direct(x: f32) -> f32:
    return x * {direct}
@function
def by_name(x: f32) -> f32:
    return x + {by_name}
@function
def deep(x: f32) -> f32:
    return deeper(x) * 3.0
@function
def deeper(x: f32) -> f32:
    return x - {deeper}
"""


class Project:
    """Two files, one cache, and a process per run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = {"factor": 0.5, "direct": 2.0, "by_name": 10.0, "deeper": 4.0}
        self.choice, self.more = "a", ""

    def run(self) -> list[float]:
        (self.folder / "helpers.py").write_text(HELPERS.format(**self.numbers))
        (self.folder / "main.py").write_text(KERNEL.format(choice=self.choice, more=self.more))
        environment = {
            **os.environ,
            "KDSL_CACHE_DIR": str(self.folder / "cache"),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        ended = subprocess.run([sys.executable, "main.py"], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, ended.stderr
        return eval(ended.stdout)  # type: ignore[no-any-return]

    @property
    def expected(self) -> list[float]:
        n = self.numbers
        chosen = n["direct"] if self.choice == "a" else 1 + n["by_name"]
        return [n["direct"], 1 + n["by_name"], (1 - n["deeper"]) * 3 + 1, chosen, n["factor"], n["factor"] * 2]

    @property
    def entries(self) -> int:
        return len(list((self.folder / "cache").glob("*.kdsl")))


def test_every_edit_shows_in_the_next_process(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert project.run() == project.expected
    entries = project.entries
    assert project.run() == project.expected
    assert project.entries == entries  # the second process found what the first one left
    for name in project.numbers:
        project.numbers[name] += 1.0
        assert project.run() == project.expected, name
        entries += 1
        assert project.entries == entries
    project.choice = "b"
    assert project.run() == project.expected
    entries = project.entries
    project.more = "# a comment\n\n\n"  # nothing that code for the CPU follows from
    assert project.run() == project.expected
    assert project.entries == entries


@DEVICES
def test_a_helper_that_is_exchanged_in_this_process(device: Any) -> None:
    """By another function under the same name: the launch refuses the old one, a new kernel has the new one."""
    text = "@kernel(grid=1, block=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = helper(2.0)\n"
    first = module("@function\ndef helper(x):\n    return x * 2\n")["helper"]
    second = module("@function\ndef helper(x):\n    return x * 3\n")["helper"]
    space = module(text, helper=first)
    assert result_of(device, space["k"], 1, kdsl.dtype("f32")).tolist() == [4.0]
    space["k"].__wrapped__.__globals__["helper"] = second
    with pytest.raises(kdsl.LaunchError, match="helper"):
        space["k"](device.zeros(1, np.float32))
    assert result_of(device, module(text, helper=second)["k"], 1, kdsl.dtype("f32")).tolist() == [6.0]


def test_a_module_that_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`importlib.reload` after an edit, also one that leaves the size of the file as it was."""
    import importlib

    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "reloaded_kernels.py"
    text = "from kdsl import SliceMut, f32, kernel\n@kernel(grid=1, block=1)\ndef k(y: SliceMut[f32]) -> None:\n    y[0] = {}.0\n"
    path.write_text(text.format(1))
    loaded = importlib.import_module("reloaded_kernels")
    device = kdsl.device("cpu")
    assert result_of(device, loaded.k, 1, kdsl.dtype("f32")).tolist() == [1.0]
    for number in (2, 3):
        path.write_text(text.format(number))
        os.utime(path, (1e9 + number, 1e9 + number))
        importlib.invalidate_caches()
        loaded = importlib.reload(loaded)
        assert result_of(device, loaded.k, 1, kdsl.dtype("f32")).tolist() == [float(number)]
