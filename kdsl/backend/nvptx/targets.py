"""The GPUs that PTX can be made for, and the PTX version that a kernel then needs.

A driver refuses PTX that is newer than itself, so every kernel gets the least version that its target and its intrinsics need. LLVM ends the process
on an impossible pair of the two; nothing but the pairs of this table reaches it. What is not here: intrinsics (their floors stand in their own table).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from kdsl.ir.nodes import Location
from kdsl.lang.intrinsics import INTRINSICS, Intrinsic

Version: TypeAlias = tuple[int, int]


class TargetError(ValueError):
    """The target is unknown, or lacks what the kernel uses."""

    def __init__(self, reason: str, location: Location | None = None) -> None:
        super().__init__(reason if location is None else f"{location}: {reason}")
        self.reason = reason
        """What is missing."""
        self.location = location
        """What needs it in the source, None if it is no matter of a kernel."""


@dataclass(frozen=True)
class Target:
    """One kind of GPU."""

    name: str
    """Name as ptxas takes it, such as `sm_90a`."""
    capability: int
    """Compute capability, times ten."""
    least_ptx: Version
    """First PTX version that knows it (PTX ISA, "Release history")."""
    doc: str
    """What carries it."""


TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for target in (
        Target("sm_80", 80, (7, 0), "A100"),
        Target("sm_86", 86, (7, 1), "GeForce RTX 30, A10"),
        Target("sm_87", 87, (7, 4), "Jetson Orin"),
        Target("sm_89", 89, (7, 8), "GeForce RTX 40, L4, L40"),
        Target("sm_90", 90, (7, 8), "H100, H200"),
        Target("sm_90a", 90, (8, 0), "H100, H200, with the instructions that only they have"),
        Target("sm_100a", 100, (8, 6), "B200, with the instructions that only it has"),
        Target("sm_110", 110, (9, 0), "Jetson Thor"),
        Target("sm_120", 120, (8, 7), "GeForce RTX 50"),
    )
}

NEWEST_PTX: Final[Version] = (9, 0)
"""Newest PTX version that LLVM 22.1 writes."""


def find(name: str) -> Target:
    """The target of that name; raises TargetError, which lists the known ones, if there is none."""
    try:
        return TARGETS[name]
    except (KeyError, TypeError):
        raise TargetError(f"{name!r} is not a known GPU target; use one of {', '.join(TARGETS)}") from None


def version_for(target: Target, intrinsics: Iterable[str | Intrinsic]) -> Version:
    """The least PTX version for a kernel that uses these intrinsics: by their names in the language, with `:variant` behind a form that has floors of its own,
    or as they are.

    Raises TargetError, which names the intrinsic and its floor, if the target lies below it.
    """
    needed = target.least_ptx
    for row in map(row_of, intrinsics):
        if row.least_capability > target.capability:
            raise TargetError(_too_old(row, f"it needs compute capability {_capability(row.least_capability)}", target))
        if row.only and target.name not in row.only:
            raise TargetError(_too_old(row, f"only {' and '.join(row.only)} has it", target))
        if row.least_ptx > NEWEST_PTX:
            raise TargetError(
                _too_old(row, f"it needs PTX {_dotted(row.least_ptx)}; the newest that can be written is {_dotted(NEWEST_PTX)}", target)
            )
        needed = max(needed, row.least_ptx)
    return needed


def row_of(name: str | Intrinsic) -> Intrinsic:
    """The row of an intrinsic, or what it is for a variant of it."""
    if isinstance(name, Intrinsic):
        return name
    name, _, variant = name.partition(":")
    row = INTRINSICS[name]
    if not variant:
        return row
    least_ptx, least_capability = row.variants[variant]
    return replace(row, name=f"{name}() {variant}", least_ptx=least_ptx, least_capability=least_capability)


def specific(name: str, intrinsics: Iterable[str | Intrinsic]) -> str:
    """The target for a kernel on a GPU of the target `name`: `sm_90a` for `sm_90` if the kernel uses what only that has."""
    if name not in TARGETS and f"{name}a" in TARGETS:
        return f"{name}a"
    return f"{name}a" if any(f"{name}a" in row.only for row in map(row_of, intrinsics)) else name


def features(version: Version) -> str:
    """LLVM's feature string for a PTX version."""
    return f"+ptx{version[0]}{version[1]}"


def _too_old(row: Intrinsic, reason: str, target: Target) -> str:
    has = f"compute capability {_capability(target.capability)}"
    name = row.name if "(" in row.name else f"{row.name}()"
    return f"{name} cannot be compiled for {target.name} ({target.doc}; {has}): {reason}"


def _capability(times_ten: int) -> str:
    return f"{times_ten // 10}.{times_ten % 10}"


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
