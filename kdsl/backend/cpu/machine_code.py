"""LLVM's pipeline and code generator for a CPU, and what is done about two faults of theirs.

Offsets that are known are folded into the address of a table, however far below it they lie (`X86::isOffsetSuitableForCodeModel` has no limit there), also
where the check of the index keeps the access from happening, and such an object cannot be linked. It is made once more with addresses of 64 bits.
"""

from __future__ import annotations

from typing import Any

from kdsl.backend.cpu.cleared_masks import without_cleared_masks
from kdsl.backend.cpu.host import HostCpu
from kdsl.backend.cpu.object_file import reaches_far
from kdsl.backend.llvm.module import optimise


def optimised(parsed: Any, host: HostCpu, level: int) -> Any:
    """A parsed module after LLVM's pipeline of a level of 0 to 3: the same object, or another one."""
    optimise(parsed, host.machine(level), level)
    return without_cleared_masks(parsed) if host.compact_masks else parsed


def machine_code(parsed: Any, host: HostCpu, level: int) -> bytes:
    """The object file of a parsed module, optimised."""
    module = optimised(parsed, host, level)
    contents: bytes = host.machine(level).emit_object(module)
    return host.machine(level, far=True).emit_object(module) if reaches_far(contents) else contents
