"""Loading object code into this process."""

from __future__ import annotations

import itertools
import struct
import threading
from dataclasses import dataclass, field
from typing import Any, Final

import llvmlite.binding as llvm

from kdsl.backend.cpu.compile import CpuObject
from kdsl.backend.llvm.module import CodeGenerationError, initialise


@dataclass(frozen=True)
class CpuCode:
    """A kernel that can be called."""

    address: int
    """Address of `void entry(i8* arguments, i64 first_block, i64 end_block, i8* scratch)`."""
    scratch_bytes: int
    """Size of the scratch memory that each running thread must bring."""
    owner: Any = field(repr=False, compare=False)
    """Keeps the code in memory."""


_numbers: Final = itertools.count()
_lock: Final = threading.Lock()
_jit: Any = None


def load(compiled: CpuObject) -> CpuCode:
    """Link an object into this process.

    Raises CodeGenerationError if it needs symbols from elsewhere: LLVM would bind what it cannot find to nothing, and a call of that ends the process.
    """
    global _jit
    missing = undefined_symbols(compiled.bytes)
    if missing:
        raise CodeGenerationError(f"the code of {compiled.entry} needs {', '.join(missing)}, which is not there")
    with _lock:
        if _jit is None:
            initialise()
            machine = llvm.Target.from_default_triple().create_target_machine(opt=0, reloc="pic", codemodel="small")
            # JITLink places all sections of an object side by side; the older linker spreads them, and ends the process when they are too far apart
            _jit = llvm.create_lljit_compiler(machine, use_jit_link=True)
        builder = llvm.JITLibraryBuilder().add_object_img(compiled.bytes).export_symbol(compiled.entry)
        library = builder.link(_jit, f"kernel.{next(_numbers)}")
    return CpuCode(library[compiled.entry], compiled.scratch_bytes, library)


def undefined_symbols(contents: bytes) -> list[str]:
    """The symbols that a 64-bit ELF object uses and does not define (System V ABI, chapter 4, "Symbol table").

    Raises CodeGenerationError for a file of another kind.
    """
    if contents[:5] != b"\x7fELF\x02":
        raise CodeGenerationError("object code is loaded from 64-bit ELF files only")
    sections_at = struct.unpack_from("<Q", contents, 0x28)[0]
    size, count = struct.unpack_from("<HH", contents, 0x3A)
    names: list[str] = []
    for number in range(count):
        header = struct.unpack_from("<IIQQQQIIQQ", contents, sections_at + number * size)
        if header[1] != 2:  # SHT_SYMTAB
            continue
        at, length, strings, entry = header[4], header[5], header[6], header[9]
        text = struct.unpack_from("<IIQQQQIIQQ", contents, sections_at + strings * size)[4]
        for symbol in range(at + entry, at + length, entry):
            name, _info, _other, section = struct.unpack_from("<IBBH", contents, symbol)
            if section == 0 and name:
                end = contents.index(b"\0", text + name)
                names.append(contents[text + name : end].decode())
    return names
