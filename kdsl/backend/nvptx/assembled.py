"""Whether the assembler makes of a kernel what was meant: nothing refused, nothing serialised that should run beside other work, no spills where they are
forbidden.

A kernel is assembled when it is built if it uses rows of the table that ask for it, or forbids spills, and if ptxas is at hand; without ptxas the driver alone
assembles, and `kdsl explain` shows the same elsewhere. What is not here: running ptxas.
"""

from __future__ import annotations

import re
from typing import Final

from kdsl.backend.nvptx.ptxas import AssemblyError, Report, assemble, find_ptxas
from kdsl.backend.nvptx.symbols import ascii_path
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS

_NOTES: Final = {
    "C7508": "give the kernel a fixed block, so that registers can be moved between its warps",
    "C7514": "wait with wgmma_wait(0) at the end of a group, and read its accumulators only then",
    "C7517": "call wgmma_commit() and wgmma_wait(0) before accumulators are read, or tiles written",
    "C7519": "call wgmma_fence() before the first product, and whenever other code has touched the accumulators",
}
"""What to do about a note of ptxas."""
_WGMMA: Final = "keep wgmma_fence(), the products, wgmma_commit() and wgmma_wait() in one straight piece of code, and accumulators in unrolled loops only"
_LOC: Final = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)", re.MULTILINE)
_FILE: Final = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)


class BuildError(Exception):
    """What the assembler made of a kernel is not what was meant."""

    def __init__(self, message: str, location: nodes.Location, hint: str) -> None:
        super().__init__(message)
        self.message = message
        """What is wrong."""
        self.location = location
        """Where in the source, as far as the assembler knows."""
        self.hint = hint
        """What to do."""


def is_wanted(kernel: nodes.Kernel) -> bool:
    """Whether the kernel is to be assembled when it is built."""
    return not kernel.spills or any(isinstance(op, nodes.Instruction) and INTRINSICS[op.name].assembled for op in nodes.walk(kernel.body))


def assembler() -> str | None:
    """What tells one assembler from another, None if there is none."""
    try:
        path = find_ptxas()
    except FileNotFoundError:
        return None
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def check(kernel: nodes.Kernel, ptx: str, target: str) -> Report:
    """Assemble the PTX of a kernel. Raises BuildError, which names the kernel, for what ptxas refuses or notes, and for spills that the kernel forbids."""
    try:
        report = assemble(ptx, target)
    except AssemblyError as error:
        raise _refused(kernel, ptx, target, error) from None
    if report.spills and not kernel.spills:
        raise BuildError(spilled(kernel.name, target, report), kernel.location, _HINT_SPILLS)
    return report


def spilled(name: str, target: str, report: Report) -> str:
    """What a kernel that forbids spills is told of them."""
    return f"kernel {name} spills {report.spills} bytes of registers for {target} ({report.registers} registers per thread), and forbids it"


_HINT_SPILLS: Final = (
    "keep fewer values at a time (smaller tiles, shorter unrolled loops), make the block smaller, or allow it with spills=True"
)


def _refused(kernel: nodes.Kernel, ptx: str, target: str, error: AssemblyError) -> BuildError:
    complaint = error.complaints[0] if error.complaints else str(error)
    note = re.search(r"\((C\d+)\)", complaint)
    hint = (
        _NOTES.get(note[1], _WGMMA) if note else "the line is that of the instruction that ptxas refuses; see the PTX ISA for its operands"
    )
    number = next((int(found[1]) for text in error.complaints if (found := re.search(r"line (\d+)", text))), None)
    text = re.sub(r"^\S*ptxas\S* (?:\S+\.ptx, )?", "", complaint).strip()
    return BuildError(f"ptxas on kernel {kernel.name} for {target}: {text}", _place(kernel, ptx, number), hint)


def _place(kernel: nodes.Kernel, ptx: str, number: int | None) -> nodes.Location:
    """The place in the source of a line of PTX; that of the kernel if it is unknown."""
    if number is None:
        return kernel.location
    before = "\n".join(ptx.splitlines()[:number])
    found = list(_LOC.finditer(before))
    files = {file[1]: file[2] for file in _FILE.finditer(ptx)}
    if not found or found[-1][2] == "0" or files.get(found[-1][1]) != ascii_path(kernel.location.file):
        return kernel.location
    line, column = int(found[-1][2]), max(int(found[-1][3]) - 1, 0)
    return nodes.Location(kernel.location.file, line, column, line, column + 1, kernel.location.function)
