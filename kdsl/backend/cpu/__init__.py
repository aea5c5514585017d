"""The CPU target: typed IR to native SIMD code in which a warp, or a part of one, is an explicit vector of lanes."""

from kdsl.backend.cpu.compile import CpuObject, compile_assembly, compile_ir, compile_object
from kdsl.backend.cpu.host import HostCpu, UnsupportedCpuError
from kdsl.backend.cpu.jit import CpuCode, load

__all__ = ["CpuCode", "CpuObject", "HostCpu", "UnsupportedCpuError", "compile_assembly", "compile_ir", "compile_object", "load"]
