"""The kernels of matrix products that are made for a schedule become PTX that ptxas assembles for the GPUs that take them, without spilled registers and
within a block's memory."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from kdsl import Kernel, bf16, f16, f32
from kdsl.testing.ptx import assemble
from staleynet.kernels import (
    matmul_3xtf32,
    matmul_border,
    matmul_held,
    matmul_hopper,
    matmul_mma,
    matmul_parts,
    matmul_tf32,
    matmul_tf32_beside,
    matmul_wide,
)
from staleynet.kernels.convert import SPREAD, SPREAD_PARTS, combine, pack, turn, turn_heads, turn_small
from staleynet.ops.matmul_paths import _fp32_kernel
from staleynet.ops.schedules import SCHEDULES, choose, load

LIMITS = {"sm_87": 166_912, "sm_110": 232_448}
"""Bytes of shared memory that a block has on Orin and on Thor."""


def spills(kernel: Kernel, target: str) -> int:
    ptx = kernel.ptx(target)
    assert ".extern .func" not in ptx
    return assemble(ptx, target).spills


@pytest.mark.parametrize("name", SCHEDULES["wgmma"])
def test_wgmma(name: str) -> None:
    kernel = matmul_hopper.product(bf16, bf16, SCHEDULES["wgmma"][name], a_across=True, b_across=True)
    assert spills(kernel, "sm_90a") == 0


def test_wgmma_with_a_c_that_the_copy_engine_cannot_write() -> None:
    ptx = matmul_hopper.product(bf16, bf16, SCHEDULES["wgmma"]["128x128 in turn"], mapped=False, pairs=True).ptx("sm_90a")
    assert "bulk.tensor.4d.global" not in ptx  # no copy out of shared memory
    assert re.search(r"st\.global\.(b32|v2\.b16)", ptx)
    assert assemble(ptx, "sm_90a").spills == 0


def test_what_passes_makes_room_in_the_cache_first() -> None:
    for a_passes, c_passes in ((False, False), (True, False), (False, True)):
        ptx = matmul_hopper.product(bf16, bf16, SCHEDULES["wgmma"]["128x64"], a_passes=a_passes, c_passes=c_passes).ptx("sm_90a")
        hints = {"global" if "tensor.4d.global" in line else "shared" for line in ptx.splitlines() if "L2::cache_hint" in line}
        assert hints == {side for side, passes in (("shared", a_passes), ("global", c_passes)) if passes}


@pytest.mark.parametrize("steps", range(1, matmul_held.STEPS + 1))
def test_a_held_operand(steps: int) -> None:
    """In one way or another with every number of stages: each has an array for A of its own, and with B's no more than a block may have."""
    ways: dict[str, Any] = {"a_across": steps % 2 == 0, "b_across": steps % 4 > 1, "bias": steps > 4, "gelu": steps > 6}
    ptx = matmul_held.product(f16 if steps == 3 else bf16, f32 if steps == 5 else bf16, steps, **ways, c_passes=steps == 8).ptx("sm_90a")
    assert len(re.findall(r"wgmma\.mma_async", ptx)) == 2 * 4  # not more of them than for a stage: the loop is one
    assert ("L2::cache_hint" in ptx) == (steps == 8)
    assert assemble(ptx, "sm_90a").spills == 0


@pytest.mark.parametrize("name", SCHEDULES["parts"])
def test_parts_along_k(name: str) -> None:
    schedule = SCHEDULES["parts"][name]
    for across in (False, True):
        ptx = matmul_parts.sums_of_parts(bf16, schedule, 4, a_across=across, b_across=across).ptx("sm_90a")
        assert "setmaxnreg" not in ptx
        report = assemble(ptx, "sm_90a")
        assert report.spills == 0
        # what is left of a multiprocessor's registers holds a block of the second kernel
        assert (report.registers + 7) // 8 * 8 * 128 * (schedule.rows // 64 + 1) + 80 * 256 <= 65_536 or schedule.columns == 256
    assert spills(matmul_parts.sum_of_parts(f32, schedule, 16, bias=True, gelu=True), "sm_90a") == 0


def test_parts_are_all_read_before_they_are_added() -> None:
    """Only then are their reads under way at the same time."""
    ptx = matmul_parts.sum_of_parts(bf16, SCHEDULES["parts"]["128x128"], 8, pairs=True).ptx("sm_90a")
    reads = [place.start() for place in re.finditer(r"ld\.global\S*\.v4", ptx)]
    assert len(reads) == 8
    assert "add.rn.f32" not in ptx[: reads[-1]]
    assert assemble(ptx, "sm_90a").registers <= 80


def test_wgmma_of_tf32_and_with_an_epilogue() -> None:
    assert spills(matmul_hopper.product(f32, f32, SCHEDULES["wgmma"]["128x256"]), "sm_90a") == 0
    assert spills(matmul_hopper.product(f16, f16, SCHEDULES["wgmma"]["128x128 in turn"], bias=True, gelu=True), "sm_90a") == 0


@pytest.mark.parametrize("name", SCHEDULES["3xtf32"])
def test_three_products_of_tf32(name: str) -> None:
    across = name == "128x128"
    assert spills(matmul_3xtf32.product(SCHEDULES["3xtf32"][name], a_across=across, b_across=across), "sm_90a") == 0


@pytest.mark.parametrize("name", SCHEDULES["tf32"])
def test_tf32_with_k_across(name: str) -> None:
    schedule: Any = SCHEDULES["tf32"][name]
    assert spills(matmul_tf32.product(schedule, b_across=schedule.turns, c_across=not schedule.turns), "sm_90a") == 0
    if schedule.copies:
        assert spills(matmul_tf32.product(schedule, b_across=False, c_across=True, ahead=True), "sm_90a") == 0


@pytest.mark.parametrize(("parts", "c_across", "heads"), [(5, False, 26), (1, True, 32)])
def test_tf32_that_copies_beside_its_products(parts: int, c_across: bool, heads: int) -> None:
    ptx = matmul_tf32_beside.product(SCHEDULES["tf32"]["128x256 beside"], parts=parts, c_across=c_across, heads=heads).ptx("sm_90a")
    assert re.search(r"(ld|atom)\S*\.acquire\.gpu", ptx)
    assert re.search(r"(red|atom)\S*\.release\.gpu", ptx)
    assert "fence.proxy.async.global" in ptx
    assert assemble(ptx, "sm_90a").spills == 0
    assert spills(turn_heads(), "sm_90a") == 0


def test_fragments_of_a_stage_stay_in_their_registers_until_its_products_are_done() -> None:
    """Of 3xtf32 the upper parts of the first half of a stage are multiplied last. Were the numbers of the next stage put into the same registers while those
    products run, results would be wrong, as they were on an H200."""
    ptx = matmul_3xtf32.product(SCHEDULES["3xtf32"]["128x128"], a_across=True, b_across=True).ptx("sm_90a")
    first_of_last = re.findall(r"\{(%r\d+), %r\d+, %r\d+, %r\d+\}, %rd\d+, p, 1, 1;", ptx)[-4]
    (carried,) = re.findall(rf"mov\.b32 \s*{first_of_last}, (%r\d+);", ptx)  # the variable of the loop, which goes into the product
    assert len(re.findall(rf"cvt\.rn\.tf32\.f32 {carried},", ptx)) == 1  # in front of the loop, not in it


@pytest.mark.parametrize(
    ("name", "a_across", "b_across", "each", "rest"),
    [
        ("128x192", True, False, 4, True),
        ("256x128", False, True, 1, False),
        ("256x128", False, True, 2, False),
        ("pipelined 128x64 by four", False, True, 4, False),
        ("pipelined 128x64 by four", False, False, 4, True),
    ],
)
def test_fp32_where_registers_are_short(name: str, a_across: bool, b_across: bool, each: int, rest: bool) -> None:
    assert spills(_fp32_kernel(name, a_across, b_across, each, rest, True), "sm_90a") == 0


@pytest.mark.parametrize("each", [1, 2])
@pytest.mark.parametrize("name", SCHEDULES["wide"])
def test_fp32_whose_results_leave_in_lines(name: str, each: int) -> None:
    assert spills(_fp32_kernel(name, False, True, each, each == 1, True), "sm_90a") == 0


@pytest.mark.parametrize("a_across", [False, True])
@pytest.mark.parametrize("rest", [False, True])
def test_the_border_of_fp32(a_across: bool, rest: bool) -> None:
    assert spills(matmul_border.product_of_border(a_across=a_across, rest=rest, early=True), "sm_90a") == 0


@pytest.mark.parametrize("name", SCHEDULES["wide"])
def test_fp32_with_warps_that_copy(name: str) -> None:
    assert spills(matmul_wide.product(SCHEDULES["wide"][name], a_across=False, b_across=True, rest=name != "128x256"), "sm_90a") == 0


@pytest.mark.parametrize(
    ("target", "name"),
    [
        *zip(itertools.cycle(["sm_110", "sm_80", "sm_120", "sm_87", "sm_90a", "sm_89"]), SCHEDULES["pipelined"], strict=False),
        ("sm_87", "pipelined 128x128"),
    ],
)
def test_fp32_for_other_gpus(target: str, name: str) -> None:
    kernel = _fp32_kernel(name, False, True, 4, rest=target == "sm_87", early=target == "sm_90a")
    assert spills(kernel, target) == 0


@pytest.mark.parametrize(("target", "name"), [(t, n) for t in LIMITS for n, s in SCHEDULES["mma"].items() if s.shared_bytes <= LIMITS[t]])
def test_mma_for_orin_and_thor(target: str, name: str) -> None:
    assert spills(matmul_mma.product(bf16, f32, SCHEDULES["mma"][name], each=4), target) == 0


@pytest.mark.parametrize(
    ("name", "across"), list(itertools.product(["128x256", "128x192", "128x128"], itertools.product((False, True), repeat=2))), ids=str
)
def test_large_tiles_of_mma_in_all_layouts(name: str, across: tuple[bool, bool]) -> None:
    """The sums of a thread are up to 128 registers, what it multiplies now and next another 64."""
    schedule = SCHEDULES["mma"][name]
    ways: dict[str, Any] = {"a_across": across[0], "b_across": across[1], "each": 8}
    assert spills(matmul_mma.product(bf16, bf16, schedule, **ways, edges=False, batch=False, early=True), "sm_90") == 0


@pytest.mark.parametrize(("edges", "batch"), [(True, True), (True, False), (False, True)])
def test_mma_with_edges_and_batches(edges: bool, batch: bool) -> None:
    ways: dict[str, Any] = {"edges": edges, "batch": batch, "early": True}
    for name, across in (("128x256", True), ("128x128", False)):
        kernel = matmul_mma.product(bf16, bf16, SCHEDULES["mma"][name], a_across=True, b_across=across, each=8, **ways)
        assert spills(kernel, "sm_90") == 0


def test_results_of_mma_leave_in_lines() -> None:
    """16 bytes per lane, out of shared memory."""
    ptx = matmul_mma.product(bf16, bf16, SCHEDULES["mma"]["64x64"], a_across=True, b_across=True, each=8, edges=False).ptx("sm_87")
    assert len(re.findall(r"st\.global\S*\.v4\.b32", ptx)) == len(re.findall(r"ld\.shared\S*\.v4\.b32", ptx)) == 4
    assert "vote.sync" not in ptx  # no check of what `ldmatrix` reads
    assert assemble(ptx, "sm_87").spills == 0


def test_what_surrounds_products() -> None:
    for kernel in (
        pack(f32, bf16, turned=True),
        pack(bf16, bf16, turned=False),
        combine(bf16, 1, bias=True, gelu=True, each=4),
        combine(f32, 32),
    ):
        assert spills(kernel, "sm_87") == 0
    assert spills(combine(f32, 4, each=4, early=True), "sm_90a") == 0
    for make in (turn, turn_small):
        assert spills(make(early=True), "sm_90a") == 0


@pytest.mark.parametrize(("parts", "ending"), [(2, True), (4, True), (SPREAD_PARTS, False), (SPREAD_PARTS, True)])
def test_what_adds_parts_is_spread(parts: int, ending: bool) -> None:
    """Blocks take as many registers as leave room for no more than `SPREAD`."""
    kernel = combine(bf16 if ending else f32, parts, bias=ending, gelu=ending, each=4, early=True, spread=True)
    report = assemble(kernel.ptx("sm_90a"), "sm_90a")
    assert report.spills == 0
    assert SPREAD * 256 * report.registers <= 65_536 < (SPREAD + 1) * 256 * report.registers


def test_a_turned_copy_lets_the_next_launch_begin_before_it_waits() -> None:
    ptx = turn_small(early=True).ptx("sm_90a")
    assert 0 < ptx.index("griddepcontrol.launch_dependents") < ptx.index("griddepcontrol.wait")


def test_schedules_fit_a_block_and_tables_name_them() -> None:
    for target, limit in LIMITS.items():
        assert SCHEDULES["mma"][choose("mma", target, 16, limit, (4096, 4096, 4096, 1))].shared_bytes <= limit
    for family, entries in load("sm_90").items():
        assert set(entries.values()) <= set(SCHEDULES[family.split()[0]])
    assert choose("pipelined", "sm_87", 16, LIMITS["sm_87"], (4096, 4096, 4096, 1)) == "pipelined 128x128"
    assert choose("wgmma", "sm_90", 132, 232_448, (8192, 8192, 8192, 1)).startswith("128x256")
    for shape in ((8192, 2048, 512, 1), (16384, 256, 512, 1), (4096, 2048, 64, 1)):  # of the table, and by the model
        for across in itertools.product((False, True), repeat=2):
            assert choose("held", "sm_90", 132, 232_448, shape, across) == "128x128 held"
    for shape, name in (
        ((256, 768, 1638, 5), "64x128"),
        ((256, 768, 512, 16), "128x256"),
        ((512, 2048, 2048, 4), "128x256"),
        ((16, 512, 256, 8), "64x128"),
    ):
        assert choose("parts", "sm_90", 132, 232_448, shape) == name
    assert load("sm_80") == {}
