"""A few native instructions of the runtime's own, from LLVM IR: where Python would be too slow, or may not run."""

from __future__ import annotations

from typing import Any

from kdsl.runtime.lock import compiling


def native(source: str, entry: str) -> Any:
    """The function `entry` of a module of LLVM IR that calls nothing by name, compiled and loaded in some milliseconds: its `address`, as long as the object
    lives."""
    import llvmlite.binding as llvm  # only where it is needed

    from kdsl.backend.cpu.compile import CpuObject
    from kdsl.backend.cpu.jit import load
    from kdsl.backend.llvm.module import initialise

    with compiling:
        initialise()
        module = llvm.parse_assembly(source)
        machine = llvm.Target.from_default_triple().create_target_machine(opt=2, reloc="pic", codemodel="small")
        return load(CpuObject(machine.emit_object(module), entry, 0))
