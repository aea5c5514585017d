"""Which schedule a product on a GPU takes: from a table of measurements, or where that has no shape like it, from a model of the time.

A schedule changes no bit. `python -m staleynet.tune` measures and writes the tables, a file per compute capability beside this one.
"""

import contextlib
import functools
import json
import math
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Final

from staleynet.kernels import (
    matmul_3xtf32,
    matmul_held,
    matmul_hopper,
    matmul_mma,
    matmul_parts,
    matmul_pipelined,
    matmul_tf32,
    matmul_wide,
)

_WGMMA: Final[dict[str, Any]] = {
    "128x256": matmul_hopper.Schedule(128, 256, 3, in_turn=False, group=16, buffers=4),
    "128x256 8": matmul_hopper.Schedule(128, 256, 4, in_turn=False, group=8, buffers=2),
    "128x128 in turn": matmul_hopper.Schedule(128, 128, 6, in_turn=True, group=8, ahead=1),
    "128x128 in turn 2": matmul_hopper.Schedule(128, 128, 5, in_turn=True, group=8, buffers=2, ahead=1),
    "64x128 in turn": matmul_hopper.Schedule(64, 128, 8, in_turn=True, group=8, ahead=1),
    "64x256 in turn": matmul_hopper.Schedule(64, 256, 5, in_turn=True, group=8, ahead=1),
    "64x256 in turn 4": matmul_hopper.Schedule(64, 256, 4, in_turn=True, group=8, buffers=4, ahead=1),
    "128x64 in turn": matmul_hopper.Schedule(128, 64, 7, in_turn=True, group=8, ahead=1),
    "128x128": matmul_hopper.Schedule(128, 128, 6, in_turn=False, group=16, buffers=2),
    "128x192": matmul_hopper.Schedule(128, 192, 4, in_turn=False, group=16, buffers=3),
    "128x64": matmul_hopper.Schedule(128, 64, 8, in_turn=False, group=8),
}
_WIDE: Final[dict[str, Any]] = {
    "128x256": matmul_wide.Schedule(128, 256, 4, 2, 4, registers=216),
    "256x128": matmul_wide.Schedule(256, 128, 4, 4, 4, registers=112),
    "128x192": matmul_wide.Schedule(128, 192, 4, 2, 4, registers=216),
    "128x128": matmul_wide.Schedule(128, 128, 4, 2, 4),
    "128x64": matmul_wide.Schedule(128, 64, 4, 4, 2),
    # a ring that leaves no room for a second block: few blocks that begin early would gather on what is free first
    "128x64 alone": matmul_wide.Schedule(128, 64, 10, 4, 2),
    "256x80": matmul_wide.Schedule(256, 80, 4, 8, 1),
    "128x80": matmul_wide.Schedule(128, 80, 4, 4, 1, resident=2),
}
_PIPELINED: Final[dict[str, Any]] = {
    "pipelined 128x128": matmul_pipelined.Schedule(128, 128, 2, 2, depth=8),
    "pipelined 128x128 of 8 warps": matmul_pipelined.Schedule(128, 128, 2, 4),
    "pipelined 128x64": matmul_pipelined.Schedule(128, 64, 2, 2),
    "pipelined 64x128": matmul_pipelined.Schedule(64, 128, 1, 4),
    "pipelined 64x64": matmul_pipelined.Schedule(64, 64, 1, 2),
    "pipelined 128x64 by four": matmul_pipelined.Schedule(128, 64, 2, 2, depth=8, resident=4),
}
SCHEDULES: Final[dict[str, dict[str, Any]]] = {
    "wgmma": _WGMMA,
    "held": {**_WGMMA, "128x128 held": matmul_held.Schedule()},
    "parts": {
        "64x128": matmul_parts.Schedule(64, 128, 8),
        "128x128": matmul_parts.Schedule(128, 128, 6),
        "128x256": matmul_parts.Schedule(128, 256, 4),
    },
    "3xtf32": {
        "128x128": matmul_3xtf32.Schedule(128, 4),
        "128x96": matmul_3xtf32.Schedule(96, 4),
        "128x64": matmul_3xtf32.Schedule(64, 6),
    },
    "tf32": {
        "256x128": matmul_tf32.Schedule(2, 128, 4, buffers=1),
        "256x128 3": matmul_tf32.Schedule(2, 128, 3),
        "256x96": matmul_tf32.Schedule(2, 96, 4, buffers=1),
        "256x64": matmul_tf32.Schedule(2, 64, 4),
        "128x256": matmul_tf32.Schedule(1, 256, 4),
        "128x192": matmul_tf32.Schedule(1, 192, 4),
        "128x128": matmul_tf32.Schedule(1, 128, 6),
        "128x64": matmul_tf32.Schedule(1, 64, 8),
        "256x128 copied": matmul_tf32.Schedule(2, 128, 4, buffers=1, copies=True),
        "256x96 copied": matmul_tf32.Schedule(2, 96, 4, buffers=1, copies=True),
        "128x256 copied": matmul_tf32.Schedule(1, 256, 4, copies=True),
        "128x256 beside": matmul_tf32.Schedule(1, 256, 4, copies=True, beside=True),
    },
    "fp32": {**_WIDE, **_PIPELINED},
    "wide": _WIDE,
    "pipelined": _PIPELINED,
    "mma": {
        "128x256": matmul_mma.Schedule(128, 256, 128, 4, 2, 4),
        "128x192": matmul_mma.Schedule(128, 192, 128, 5, 2, 4),
        "128x128": matmul_mma.Schedule(128, 128, 128, 3, 2, 2, resident=2, late=True),
        "64x128": matmul_mma.Schedule(64, 128, 128, 4, 2, 2, resident=2),
        "128x64": matmul_mma.Schedule(128, 64, 128, 4, 2, 2, resident=2),
        "64x96": matmul_mma.Schedule(64, 96, 128, 6, 2, 2, late=True),
        "64x64": matmul_mma.Schedule(64, 64, 128, 3, 2, 2, resident=4),
        "32x16": matmul_mma.Schedule(32, 16, 64, 2, 1, 1),
    },
}
"""By family of kernels and name. Those of "wgmma" are for bf16, f16, and tf32 with k along the rows of both operands; "held" has all where a block can hold its
rows of A, and "fp32" all that a Hopper GPU can take, "wide" those of the copy engine, and "pipelined" those of other GPUs.
"""

_WGMMA_SPEED: Final = {
    "128x256": 1.0,
    "128x256 8": 0.99,
    "128x128": 0.93,
    "128x128 in turn": 0.94,
    "128x128 in turn 2": 0.93,
    "64x128 in turn": 0.85,
    "64x256 in turn": 0.91,
    "64x256 in turn 4": 0.89,
    "128x64 in turn": 0.75,
    "128x192": 0.98,
    "128x64": 0.8,
}
_WIDE_SPEED: Final = {
    "128x256": 1.0,
    "256x128": 0.97,
    "128x192": 0.95,
    "128x128": 0.86,
    "128x64": 0.82,
    "128x64 alone": 0.81,
    "256x80": 0.8,
    "128x80": 0.8,
}
_PIPELINED_SPEED: Final = {
    "pipelined 128x128": 0.9,
    "pipelined 128x128 of 8 warps": 0.75,
    "pipelined 128x64": 0.78,
    "pipelined 64x128": 0.8,
    "pipelined 64x64": 0.75,
    "pipelined 128x64 by four": 0.82,
}
_SPEED: Final[dict[str, dict[str, float]]] = {
    "wgmma": _WGMMA_SPEED,
    "held": {**_WGMMA_SPEED, "128x128 held": 1.02},
    "parts": {"64x128": 0.7, "128x128": 0.9, "128x256": 1.0},
    "3xtf32": {"128x128": 1.0, "128x96": 0.84, "128x64": 0.62},
    "tf32": {
        "256x128": 1.0,
        "256x128 3": 0.99,
        "256x96": 0.96,
        "256x64": 0.78,
        "128x256": 1.03,
        "128x192": 0.9,
        "128x128": 0.8,
        "128x64": 0.54,
        "256x128 copied": 1.15,
        "256x96 copied": 1.05,
        "128x256 copied": 1.18,
        "128x256 beside": 1.18,
    },
    "fp32": {**_WIDE_SPEED, **_PIPELINED_SPEED},
    "wide": _WIDE_SPEED,
    "pipelined": _PIPELINED_SPEED,
    "mma": {"128x256": 1.0, "128x192": 0.95, "128x128": 0.96, "64x128": 0.8, "128x64": 0.8, "64x96": 0.74, "64x64": 0.7, "32x16": 0.1},
}
"""What part of the best speed a schedule reaches on large matrices."""
_EDGE: Final = 64
"""Steps of k that a tile costs beyond those of its sums."""
_EDGE_IN_TURN: Final = 16
"""The same where one warpgroup stores its tile while the other one multiplies."""
_ALONE: Final = 0.6
"""What is left of the speed where blocks have a single tile, and two warpgroups would take turns."""
_COPY: Final = 3.5
"""What copying an element of an operand of tf32 costs, in products of a multiprocessor."""
_ALIKE: Final = 1.0
"""How far a shape may be from one of the table, in powers of two over all extents."""


_forced: dict[str, str] = {}
_asked: dict[str, tuple[str, str]] = {}
_mma_alone = False


@contextlib.contextmanager
def forced(family: str, name: str) -> Iterator[None]:
    """Let all products of a family take one schedule, for measurements and tests."""
    before = dict(_forced)
    _forced[family] = name
    _asked.clear()
    try:
        yield
    finally:
        _forced.clear()
        _forced.update(before)


def asked(family: str) -> tuple[str, str] | None:
    """Where in the table the last forced schedule of a family would have been looked up: the family with the layouts, and the shape. None if no product
    took it."""
    return _asked.get(family)


@contextlib.contextmanager
def mma_alone() -> Iterator[None]:
    """Let products take `mma`, which all GPUs since Ampere have, also on those that have `wgmma`, for measurements and tests."""
    global _mma_alone
    before, _mma_alone = _mma_alone, True
    try:
        yield
    finally:
        _mma_alone = before


def takes_mma_alone() -> bool:
    """Whether products are within `mma_alone()`."""
    return _mma_alone


def choose(
    family: str,
    target: str,
    multiprocessors: int,
    shared: int,
    shape: tuple[int, int, int, int],
    across: tuple[bool, bool] = (False, False),
) -> str:
    """The name of the schedule for a product of shape m, n, k, matrices, on a GPU with so many multiprocessors and so many bytes of shared memory for a block.

    `across` says which operands are given with k across their rows.
    """
    if family in _forced:
        _asked[family] = key(family, across), "x".join(map(str, shape))
        return _forced[family]
    return _chosen(family, target, multiprocessors, shared, shape, across)


def suits(schedule: Any, across: tuple[bool, bool]) -> bool:
    """Whether a schedule goes with the layouts of A and B."""
    takes = getattr(schedule, "takes", None)
    return takes is None or bool(takes(across))


def key(family: str, across: tuple[bool, bool]) -> str:
    """The name of a family in the table, with the layouts of A and B."""
    return family + " " + "".join("T" if side else "N" for side in across)


@functools.cache
def _chosen(
    family: str, target: str, multiprocessors: int, shared: int, shape: tuple[int, int, int, int], across: tuple[bool, bool]
) -> str:
    if target == "cpu":
        return "32x16"  # products of tensor cores have a meaning there, not speed; the least code
    nearest, distance = "", math.inf
    for known, name in load(target).get(key(family, across), {}).items():
        extents = tuple(map(int, known.split("x")))
        apart = sum(abs(math.log2(one / other)) for one, other in zip(extents, shape, strict=True))
        if apart < distance and name in SCHEDULES[family]:
            nearest, distance = name, apart
    if distance <= _ALIKE:
        return nearest
    m, n, k, batch = shape
    fitting = {
        name: schedule
        for name, schedule in SCHEDULES[family].items()
        if getattr(schedule, "shared_bytes", 0) <= shared and suits(schedule, across)
    }

    def cost(name: str) -> float:
        schedule = fitting[name]
        rows, columns = schedule.rows, schedule.columns
        tiles = batch * -(-m // rows) * -(-n // columns)
        in_turn = getattr(schedule, "in_turn", False)
        alone = _ALONE if in_turn and tiles <= multiprocessors else 1.0
        steps = k + (_EDGE_IN_TURN if in_turn else _EDGE)
        copy = _COPY * batch * k * min(m, n) if getattr(schedule, "copies", False) else 0
        blocks = min(tiles, multiprocessors * getattr(schedule, "resident", tiles))
        rounds = -(-blocks // multiprocessors) * -(-tiles // blocks)
        return float(rounds * rows * columns * steps / (_SPEED[family][name] * alone)) + copy

    return min(fitting, key=cost)


@functools.cache
def load(target: str) -> Mapping[str, Mapping[str, str]]:
    """The table of a target: by family and "m x n x k x batch" the name of a schedule. Empty if there is none."""
    file = resources.files(__package__) / f"schedules_{target}.json"
    if not file.is_file():
        return {}
    found: Mapping[str, Mapping[str, str]] = json.loads(file.read_text(encoding="utf-8"))
    return found
