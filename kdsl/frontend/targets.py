"""What has no meaning on a target is refused where it stands in the source, before code is made.

What is not here: the least PTX version and compute capability of an intrinsic, which depend on the target's version (`kdsl.backend.nvptx.targets`).
"""

from __future__ import annotations

from kdsl.frontend.errors import KernelError
from kdsl.ir import nodes
from kdsl.ir.rows import rows_of
from kdsl.lang.intrinsics import INTRINSICS


def check(kernel: nodes.Kernel, target: str) -> None:
    """Raise KernelError at the first operation that has no meaning on the target: `cpu`, or anything else for a GPU."""
    side = "cpu" if target == "cpu" else "gpu"
    for op in nodes.walk(kernel.body):
        for row in rows_of(op):
            name = row.partition(":")[0]
            if side not in INTRINSICS[name].targets:
                only, other = ("GPU", "CPU") if side == "cpu" else ("CPU", "GPU")
                raise KernelError(
                    f"{name}() is {only} only: it has no meaning on the {other} target",
                    op.location,
                    f"run kernel {kernel.name} on a {only}, or write one without {name}() for the {other}",
                )
