"""A warp as a whole on the CPU: it is one group of lanes, which does each operation for all of them before the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import Lanes, Uniform
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


def _sync_warp(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    return ()


def _active_mask(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    e = emission
    return [Uniform(e.masks.packed(e.mask) if e.mask is not None else ir.Constant(e.masks.bits, -1))]


EMITTERS: Final = {"sync_warp": _sync_warp, "active_mask": _active_mask}
