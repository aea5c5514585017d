"""Dependent launches on the CPU: what a launch depends on has ended before it begins, and nothing that depends on it begins before it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kdsl.backend.cpu.lanes import Lanes
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


def _nothing(emission: Emission, op: nodes.Instruction) -> Sequence[Lanes]:
    return ()


EMITTERS: Final = {"wait_for_dependencies": _nothing, "launch_dependents": _nothing}
