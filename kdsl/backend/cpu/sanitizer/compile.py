"""From the IR of a kernel to instrumented object code for one processor."""

from __future__ import annotations

from llvmlite import ir

from kdsl.backend.cpu.compile import CpuObject, group_width
from kdsl.backend.cpu.function import emit
from kdsl.backend.cpu.host import HostCpu
from kdsl.backend.cpu.machine_code import machine_code
from kdsl.backend.cpu.sanitizer.emission import Options, SanitizedEmission
from kdsl.backend.llvm.module import parse
from kdsl.ir import nodes

_LEVEL = 1
"""Instrumented code is mostly calls: more optimisation takes longer than it saves."""


def compile_instrumented(kernel: nodes.Kernel, host: HostCpu, options: Options) -> CpuObject:
    """Compile a kernel. The same kernel, host and options give the same bytes."""
    module = ir.Module(name="kernel")
    module.triple = host.platform
    module.data_layout = str(host.machine(0).target_data)
    emission = SanitizedEmission(kernel, host, group_width(kernel, host), module, options)
    entry = "kdsl_checked_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in kernel.name)
    emit(emission, entry)
    return CpuObject(machine_code(parse(module), host, _LEVEL), entry, emission.scratch.bytes)
