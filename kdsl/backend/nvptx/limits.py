"""What a kernel may not exceed on the GPU, told before LLVM, ptxas or the driver meet it."""

from __future__ import annotations

from typing import Final

from kdsl.ir import nodes
from kdsl.ir.abi import layout
from kdsl.lang.limits import LOCAL_BYTES, SHARED_BYTES, footprint

PARAMETER_BYTES: Final = 4096
"""Parameter space of an entry that every PTX version here allows (PTX ISA, "Kernel Function Parameters")."""
OPERATIONS: Final = 30_000
"""Operations of a kernel after unrolling and expansion; the time that LLVM takes grows faster than their number."""


class LimitError(ValueError):
    """The kernel exceeds a limit of the hardware or of the compiler. Carries the place of the kernel."""

    def __init__(self, kernel: nodes.Kernel, message: str) -> None:
        super().__init__(f"{kernel.location}: kernel {kernel.name} {message}")
        self.location = kernel.location


def check(kernel: nodes.Kernel) -> None:
    """Raise LimitError if the kernel cannot be compiled for a GPU."""
    size = layout(kernel).size
    if size > PARAMETER_BYTES:
        raise LimitError(kernel, f"takes {size} bytes of arguments; at most {PARAMETER_BYTES} can be passed")
    for space, most, advice in (
        ("shared", SHARED_BYTES, "use smaller arrays or narrower elements"),
        ("local", LOCAL_BYTES, "use smaller arrays, or an array in device memory"),
    ):
        arrays = [array for array in kernel.arrays if array.space == space]
        used = sum(footprint(array.size, array.type.itemsize) for array in arrays)
        if used > most:
            named = ", ".join(f"{a.name} {a.size * a.type.itemsize}" for a in arrays)
            raise LimitError(kernel, f"declares {used} bytes of {space} arrays ({named}); at most {most} fit: {advice}")
    operations = sum(1 for _ in nodes.walk(kernel.body))
    if operations > OPERATIONS:
        raise LimitError(kernel, f"has {operations} operations after unrolling; at most {OPERATIONS} are compiled: unroll less")
