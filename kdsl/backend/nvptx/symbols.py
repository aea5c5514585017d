"""Names in PTX: what Python calls a kernel or an array, in the letters that PTX allows.

LLVM ends the process on a symbol that PTX cannot spell (dots, spaces, letters beyond ASCII), so every name goes through here first.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from kdsl.ir import nodes

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*|_[A-Za-z0-9_]+")
_LONGEST: Final = 200
_OURS: Final = "kdsl_"
_RESERVED: Final = frozenset({"WARP_SZ"})


def entry_name(kernel: nodes.Kernel) -> str:
    """The symbol of a kernel in its PTX."""
    return symbol(kernel.name)


def symbol(name: str) -> str:
    """The symbol of a kernel called `name`: the name itself where PTX allows it, else its legal letters and a short hash of it.

    Two names that look alike after sanitising keep different symbols; the same name has the same symbol in every process.
    """
    if _PLAIN.fullmatch(name) and len(name) <= _LONGEST and name not in _RESERVED and not name.startswith(_OURS):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{letters(name)[:_LONGEST] or 'kernel'}_{digest}"


def letters(name: str) -> str:
    """The part of a name that PTX can spell, for readable code; it may be empty, and is not unique."""
    return re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9]+", "_", name)).lstrip("_0123456789").rstrip("_")


def internal(kind: str, number: int, name: str = "") -> str:
    """The symbol of something inside the module. No kernel's symbol begins like it."""
    readable = letters(name)[:_LONGEST]
    return f"{_OURS}{kind}{number}" + (f"_{readable}" if readable else "")


def ascii_path(path: str) -> str:
    """A file name as PTX can quote it: other characters than printable ASCII, quotes and backslashes as %XX of their UTF-8 bytes."""
    keep = {byte for byte in range(0x20, 0x7F) if chr(byte) not in '"\\%'}
    return "".join(chr(byte) if byte in keep else f"%{byte:02X}" for byte in path.encode("utf-8", "surrogatepass"))
