"""Loading object code into this process."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import Any, Final

import llvmlite.binding as llvm

from kdsl.backend.cpu.compile import CpuObject
from kdsl.backend.cpu.object_file import undefined_symbols
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
