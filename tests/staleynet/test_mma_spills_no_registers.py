"""No variant of the product by `mma` that the library can choose for a GPU spills registers there: over all GPUs, schedules that fit them, layouts, element
types, ways of results out of a warp, edges, batches and parts along k.

A run takes a few variants of each schedule for each GPU, other ones for each; with `KDSL_ALL_TESTS=1` all, which takes hours.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kdsl import bf16, f16, f32
from kdsl.backend.nvptx.occupancy import shared_limit
from kdsl.testing.ptx import assemble
from staleynet.ops.matmul_paths import _mma_kernel
from staleynet.ops.schedules import SCHEDULES

TARGETS = ("sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100a", "sm_110", "sm_120")
EACH = 1 if os.environ.get("KDSL_ALL_TESTS", "0") not in ("", "0") else 197
"""One of so many variants is taken."""


def fitting(target: str) -> list[str]:
    """The schedules of which a block has enough shared memory."""
    limit = shared_limit(int(re.sub(r"\D", "", target)))
    return [name for name, schedule in SCHEDULES["mma"].items() if schedule.shared_bytes <= limit]


def variants() -> Iterator[tuple[Any, Any, tuple[bool, bool], int, int, bool, bool]]:
    """What there is beside the schedule: the types of operands and results, which operands have k across, how many results leave at once, parts along k,
    edges, batches."""
    types: list[tuple[Any, Any]] = [(element, result) for element in (bf16, f16, f32) for result in (f32, bf16, f16)]
    for (element, result), a_across, b_across in itertools.product(types, (False, True), (False, True)):
        if element is f32 and (a_across or b_across):
            continue  # copied with k along the rows
        for each, edges, batch in itertools.product((16 // result.itemsize, 2, 1), (False, True), (False, True)):
            for parts in (1, 5) if result is f32 and batch else (1,):
                yield element, result, (a_across, b_across), each, parts, edges, batch


CASES = [(target, name) for target in TARGETS for name in fitting(target)]


@pytest.mark.parametrize(("number", "target", "name"), [(number, *case) for number, case in enumerate(CASES)], ids=lambda x: str(x))
def test_no_variant_spills(number: int, target: str, name: str) -> None:
    for element, result, across, each, parts, edges, batch in itertools.islice(variants(), number * 13 % EACH, None, EACH):
        kernel = _mma_kernel(element, result, name, *across, each, parts, edges=edges, batch=batch, early=target == "sm_90")
        assert not kernel.declaration.spills
        assert assemble(kernel.ptx(target), target).spills == 0


def test_each_gpu_has_a_schedule() -> None:
    for target in TARGETS:
        assert len(fitting(target)) >= 2
