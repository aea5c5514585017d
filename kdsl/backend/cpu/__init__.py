"""The CPU target: typed IR to native SIMD code in which a warp, or a part of one, is an explicit vector of lanes.

The way of a kernel: `plan` decides what diverges and cuts the kernel at its barriers; `function` makes the entry point and the loop over blocks; `regions`
emits a block of threads, at block level in scalar code and between barriers as loops over groups of lanes, `wide` ones first; `split` finds loops that carry
too much for the registers, `strips` those whose reads the groups of a block share, `rounds` those that blocks run in turns; `hoist` tests before a loop what it
reads, `ahead` hints at what is read next; `emission` emits operations one by one, with `control` (and `branches`, `merge`, `trips`) for branches, loops and
jumps under masks (`masks`), `lanes` for index arithmetic, `specials` for thread indices, `memory`, `storage` and `scratch` for arrays, `checks` and `record`
for what fails, `exchange` and `matches` for lane exchange, `atomics`; `compile` makes an object file for a `host`, and `jit` loads it.
"""

from kdsl.backend.cpu.compile import CpuObject, compile_assembly, compile_ir, compile_object
from kdsl.backend.cpu.host import HostCpu, UnsupportedCpuError
from kdsl.backend.cpu.jit import CpuCode, load

__all__ = ["CpuCode", "CpuObject", "HostCpu", "UnsupportedCpuError", "compile_assembly", "compile_ir", "compile_object", "load"]
