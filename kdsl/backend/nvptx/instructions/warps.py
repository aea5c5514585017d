"""A warp as a whole (PTX ISA, "bar.warp.sync", "activemask"). The mask of the barrier names all lanes: it waits for those that have not exited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.nvptx import assembly

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I32: Final = ir.IntType(32)


def _sync_warp(e: Emission) -> Sequence[Any]:
    assembly.statement(e.builder, "bar.warp.sync 0xffffffff;", convergent=True)
    return ()


def _active_mask(e: Emission) -> Sequence[Any]:
    """By the text, which no optimisation may merge or move as it does what the intrinsic says."""
    return (assembly.value(e.builder, "activemask.b32 $0;", _I32, convergent=True),)


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {"sync_warp": _sync_warp, "active_mask": _active_mask}
"""By the name of the row."""
