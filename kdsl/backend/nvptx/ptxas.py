"""ptxas, NVIDIA's assembler of PTX: where it is, and what it says of a module. No GPU is needed.

The driver assembles by itself when a kernel is loaded; this is for what wants to know before: tests and `kdsl explain`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Final

_TIMEOUT: Final = 300.0

_FATAL_NOTES: Final = re.compile(r"\(C75(?:08|1[0-9]|20)\)")
"""C7508 and C7510 to C7520, which are mere notes: what was meant to run beside other work (`wgmma`, `setmaxnreg`) is serialised or ignored."""


class AssemblyError(AssertionError):
    """ptxas refuses the PTX, warns of it, or notes that it is not what was meant; the message is its own, with the lines that it names."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.complaints = tuple(line.strip() for line in log.splitlines() if not is_clean(line) or re.search(r"\b(error|fatal)\b", line))
        """The lines that say why."""


@dataclass(frozen=True)
class Report:
    """What ptxas says of a module."""

    registers: int
    """Most registers of a thread, over the entries."""
    spills: int
    """Bytes that are spilled to local memory, stores and loads together. What the function that records a failed check spills does not count: it saves
    registers of a caller that fills all of them, and runs only when a check has failed."""
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
    """Assemble PTX for a target such as `sm_90`.

    Raises AssemblyError if ptxas refuses it, warns of anything, or notes that instructions were serialised or ignored; FileNotFoundError without ptxas.
    """
    return _assembled(find_ptxas(), ptx, target, options)


@lru_cache(maxsize=32)
def _assembled(assembler: Path, ptx: str, target: str, options: tuple[str, ...]) -> Report:
    """What is assembled when it is built is often asked about again right after that."""
    with tempfile.TemporaryDirectory(prefix="kdsl-ptxas-") as folder:
        source = Path(folder, "module.ptx")
        source.write_text(ptx, encoding="ascii")
        command = [str(assembler), "-v", f"-arch={target}", *options, str(source), "-o", str(Path(folder, "module.cubin"))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    log = done.stdout + done.stderr
    if done.returncode != 0 or not is_clean(log):
        raise AssemblyError(f"ptxas -arch={target} ends with status {done.returncode}:\n{log}{_named_lines(ptx, log)}", log)
    return Report(
        registers=_most(r"Used (\d+) registers", log),
        spills=sum(spills_of(log).values()),
        stack=_most(r"(\d+) bytes stack frame", log),
        shared=_most(r"(\d+) bytes smem", log),
        log=log,
    )


def spills_of(log: str) -> dict[str, int]:
    """Bytes that each function spills, stores and loads together, from what ptxas printed."""
    found = re.findall(r"Function properties for (\S+)\s+\d+ bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    return {name: int(stores) + int(loads) for name, stores, loads in found}


def is_clean(log: str) -> bool:
    """Whether what ptxas printed holds neither a warning nor a note that has to fail a build."""
    return "warning" not in log and not _FATAL_NOTES.search(log)


def _most(pattern: str, log: str) -> int:
    return max((int(n) for n in re.findall(pattern, log)), default=0)


def _named_lines(ptx: str, log: str) -> str:
    lines = ptx.splitlines()
    numbers = sorted({int(n) for n in re.findall(r"line (\d+)", log)})
    return "".join(f"{n:6}: {lines[n - 1]}\n" for n in numbers[:20] if 0 < n <= len(lines))
