"""What a kernel needs of a target: the rows of the table of intrinsics that it uses, and the target of a GPU that has them."""

from __future__ import annotations

import dataclasses
from typing import Final

from kdsl.backend.nvptx import targets
from kdsl.ir import nodes
from kdsl.ir.rows import rows_of
from kdsl.lang.intrinsics import INTRINSICS, Intrinsic, ToBarrier

_BARRIERS: Final = tuple(name for name, row in INTRINSICS.items() if isinstance(row.lowering, ToBarrier))


def needs(kernel: nodes.Kernel) -> list[tuple[Intrinsic, nodes.Location]]:
    """The rows that a kernel uses and that may have floors, each with its first place; of inline PTX with the floors that it names itself."""
    used: dict[str, nodes.Location] = {}
    found: list[tuple[Intrinsic, nodes.Location]] = []
    cluster = kernel.attributes.cluster
    if cluster is not None:
        found.append((dataclasses.replace(INTRINSICS["cluster_rank"], name=f"@kernel(cluster={cluster})"), kernel.location))
    for op in nodes.walk(kernel.body):
        if isinstance(op, nodes.Instruction) and "target" in op.options:
            found.append((_named(INTRINSICS[op.name], str(op.options["target"]), str(op.options["ptx"])), op.location))
        else:
            for name in _BARRIERS if isinstance(op, nodes.Barrier) else rows_of(op):
                used.setdefault(name, op.location)
    return [*found, *((targets.row_of(name), place) for name, place in used.items())]


def target_for(kernel: nodes.Kernel, gpu: str) -> str:
    """The target to compile a kernel for that is to run on a GPU of the compute capability of `gpu`: `sm_90a` for `sm_90` if it uses what only that has."""
    return targets.specific(gpu, (row for row, _ in needs(kernel)))


def _named(row: Intrinsic, target: str, ptx: str) -> Intrinsic:
    major, _, minor = ptx.partition(".")
    found = targets.find(target)
    only = (target,) if target.endswith("a") else ()
    return dataclasses.replace(row, least_ptx=max((int(major), int(minor)), found.least_ptx), least_capability=found.capability, only=only)
