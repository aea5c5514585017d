"""A warp as a whole on the CPU: it is one group of lanes, which does each operation for all of them before the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdsl.backend.cpu.lanes import Lanes
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


def _sync_warp(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    return ()


EMITTERS: Final = {"sync_warp": _sync_warp}
