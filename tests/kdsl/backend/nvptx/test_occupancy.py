"""Occupancy: every target has limits, and the figures are those of NVIDIA's calculator (`cuda_occupancy.h` of CUDA 13 gives the same for these)."""

import pytest

from kdsl.backend.nvptx.occupancy import LIMITS, occupancy
from kdsl.backend.nvptx.releases import RELEASES
from kdsl.backend.nvptx.targets import NEWEST_PTX, TARGETS


def test_tables_cover_every_target() -> None:
    assert {target.capability for target in TARGETS.values()} == set(LIMITS)
    assert {target.least_ptx for target in TARGETS.values()} | {NEWEST_PTX} <= set(RELEASES)
    drivers = [release.driver for _, release in sorted(RELEASES.items())]
    assert drivers == sorted(drivers)


@pytest.mark.parametrize(
    ("capability", "threads", "registers", "shared", "blocks", "limited_by"),
    [
        (90, 256, 32, 0, 8, ("warps", "registers")),
        (90, 256, 33, 0, 6, ("registers",)),
        (90, 32, 16, 0, 32, ("blocks",)),
        (90, 1024, 65, 0, 0, ("registers",)),
        (90, 128, 64, 48 * 1024, 4, ("shared memory",)),
        (86, 96, 40, 0, 16, ("blocks", "warps", "registers")),
        (86, 128, 255, 0, 2, ("registers",)),
        (120, 64, 24, 0, 24, ("blocks", "warps")),
        (80, 1, 8, 0, 32, ("blocks",)),
        (89, 256, 32, 20 * 1024, 4, ("shared memory",)),
    ],
)
def test_figures(capability: int, threads: int, registers: int, shared: int, blocks: int, limited_by: tuple[str, ...]) -> None:
    found = occupancy(capability, threads, registers, shared)
    assert (found.blocks, found.limited_by) == (blocks, limited_by)
    assert found.warps == blocks * -(-threads // 32)
    assert found.share == found.warps / found.most_warps
