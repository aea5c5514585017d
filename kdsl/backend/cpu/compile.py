"""From the IR of a kernel to object code for one processor."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from kdsl.backend.cpu.emission import Emission
from kdsl.backend.cpu.function import emit
from kdsl.backend.cpu.host import HostCpu
from kdsl.backend.cpu.machine_code import machine_code, optimised
from kdsl.backend.cpu.strips import cut
from kdsl.backend.llvm.module import parse
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS


@dataclass(frozen=True)
class CpuObject:
    """A kernel as an object file."""

    bytes: bytes
    """Its contents (ELF on Linux)."""
    entry: str
    """Symbol of `void entry(i8* arguments, i64 first_block, i64 end_block, i8* scratch)`."""
    scratch_bytes: int
    """Size of the scratch memory, aligned to 1024 bytes, that each running thread must bring."""


def group_width(kernel: nodes.Kernel, host: HostCpu) -> int:
    """Lanes per group: a warp if lanes exchange, else a vector register of 32-bit lanes, but no more than the block fills."""
    if any(_exchanges(op) for op in nodes.walk(kernel.body)):
        return nodes.WARP_SIZE
    needed = 1 << max(1, (kernel.threads - 1).bit_length())
    return min(host.lanes, needed)


def _exchanges(op: nodes.Op) -> bool:
    """Whether an operation is one of a whole warp."""
    if isinstance(op, nodes.Instruction):
        return INTRINSICS[op.name].convergence == "warp" or op.name == "active_mask"
    return isinstance(op, nodes.Exchange)


def build_module(kernel: nodes.Kernel, host: HostCpu) -> tuple[ir.Module, str, int]:
    """The LLVM module of a kernel before optimisation, the name of its entry point, and the bytes of scratch memory."""
    module = ir.Module(name="kernel")
    module.triple = host.platform
    module.data_layout = str(host.machine(0).target_data)
    kernel = cut(kernel)
    emission = Emission(kernel, host, group_width(kernel, host), module)
    entry = "kdsl_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in kernel.name)
    emit(emission, entry)
    return module, entry, emission.scratch.bytes


def compile_object(kernel: nodes.Kernel, host: HostCpu, *, optimise: int = 3) -> CpuObject:
    """Compile a kernel. The same kernel and host give the same bytes."""
    module, entry, scratch = build_module(kernel, host)
    return CpuObject(machine_code(parse(module), host, optimise), entry, scratch)


def compile_assembly(kernel: nodes.Kernel, host: HostCpu, *, optimise: int = 3) -> str:
    """The same as text, for people and tests."""
    module = optimised(parse(build_module(kernel, host)[0]), host, optimise)
    return str(host.machine(optimise).emit_assembly(module))


def compile_ir(kernel: nodes.Kernel, host: HostCpu, *, optimise: int = 3) -> str:
    """The optimised LLVM IR as text, for people and tests."""
    return str(optimised(parse(build_module(kernel, host)[0]), host, optimise))
