"""Launches as a whole: the barrier of the grid, kernels that overlap, registers that warps hand to each other."""

from __future__ import annotations

from typing import Any

from kdsl.lang.intrinsics.row import ToInstruction, row

_GRID: dict[str, Any] = {"topic": "Barrier of the grid", "targets": ("gpu",), "example_options": "cooperative=True", "element": "f32"}
_DEPENDENT: dict[str, Any] = {"topic": "Dependent launches", "least_ptx": (7, 8), "least_capability": 90, "element": "f32"}

# fmt: off
sync_grid = row("sync_grid", "() -> None", ToInstruction("sync_grid"), "Wait for all threads of the grid; what they have written before is visible then. The kernel is `cooperative=True`, and no thread has returned.", convergence="block", memory="orders", example="y[t] = v\nsync_grid()\ny[t + 1] = w", isa="bar.sync, atom, ld.acquire", **_GRID)
wait_for_dependencies = row("wait_for_dependencies", "() -> None", ToInstruction("dependent"), "Wait until all that the launch depends on has ended; what it has written is visible then. Without `programmatic=True`, and on the CPU, there is nothing to wait for.", memory="orders", example="wait_for_dependencies()\ny[t] = x[t + 2]", example_options="programmatic=True", isa="griddepcontrol", **_DEPENDENT)
launch_dependents = row("launch_dependents", "() -> None", ToInstruction("dependent"), "This block no longer holds up the start of a programmatic kernel that is launched next in the stream: it begins once all blocks have come here or ended.", example="launch_dependents()\ny[t] = v", isa="griddepcontrol", **_DEPENDENT)
# fmt: on
