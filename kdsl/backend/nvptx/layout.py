"""Where code lies in PTX. LLVM takes two branches where a reversed one would do, and of two ways ptxas then puts the one first that is hardly ever taken."""

from __future__ import annotations

import re
from typing import Final

SECOND_RUN: Final = "// second run"
"""A comment at the start of what a thread does when a check has failed (`kdsl.backend.nvptx.again`)."""

_NOTES: Final = r"(?:[ \t]*(?:\.loc\b|//)[^\n]*\n|\$L__tmp\d+:\n)*"
_BEGINS: Final = re.compile(r"^(\$L__BB\d+_\d+):\n((?:[ \t]*(?:\.loc\b|//)[^\n]*\n|\$L__tmp\d+:\n)*)", re.MULTILINE)
_TWO_BRANCHES: Final = re.compile(
    rf"^\t@(%p\d+) bra[ \t]+(\$L__BB\d+_\d+);\n({_NOTES})\tbra\.uni[ \t]+(\$L__BB\d+_\d+);\n({_NOTES})\2:", re.MULTILINE
)


def first_run_first(ptx: str) -> str:
    """The same program, in which a thread whose checks hold goes straight on."""
    if SECOND_RUN not in ptx:
        return ptx
    second = {found[1] for found in _BEGINS.finditer(ptx) if SECOND_RUN in found[2]}

    def reversed_branch(found: re.Match[str]) -> str:
        holds, inside, notes, left, more = found.groups()
        return f"\t@!{holds} bra \t{left};\n{notes}{more}{inside}:" if left in second else found[0]

    return _TWO_BRANCHES.sub(reversed_branch, ptx)
