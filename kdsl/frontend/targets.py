"""What has no meaning on a target is refused where it stands in the source, before code is made.

What is not here: the least PTX version and compute capability of an intrinsic, which depend on the target's version (`kdsl.backend.nvptx.targets`).
"""

from __future__ import annotations

from kdsl.frontend.errors import KernelError
from kdsl.ir import nodes
from kdsl.ir.rows import rows_of
from kdsl.lang.intrinsics import INTRINSICS
from kdsl.lang.views import view_text


def check(kernel: nodes.Kernel, target: str) -> None:
    """Raise KernelError at the first operation that has no meaning on the target: `cpu`, or anything else for a GPU."""
    side = "cpu" if target == "cpu" else "gpu"
    for op in nodes.walk(kernel.body):
        for row in rows_of(op):
            name = row.partition(":")[0]
            if side not in INTRINSICS[name].targets and not (isinstance(op, nodes.Instruction) and op.options.get("has_cpu")):
                only, other = ("GPU", "CPU") if side == "cpu" else ("CPU", "GPU")
                raise KernelError(
                    f"{name}() is {only} only: it has no meaning on the {other} target",
                    op.location,
                    f"run kernel {kernel.name} on a {only}, or write one without {name}() for the {other}",
                )
    mapped = next((p for p in kernel.parameters if isinstance(p, nodes.TensorMap)), None)
    if side == "cpu" and mapped is not None:
        raise KernelError(
            f"parameter `{mapped.name}` is a tensor map, which only a GPU has",
            kernel.location,
            f"run kernel {kernel.name} on a GPU, or write one that takes {view_text('SliceMut', mapped.type.name, mapped.rank)} for the CPU",
        )
