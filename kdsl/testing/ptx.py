"""For the tests of kernel authors: does PTX assemble, with how many registers, and does it contain what it should?

Needs the test extra (`pip install kdsl[test]`): `filecheck`, and ptxas from `nvidia-cuda-nvcc` (one on PATH serves too). No GPU is needed.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

_TIMEOUT: Final = 300.0


class AssemblyError(AssertionError):
    """ptxas refuses the PTX; the message is its own, with the lines that it names."""


class CheckError(AssertionError):
    """The text does not match the directives; the message is filecheck's, and the text."""


@dataclass(frozen=True)
class Report:
    """What ptxas says of a module."""

    registers: int
    """Most registers of a thread, over the entries."""
    spills: int
    """Bytes that are spilled to local memory, stores and loads together."""
    stack: int
    """Largest stack frame of a function in bytes (local arrays that are not in registers count)."""
    shared: int
    """Most bytes of static shared memory, over the entries."""
    log: str
    """All that it printed."""


@cache
def find_ptxas() -> Path:
    """The ptxas of the Python package `nvidia-cuda-nvcc`, else the one on PATH. Raises FileNotFoundError if there is neither."""
    for package in ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu13"):
        try:
            files = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            continue
        for file in files:
            path = Path(str(file.locate()))
            if file.name in ("ptxas", "ptxas.exe") and path.is_file():
                return path
    found = shutil.which("ptxas")
    if found is None:
        raise FileNotFoundError("there is no ptxas: install the test extra (kdsl[test], package nvidia-cuda-nvcc) or put ptxas on PATH")
    return Path(found)


def assemble(ptx: str, target: str, *, options: tuple[str, ...] = ()) -> Report:
    """Assemble PTX for a target such as `sm_90`; raises AssemblyError if ptxas refuses it, or warns of anything."""
    with tempfile.TemporaryDirectory(prefix="kdsl-ptxas-") as folder:
        source = Path(folder, "module.ptx")
        source.write_text(ptx, encoding="ascii")
        command = [str(find_ptxas()), "-v", f"-arch={target}", *options, str(source), "-o", str(Path(folder, "module.cubin"))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    log = done.stdout + done.stderr
    if done.returncode != 0 or "warning" in log:
        raise AssemblyError(f"ptxas -arch={target} ends with status {done.returncode}:\n{log}{_named_lines(ptx, log)}")
    return Report(
        registers=_most(r"Used (\d+) registers", log),
        spills=sum(int(n) for pair in re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log) for n in pair),
        stack=_most(r"(\d+) bytes stack frame", log),
        shared=_most(r"(\d+) bytes smem", log),
        log=log,
    )


def filecheck(text: str, directives: str, *, prefix: str = "CHECK") -> None:
    """Match text (PTX, say) against FileCheck directives (`CHECK:`, `CHECK-NEXT:`, `CHECK-NOT:` …), such as those in the docstring of a test.

    Raises CheckError if they do not match, or if there are none.
    """
    from filecheck.matcher import Matcher
    from filecheck.options import Options

    with tempfile.TemporaryDirectory(prefix="kdsl-filecheck-") as folder:
        checks, checked = Path(folder, "directives"), Path(folder, "text")
        checks.write_text(directives, encoding="utf-8")
        checked.write_text(text, encoding="utf-8")
        matcher = Matcher.from_opts(Options(match_filename=str(checks), input_file=str(checked), check_prefixes=[prefix]))
        matcher.stderr = said = io.StringIO()
        status = matcher.run()
    if status != 0:
        raise CheckError(f"{said.getvalue()}\nin this text:\n{text}")


def _most(pattern: str, log: str) -> int:
    return max((int(n) for n in re.findall(pattern, log)), default=0)


def _named_lines(ptx: str, log: str) -> str:
    lines = ptx.splitlines()
    numbers = sorted({int(n) for n in re.findall(r"line (\d+)", log)})
    return "".join(f"{n:6}: {lines[n - 1]}\n" for n in numbers[:20] if 0 < n <= len(lines))
