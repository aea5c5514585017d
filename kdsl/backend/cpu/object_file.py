"""What object code says of itself (ELF for 64 bits: System V ABI, chapter 4)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from kdsl.backend.llvm.module import CodeGenerationError

_SYMBOLS: Final = 2  # SHT_SYMTAB
_RELOCATIONS: Final = 4  # SHT_RELA
_REACH: Final = 1 << 30
"""Half of what a relocation of 32 bits takes: the rest is for the distance between the sections of an object."""


def _sections(contents: bytes) -> list[tuple[int, ...]]:
    """The headers of its sections: name, kind, flags, address, place, length, link, info, alignment, size of an entry."""
    if contents[:5] != b"\x7fELF\x02":
        raise CodeGenerationError("object code is loaded from 64-bit ELF files only")
    start = struct.unpack_from("<Q", contents, 0x28)[0]
    size, count = struct.unpack_from("<HH", contents, 0x3A)
    return [struct.unpack_from("<IIQQQQIIQQ", contents, start + number * size) for number in range(count)]


def _entries(contents: bytes, kind: int, form: str) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The entries of all sections of a kind, each with its section's header."""
    for header in _sections(contents):
        if header[1] == kind:
            for at in range(header[4], header[4] + header[5], header[9]):
                yield header, struct.unpack_from(form, contents, at)


def undefined_symbols(contents: bytes) -> list[str]:
    """The symbols that an object uses and does not define. Raises CodeGenerationError for a file of another kind."""
    names: list[str] = []
    sections = _sections(contents)
    for header, (name, _info, _other, section) in _entries(contents, _SYMBOLS, "<IBBH"):
        if section == 0 and name:
            start = sections[header[6]][4] + name
            names.append(contents[start : contents.index(b"\0", start)].decode())
    return names


def reaches_far(contents: bytes) -> bool:
    """Whether it names a place so far from a symbol that the distance may not fit the field of an instruction."""
    return any(abs(addend) > _REACH for _, (_at, _info, addend) in _entries(contents, _RELOCATIONS, "<QQq"))
