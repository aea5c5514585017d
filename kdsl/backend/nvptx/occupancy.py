"""How many blocks of a kernel a multiprocessor holds at a time, and what limits them.

The limits are those of the CUDA programming guide, "Compute Capabilities", tables of technical specifications and of memory per compute capability; how
registers and shared memory are allocated (per warp in each of four partitions; in units, with a reserve per block) is that of NVIDIA's `cuda_occupancy.h`.
Leaves out clusters, and the share of the cache that a launch may take from shared memory: all of it counts as available.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kdsl.ir.nodes import WARP_SIZE

KIB: Final = 1024
REGISTERS: Final = 64 * KIB
"""32-bit registers of a multiprocessor, and most of a block, on every target here."""
RESERVED_SHARED: Final = 1 * KIB
"""Bytes of shared memory that the system takes of each block."""
_REGISTER_UNIT: Final = 256
_SHARED_UNIT: Final = 128
_PARTITIONS: Final = 4


@dataclass(frozen=True)
class Limits:
    """What a multiprocessor of one compute capability holds."""

    blocks: int
    """Most resident blocks."""
    warps: int
    """Most resident warps."""
    shared: int
    """Bytes of shared memory."""


LIMITS: Final[dict[int, Limits]] = {
    80: Limits(32, 64, 164 * KIB),
    86: Limits(16, 48, 100 * KIB),
    87: Limits(16, 48, 164 * KIB),
    89: Limits(24, 48, 100 * KIB),
    90: Limits(32, 64, 228 * KIB),
    100: Limits(32, 64, 228 * KIB),
    110: Limits(24, 48, 228 * KIB),
    120: Limits(24, 48, 100 * KIB),
}
"""By compute capability, times ten."""


@dataclass(frozen=True)
class Occupancy:
    """What of a kernel is resident on a multiprocessor at a time."""

    blocks: int
    """Blocks."""
    warps: int
    """Warps."""
    most_warps: int
    """Warps that the multiprocessor can hold."""
    limited_by: tuple[str, ...]
    """What allows no further block: `blocks`, `warps`, `registers`, `shared memory`."""

    @property
    def share(self) -> float:
        """Resident warps by the most possible, 0 to 1."""
        return self.warps / self.most_warps


def shared_limit(capability: int) -> int:
    """Bytes of shared memory that a block can have, dynamic included. `capability` is the compute capability times ten."""
    return LIMITS[capability].shared - RESERVED_SHARED


def occupancy(capability: int, threads: int, registers: int, shared: int) -> Occupancy:
    """For blocks of `threads` threads with `registers` registers each and `shared` bytes of shared memory, static and dynamic.

    `capability` is the compute capability times ten; raises KeyError for one without limits.
    """
    limits = LIMITS[capability]
    warps = -(-threads // WARP_SIZE)
    fitting = {"blocks": limits.blocks, "warps": limits.warps // warps}
    if registers:
        per_warp = -(-registers * WARP_SIZE // _REGISTER_UNIT) * _REGISTER_UNIT
        fitting["registers"] = REGISTERS // _PARTITIONS // per_warp * _PARTITIONS // warps
        if per_warp * -(-warps // _PARTITIONS) * _PARTITIONS > REGISTERS:
            fitting["registers"] = 0
    fitting["shared memory"] = limits.shared // (-(-(shared + RESERVED_SHARED) // _SHARED_UNIT) * _SHARED_UNIT)
    blocks = min(fitting.values())
    return Occupancy(blocks, blocks * warps, limits.warps, tuple(name for name, most in fitting.items() if most == blocks))
