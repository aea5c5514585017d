"""Votes of a block (PTX ISA, "bar.red"): barrier 0, which all threads that have not exited come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import intrinsic

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I1: Final = ir.IntType(1)
_I32: Final = ir.IntType(32)


def _vote(mode: str, result: ir.Type) -> Callable[[Emission], Sequence[Any]]:
    def emit(e: Emission) -> Sequence[Any]:
        name = f"llvm.nvvm.barrier.cta.red.{mode}.aligned.all"
        vote = intrinsic(e.builder.module, name, result, [_I32, _I1], convergent=True)
        return (e.builder.call(vote, [_I32(0), e.arguments[0]]),)

    return emit


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {
    "sync_threads_count": _vote("popc", _I32),
    "sync_threads_and": _vote("and", _I1),
    "sync_threads_or": _vote("or", _I1),
}
"""By the name of the row."""
