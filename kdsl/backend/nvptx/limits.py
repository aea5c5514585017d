"""What a kernel may not exceed on the GPU, told before LLVM, ptxas or the driver meet it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kdsl.backend.nvptx.occupancy import shared_limit
from kdsl.backend.nvptx.targets import Target
from kdsl.ir import nodes
from kdsl.ir.abi import layout
from kdsl.ir.shared import shared_layout
from kdsl.lang.limits import CONSTANT_BYTES, LOCAL_BYTES, footprint

PARAMETER_BYTES: Final = 4096
"""Parameter space of an entry that every PTX version here allows (PTX ISA, "Kernel Function Parameters")."""
OPERATIONS: Final = 30_000
"""Operations of a kernel after unrolling and expansion; the time that LLVM takes grows faster than their number."""


class LimitError(ValueError):
    """The kernel exceeds a limit of the hardware or of the compiler. Carries the place of the kernel."""

    def __init__(self, kernel: nodes.Kernel, message: str, advice: str) -> None:
        super().__init__(f"{kernel.location}: kernel {kernel.name} {message}: {advice}")
        self.message = f"kernel {kernel.name} {message}"
        """What it exceeds."""
        self.advice = advice
        """What to do."""
        self.location = kernel.location
        """Where the kernel is."""


def check(kernel: nodes.Kernel, target: Target) -> None:
    """Raise LimitError if the kernel cannot be compiled for the GPU."""
    size = layout(kernel).size
    if size > PARAMETER_BYTES:
        raise LimitError(
            kernel, f"takes {size} bytes of arguments; at most {PARAMETER_BYTES} can be passed", "pass arrays in device memory"
        )
    _check_arrays(
        kernel, "shared", shared_layout(kernel.arrays, kernel.shared_views).size, shared_limit(target.capability),
        f"a block of {target.name} ({target.doc}) has at most {shared_limit(target.capability)}", "use smaller arrays or narrower elements",
    )  # fmt: skip
    _check_arrays(
        kernel, "local", sum(footprint(a.size, a.type.itemsize) for a in kernel.arrays if a.space == "local"), LOCAL_BYTES,
        f"a thread has at most {LOCAL_BYTES}", "use smaller arrays, or an array in device memory",
    )  # fmt: skip
    operations = sum(1 for _ in nodes.walk(kernel.body))
    if operations > OPERATIONS:
        raise LimitError(kernel, f"has {operations} operations after unrolling; at most {OPERATIONS} are compiled", "unroll less")


def check_together(kernels: Sequence[nodes.Kernel]) -> None:
    """Raise LimitError if the kernels of a module have too many tables for its constant memory; equal ones count once."""
    tables: dict[bytes, nodes.Array] = {}
    for kernel in kernels:
        tables.update({array.content: array for array in kernel.arrays if array.space == "constant"})
        used = sum(footprint(len(content), 1) for content in tables)
        if used > CONSTANT_BYTES:
            named = ", ".join(f"{array.name} {len(content)}" for content, array in tables.items())
            what = f"of a module, whose constant arrays up to it take {used} bytes ({named})"
            raise LimitError(kernel, f"{what}; a module has {CONSTANT_BYTES}", "compile its kernels one by one")


def _check_arrays(kernel: nodes.Kernel, space: str, used: int, most: int, why: str, advice: str) -> None:
    if used > most:
        named = ", ".join(f"{a.name} {a.size * a.type.itemsize}" for a in kernel.arrays if a.space == space)
        raise LimitError(kernel, f"declares {used} bytes of {space} arrays ({named}); {why}", advice)
