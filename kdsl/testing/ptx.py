"""For the tests of kernel authors: does PTX assemble, with how many registers, and does it contain what it should?

Needs the test extra (`pip install kdsl[test]`): `filecheck`, and ptxas from `nvidia-cuda-nvcc` (one on PATH serves too). No GPU is needed.
"""

from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path
from typing import Final

from kdsl.backend.nvptx.failure import RECORDING
from kdsl.backend.nvptx.ptxas import AssemblyError, Report, assemble, find_ptxas

__all__ = ["AssemblyError", "CheckError", "Report", "assemble", "filecheck", "find_ptxas", "unrecorded"]

_CLAIM: Final = re.compile(r"^\tatom\.relaxed\.sys\.global\.cas\.b32 \t%r\d+, \[%rd\d+\], 0, 1;\n", re.MULTILINE)
_RECORD: Final = re.compile(rf"^\t{RECORDING}\n.*?^\t// end inline asm\n", re.MULTILINE | re.DOTALL)


class CheckError(AssertionError):
    """The text does not match the directives; the message is filecheck's, and the text."""


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


def unrecorded(ptx: str) -> str:
    """PTX without the instructions that record a failed check, so that those of the kernel itself can be counted."""
    return _RECORD.sub("", _CLAIM.sub("", ptx))
