"""Registers that warpgroups hand to each other (PTX ISA, "setmaxnreg").

ptxas has to know how many registers a thread has at the start: what is left if one block has them all, which the entry says (`.minnctapersm`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import intrinsic

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I32: Final = ir.IntType(32)
_NAMES: Final = {"increase_registers": "inc", "decrease_registers": "dec"}


def _set(e: Emission) -> Sequence[Any]:
    name = f"llvm.nvvm.setmaxnreg.{_NAMES[e.op.name]}.sync.aligned.u32"
    count = e.op.options["count"]
    e.builder.call(intrinsic(e.builder.module, name, ir.VoidType(), [_I32], convergent=True), [_I32(count)])
    return ()


EMITTERS: Final = dict.fromkeys(_NAMES, _set)
