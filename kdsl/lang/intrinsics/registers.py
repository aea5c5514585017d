"""Registers that the warpgroups of a block hand to each other."""

from __future__ import annotations

from typing import Any

from kdsl.lang.intrinsics.row import ToInstruction, row

_ROW: dict[str, Any] = {
    "topic": "Registers of a warpgroup", "targets": ("gpu",), "convergence": "warpgroup", "least_ptx": (8, 0), "least_capability": 90,
    "only": ("sm_90a", "sm_100a"), "assembled": True, "element": "f32", "example_block": 128, "isa": "setmaxnreg",
}  # fmt: skip

# fmt: off
increase_registers = row("increase_registers", "(count: int) -> None", ToInstruction("set_registers"), "Raise the registers of each thread of the warpgroup to `count`, a multiple of 8 from 24 to 256, and wait until other warpgroups have given up so many.", example="increase_registers(240)\ny[t] = v", **_ROW)
decrease_registers = row("decrease_registers", "(count: int) -> None", ToInstruction("set_registers"), "Give up all but `count` registers of each thread of the warpgroup, a multiple of 8 from 24 to 256.", example="decrease_registers(40)\ny[t] = v", **_ROW)
# fmt: on
