"""A warp as a whole (PTX ISA, "bar.warp.sync"). The mask names all lanes: the instruction waits for those that have not exited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kdsl.backend.nvptx import assembly

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission


def _sync_warp(e: Emission) -> Sequence[Any]:
    assembly.statement(e.builder, "bar.warp.sync 0xffffffff;", convergent=True)
    return ()


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {"sync_warp": _sync_warp}
"""By the name of the row."""
